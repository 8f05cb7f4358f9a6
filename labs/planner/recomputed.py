"""Every printed number of the published tables (`published/`) that a formula determines, computed anew.

A table's inputs stand in its rows; a formula gives a value, or the range that rounded inputs leave open. What was
measured on a machine is no part of it. Nothing here is tuned to a table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from labs.planner import activations, costs, estimators, zero
from labs.planner.models import gpt, model

FOLDER = Path(__file__).parent / "published"
Row = Mapping[str, Any]
Value = Any  # a number, the range that rounded inputs leave open, or None where no formula says it
Formula = Callable[[Row], Value]
Found = Literal["exact", "rounded", "truncated", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One printed number beside the computed range; `why` says what the source knew or did where they differ."""

    source: str
    table: str
    column: str
    row: tuple[Any, ...]
    printed: float
    decimals: int
    low: float
    high: float
    why: str = ""

    @property
    def found(self) -> Found:
        """exact, within the rounding of its print, truncated in print, or off."""
        if math.isclose(self.low, self.high) and math.isclose(self.low, self.printed, rel_tol=1e-9):
            return "exact"
        half, slack = 0.5 * 10**-self.decimals, 1e-9 * abs(self.printed)
        if self.low - half - slack <= self.printed <= self.high + half + slack:
            return "rounded"
        if self.printed <= self.high and self.low < self.printed + 10**-self.decimals + slack:
            return "truncated"
        return "off"

    @property
    def off(self) -> float:
        """Share by which the printed number lies outside of the computed range; 0 within the rounding of the print."""
        if self.found != "off":
            return 0.0
        nearest = self.low if self.printed < self.low else self.high
        return self.printed / nearest - 1


def cells() -> Iterator[Cell]:
    """All cells of tables that a formula determines, in the order of the formulas; those of single facts are in
    `recomputed_facts.py`.
    """
    why = reasons()
    for (source, table, column), formula in FORMULAS.items():
        found = published(source)[table]
        names = [*found["config_cols"], *found["value_cols"]]
        for values in found["rows"]:
            row = dict(zip(names, values, strict=True))
            if row[column] is None:
                continue
            computed = formula(row)
            if computed is None:
                continue
            low, high = computed if isinstance(computed, tuple) else (computed, computed)
            yield Cell(
                source=source,
                table=table,
                column=column,
                row=tuple(values[: len(found["config_cols"])]),
                printed=float(row[column]),
                decimals=decimals(row[column]),
                low=min(low, high),
                high=max(low, high),
                why=why.get((source, table, column), ""),
            )


@functools.cache
def published(source: str) -> Mapping[str, Any]:
    """The tables of one source by id."""
    data = yaml.safe_load((FOLDER / f"{source}.yaml").read_text(encoding="utf-8"))
    return {table["id"]: table for table in data["tables"]}


@functools.cache
def facts(source: str) -> Mapping[str, Any]:
    """The single facts of one source by id: a number, a list, or numbers by name."""
    data = yaml.safe_load((FOLDER / f"{source}.yaml").read_text(encoding="utf-8"))
    return {fact["id"]: fact["value"] for fact in data.get("facts", ())}


@functools.cache
def reasons() -> Mapping[tuple[str, str, str], str]:
    """Why printed numbers differ, by source, table and column."""
    rows = yaml.safe_load((FOLDER / "explained.yaml").read_text(encoding="utf-8"))["explained"]
    return {(row["source"], row["table"], row["column"]): row["why"] for row in rows}


FORMULAS: dict[tuple[str, str, str], Formula] = {}


def _of(source: str, table: str, *columns: str) -> Callable[[Formula], Formula]:
    def keep(formula: Formula) -> Formula:
        for column in columns:
            FORMULAS[source, table, column] = formula
        return formula

    return keep


def decimals(printed: Any) -> int:
    text = repr(printed)
    return len(text.partition(".")[2]) if "." in text and not text.endswith(".0") else 0


def _as_printed(value: float, decimals: int = 0) -> tuple[float, float]:
    """All numbers that round to this print."""
    half = 0.5 * 10**-decimals
    return value - half, value + half


def within(compute: Callable[[float], float], printed: Any) -> tuple[float, float]:
    """What a formula gives for a printed input, which is rounded itself."""
    low, high = _as_printed(float(printed), decimals(printed))
    return compute(low), compute(high)


# --- ZeRO (Rajbhandari et al. 2020)

_STAGES = {"none": 0, "os": 1, "os_g": 2, "os_g_p": 3}


@_of("zero_sc20", "t1", "mem")
@_of("zero_sc20", "fig1", "mem")
def _(row: Row) -> Value:
    states = zero.model_states(parameters=int(row["psi"]), stage=_STAGES[row["stage"]], ranks=int(row["dp"]))
    return states.total / 1e9


@_of("zero_sc20", "t2", "size_b")
def _(row: Row) -> Value:
    """What fits in 32 GB at a data-parallel degree of 64, times the tensor-parallel degree."""
    which = {"baseline": "none", **{name: name for name in _STAGES}}.get(row["which"])
    if which is None:
        return None
    shares = {"none": 16.0, "os": 4 + 12 / 64, "os_g": 2 + 14 / 64, "os_g_p": 16 / 64}
    return float(row["mp"]) * 32 / shares[which]


@_of("zero_sc20", "t4", "label_b")
def _(row: Row) -> Value:
    """Labels of model sizes: between the layers alone and with GPT-2's embedding."""
    layers = 12 * row["layers"] * row["hidden"] ** 2 / 1e9
    return layers, _gpt(row, vocabulary=50257, sequence=1024) / 1e9


def _gpt(row: Row, *, vocabulary: int, sequence: int) -> int:
    made = gpt(
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        heads=int(row.get("heads", 1)),
        vocabulary=vocabulary,
        sequence=sequence,
    )
    return made.parameters


# --- ZeRO-Offload, ZeRO-Infinity (Ren et al. 2021, Rajbhandari et al. 2021)


@_of("zero_offload_atc21", "t1", "mem_x_m", "printed_mem_x_m")
def _(row: Row) -> Value:
    """Bytes a parameter that stay on the GPU: 2 of parameters, 2 of gradients, 12 of the update's states."""
    return 2 + (2 if row["g16"] == "gpu" else 0) + (12 if row["update"] == "gpu" else 0)


@_of("zero_offload_atc21", "t1", "reduction")
def _(row: Row) -> Value:
    return 16 / row["mem_x_m"]


@_of("zero_offload_atc21", "t3", "params_b")
def _(row: Row) -> Value:
    return 12 * row["layers"] * row["hidden"] ** 2 / 1e9, _gpt(row, vocabulary=50257, sequence=1024) / 1e9


@_of("zero_infinity_sc21", "fig2a", "states_tib")
def _(row: Row) -> Value:
    """Equation 2: 20 bytes for each of 12 nl hd^2 parameters."""
    return 240 * row["layers"] * row["hidden"] ** 2 / 2**40


@_of("zero_infinity_sc21", "fig2a", "act_tib")
def _(row: Row) -> Value:
    """Equation 5 for 64 sequences in every layer: the figure's, which the text does not state."""
    return row["layers"] * 64 * _working(row) / 2**40


@_of("zero_infinity_sc21", "fig2a", "ckpt_tib")
def _(row: Row) -> Value:
    """Equation 3 with 32 sequences of 1024 a node and one checkpoint a layer."""
    return 2 * 32 * 1024 * row["hidden"] * row["layers"] / 2**40


@_of("zero_infinity_sc21", "fig2a", "mswm_gib")
def _(row: Row) -> Value:
    """Equation 4: the largest operator, hd x 4 hd, parameters and gradients in 2 bytes each."""
    return 16 * row["hidden"] ** 2 / 2**30


@_of("zero_infinity_sc21", "fig2a", "awm_gib")
def _(row: Row) -> Value:
    """Equation 5 with 4 sequences a GPU."""
    return 4 * _working(row) / 2**30


def _working(row: Row) -> float:
    return float(1024 * (16 * row["hidden"] + 2 * row["heads"] * 1024))


@_of("zero_infinity_sc21", "fig2b", "gpu_tb")
def _(row: Row) -> Value:
    return 0.032 * row["gpus"], 0.5 * row["gpus"] / 16


@_of("zero_infinity_sc21", "fig2b", "cpu_tb")
def _(row: Row) -> Value:
    return 1.5 * row["nodes"]


@_of("zero_infinity_sc21", "fig2b", "nvme_tb")
def _(row: Row) -> Value:
    return 28.0 * row["nodes"]


@_of("zero_infinity_sc21", "fig1", "p3d_t")
def _(row: Row) -> Value:
    """3D parallelism grows with the nodes from what one DGX-2 holds."""
    return 0.02 * row["dgx2_nodes"]


@_of("zero_infinity_sc21", "fig1", "zinf_t")
def _(row: Row) -> Value:
    return 1.0 * row["dgx2_nodes"]


@_of("zero_infinity_sc21", "t3", "slow_bw")
def _(row: Row) -> Value:
    return 3.0 * row["peak_pflops_per_device"] / 0.07


@_of("zero_infinity_sc21", "t3", "slow_agg")
def _(row: Row) -> Value:
    return 512 * row["slow_bw"] / 1000


@_of("zero_infinity_sc21", "t3", "gpu_gpu")
def _(row: Row) -> Value:
    return 70 * row["peak_pflops_per_device"] / 0.07


# --- Megatron-LM (Shoeybi et al. 2019, Narayanan et al. 2021, the repository's own tables)


@_of("megatron_2019", "t1", "params_b")
def _(row: Row) -> Value:
    return _gpt(row, vocabulary=51200, sequence=1024) / 1e9


@_of("megatron_sc21", "t1", "params_b")
def _(row: Row) -> Value:
    return _gpt(row, vocabulary=51200, sequence=2048) / 1e9


@_of("megatron_sc21", "t1", "pct_peak")
def _(row: Row) -> Value:
    return within(lambda tflops: 100 * tflops / 312, row["tflops"])


@_of("megatron_sc21", "t1", "agg_pf")
def _(row: Row) -> Value:
    return within(lambda tflops: tflops * row["gpus"] / 1000, row["tflops"])


_SC21 = {174.6: "gpt-175b", 529.6: "gpt-530b"}


def iteration(name: str, *, batch: int, recompute: str, vocabulary: int | None = None) -> float:
    shape = model(name)
    return activations.flops(
        layers=shape.layers,
        sequence=shape.sequence,
        batch=batch,
        hidden=shape.hidden,
        vocabulary=vocabulary or shape.vocabulary,
        recompute=recompute,
    )


@_of("megatron_sc21", "t2", "days")
def _(row: Row) -> Value:
    """Days for 300 billion tokens at the measured rate, with all of the work of full recomputation (equation 3)."""
    work = iteration(_SC21[row["params_b"]], batch=1, recompute="full") * 300e9 / 2048
    return within(lambda tflops: work / (row["gpus"] * tflops * 1e12) / 86400, row["tflops"])


@_of("mtnlg_530b", "iter", "tflops")
def _(row: Row) -> Value:
    work = iteration("mt-nlg-530b", batch=1920, recompute="full")
    return within(lambda seconds: work / (row["gpus"] * seconds) / 1e12, row["sec"])


def _readme(row: Row, *, batch: int, milliseconds: Any, gpus: int) -> Value:
    work = activations.flops(
        layers=row["layers"], sequence=1024, batch=batch, hidden=row["hidden"], vocabulary=51200, recompute="full"
    )
    return within(lambda ms: work / (gpus * ms / 1000) / 1e12, milliseconds)


@_of("megatron_readme", "v100_a100_2020", "v100_tf")
def _(row: Row) -> Value:
    return _readme(row, batch=8, milliseconds=row["v100_ms"], gpus=row["tp"])


@_of("megatron_readme", "v100_a100_2020", "a100_tf")
def _(row: Row) -> Value:
    return _readme(row, batch=16, milliseconds=row["a100_ms"], gpus=row["tp"])


def _alone(row: Row) -> Row:
    """The row of the same model on one replica."""
    found = published("megatron_readme")["v100_a100_2020"]
    names = [*found["config_cols"], *found["value_cols"]]
    rows = [dict(zip(names, values, strict=True)) for values in found["rows"]]
    return next(each for each in rows if each["params_b"] == row["params_b"])


@_of("megatron_readme", "a100_dp_2020", "scaling_pct")
def _(row: Row) -> Value:
    alone = _alone(row)["a100_ms"]
    return within(lambda ms: 100 * alone / ms, row["ms"])


@_of("megatron_readme", "a100_dp_2020", "tf")
def _(row: Row) -> Value:
    return _readme(_alone(row), batch=2048, milliseconds=row["ms"], gpus=row["gpus"])


@_of("megatron_readme", "h100_2024", "label_b")
def _(row: Row) -> Value:
    """12 l h^2 + 13 l h + s h + 2 V h: embedding and head are two tables."""
    return (_gpt(row, vocabulary=131072, sequence=4096) + 131072 * row["hidden"]) / 1e9


@_of("megatron_readme", "h100_2024", "mfu_pct")
def _(row: Row) -> Value:
    return within(lambda tflops: 100 * tflops / 989, row["tf"])


@_of("megatron_readme", "h100_2024", "agg_pf")
def _(row: Row) -> Value:
    return within(lambda tflops: tflops * row["gpus"] / 1000, row["tf"])


# --- recomputation (Korthikanti et al. 2022)

_KORTHIKANTI = {"22B": "gpt-22b", "175B": "gpt-175b", "530B": "gpt-530b", "1T": "gpt-1t"}


@_of("korthikanti_2022", "t3", "gpus")
def _(row: Row) -> Value:
    return row["tp"] * row["pp"]


@_of("korthikanti_2022", "t4", "combined")
def _(row: Row) -> Value:
    return row["fwd"] + row["bwd"]


@_of("korthikanti_2022", "t4", "overhead_pct")
def _(row: Row) -> Value:
    return within(lambda combined: 100 * (combined / 19.6 - 1), row["combined"])


@_of("korthikanti_2022", "t5", "gain_pct")
def _(row: Row) -> Value:
    return 100 * (row["full_s"] / row["present_s"] - 1)


@_of("korthikanti_2022", "t5", "mfu_pct")
def _(row: Row) -> Value:
    return _utilization(row, "none")


@_of("korthikanti_2022", "t5", "hfu_pct")
def _(row: Row) -> Value:
    return _utilization(row, "selective")


def _utilization(row: Row, recompute: str) -> Value:
    sizes = {"22B": (4, 8), "530B": (280, 280)}
    batch, gpus = sizes[row["model"]]
    work = iteration(_KORTHIKANTI[row["model"]], batch=batch, recompute=recompute)
    return within(lambda seconds: 100 * work / (seconds * gpus * 312e12), row["present_s"])


def _of_baseline(sequence_parallel: bool, recompute: str) -> Formula:
    def formula(row: Row) -> Value:
        shape = model(_KORTHIKANTI[row["model"]])
        sizes: dict[str, Any] = {
            "sequence": 2048,
            "batch": 1,
            "hidden": shape.hidden,
            "heads": shape.heads,
            "tensor": 8,
        }
        some = activations.layer(**sizes, sequence_parallel=sequence_parallel, recompute=recompute)
        return 100 * some / activations.layer(**sizes)

    return formula


for _column, _parallel, _mode in (
    ("sp_pct", True, "none"),
    ("sel_pct", False, "selective"),
    ("both_pct", True, "selective"),
    ("full_pct", False, "full"),
):
    FORMULAS["korthikanti_2022", "fig7_derived", _column] = _of_baseline(_parallel, _mode)


# --- BLOOM


@_of("bloom_176b", "prequel_bf16", "tflops")
def _(row: Row) -> Value:
    return _bloom(row, hidden=row["hidden"], layers=row["layers"])


@_of("bloom_176b", "prequel_fp16_layout", "tflops")
def _(row: Row) -> Value:
    return _bloom(row, hidden=14336, layers=72)


@_of("bloom_176b", "prequel_gbs", "tflops")
def _(row: Row) -> Value:
    return _bloom(row, hidden=13824, layers=78)


def _bloom(row: Row, *, hidden: int, layers: int) -> Value:
    gpus = row["dp"] * row["tp"] * row["pp"] if "dp" in row else 384
    work = activations.flops(
        layers=layers, sequence=2048, batch=row["gbs"], hidden=hidden, vocabulary=250880, recompute="full"
    )
    return within(lambda seconds: work / (gpus * seconds) / 1e12, row["sec"])


# --- MegaScale, Llama 3


@_of("megascale", "t2", "ktok_s")
def _(row: Row) -> Value:
    return within(lambda seconds: row["batch"] * 2048 / seconds / 1000, row["sec"])


@_of("megascale", "t2", "days")
def _(row: Row) -> Value:
    return within(lambda ktok: 300e9 / (1000 * ktok) / 86400, row["ktok_s"])


@_of("megascale", "t2", "mfu_pct")
def _(row: Row) -> Value:
    """Equation 7 with a vocabulary of 64,000, of an A100's peak."""
    work = activations.flops(
        layers=96, sequence=2048, batch=row["batch"], hidden=12288, vocabulary=64000, recompute="none"
    )
    return within(lambda seconds: 100 * work / (row["gpus"] * seconds * 312e12), row["sec"])


@_of("megascale", "t2", "agg_pf")
def _(row: Row) -> Value:
    return within(lambda share: share / 100 * 312e12 * row["gpus"] / 1e15, row["mfu_pct"])


@_of("llama3_405b", "t4", "mfu_pct")
def _(row: Row) -> Value:
    return within(lambda tflops: 100 * tflops / 989, row["tflops"])


@_of("llama3_405b", "t4", "tokens_per_batch")
def _(row: Row) -> Value:
    return row["batch_per_dp"] * row["dp_printed"] * row["seq"]


# --- estimators and handbooks


@_of("ultrascale_playbook", "mem", "no_fp32_acc")
def _(row: Row) -> Value:
    return 16 * row["params_b"]


@_of("ultrascale_playbook", "mem", "fp32_acc")
def _(row: Row) -> Value:
    return 20 * row["params_b"]


@_of("est_llm_analysis", "mtnlg", "ideal_s")
def _(row: Row) -> Value:
    return iteration("mt-nlg-530b", batch=1920, recompute="full", vocabulary=50272) / (row["gpus"] * 312e12)


@_of("est_deepspeed", "z2_cold", "cpu_gib")
def _(_row: Row) -> Value:
    return estimators.deepspeed_zero_2(parameters=2_851_000_000, gpus_per_node=8).cpu / 2**30


@_of("est_deepspeed", "z2_cold", "gpu_gib_docs")
def _(_row: Row) -> Value:
    return estimators.deepspeed_zero_2_documented(parameters=2_851_000_000, gpus_per_node=8).gpu / 2**30


def _cold(row: Row) -> estimators.Estimate:
    return estimators.deepspeed_zero_3(
        parameters=2_851_000_000,
        largest_layer=32_000_000,
        gpus_per_node=8,
        offload_parameters=row["offload_param"] == "cpu",
        offload_optimizer=row["offload_opt"] == "cpu",
        init=bool(row["zero_init"]),
    )


@_of("est_deepspeed", "z3_cold", "cpu_gib")
def _(row: Row) -> Value:
    return _cold(row).cpu / 2**30


@_of("est_deepspeed", "z3_cold", "gpu_gib")
def _(row: Row) -> Value:
    return _cold(row).gpu / 2**30


@_of("est_deepspeed", "t5large", "mib")
def _(row: Row) -> Value:
    """The layer whole, or the layer and 2 bytes a parameter over 4 GPUs; the sizes are printed rounded."""
    states = 2 / 4 if row["case"] == "case3_offload_opt" else 0.0
    low, high = (
        4 * layer + states * parameters
        for layer, parameters in zip(_as_printed(row["largest_m"], 1), _as_printed(row["params_m"], 2), strict=True)
    )
    return low * 1e6 / 2**20, high * 1e6 / 2**20


@_of("est_accelerate", "bert", "largest_mib")
def _(row: Row) -> Value:
    return 84.95 * _SIZES[row["dtype"]] / 4


@_of("est_accelerate", "bert", "total_mib")
def _(row: Row) -> Value:
    return 413.18 * _SIZES[row["dtype"]] / 4


@_of("est_accelerate", "bert", "adam_mib")
def _(row: Row) -> Value:
    """Four times the size, which from a GiB on is printed in GiB to two decimals."""
    if row["total_mib"] < 256:
        return within(lambda size: 4 * size, row["total_mib"])
    return within(lambda gib: gib * 1024, round(4 * row["total_mib"] / 1024, 2))


@_of("est_accelerate", "idefics80b", "total_gib")
def _(row: Row) -> Value:
    """Of the size in 16 bits, which is what the model comes in."""
    return within(lambda size: size * _SIZES[row["dtype"]] / 2, 148.56)


@_of("est_accelerate", "idefics80b", "adam_gib")
def _(row: Row) -> Value:
    return 4 * row["total_gib"]


_SIZES = {"float32": 4, "float16": 2, "int8": 1, "int4": 0.5}


def _eleuther(row: Row) -> tuple[float, estimators.Eleuther]:
    features = 3.5 if row["name"].endswith("ff3p5") else 4.0
    sizes: dict[str, int] = {"layers": row["L"], "hidden": row["h"], "sequence": row["s"]}
    parameters = estimators.eleuther_parameters(**sizes, vocabulary=51200, features=features)
    found = estimators.eleuther(
        parameters=parameters,
        **sizes,
        heads=row["a"],
        batch=row["b"],
        gpus=row["gpus"],
        tensor=row["tp"],
        stage=row["zero"],
        recompute=row["ckpt"],
    )
    return parameters, found


@_of("est_eleuther_cookbook", "examples", "params_b")
def _(row: Row) -> Value:
    return _eleuther(row)[0] / 1e9


def _eleuther_part(part: str) -> Formula:
    def formula(row: Row) -> Value:
        return getattr(_eleuther(row)[1], part) / 2**30

    return formula


for _column, _part in (
    ("act", "activations"),
    ("model", "model"),
    ("grad", "gradients"),
    ("opt", "optimizer"),
    ("total", "total"),
):
    FORMULAS["est_eleuther_cookbook", "examples", _column] = _eleuther_part(_part)


# --- llm-analysis: its stored outputs count 2 bytes of weights, 2 of gradients and 16 of Adam for each of 12 l h^2
# parameters, and the embedding whole in every stage


def _llm_analysis(row: Row) -> tuple[float, float]:
    """Parameters of the layers (without biases and norms) on one GPU, and of the embedding over tensor ranks."""
    shape = model("gpt-175b" if row["params_b"] < 200 else "gpt-530b")
    shards = row["tp"] * row["pp"] * (row["dp"] if row["zero"] >= 3 else 1)
    return 12 * shape.layers * shape.hidden**2 / shards, 50257 * shape.hidden / row["tp"]


@_of("est_llm_analysis", "sc21_mem", "weight_gb")
def _(row: Row) -> Value:
    return 2 * sum(_llm_analysis(row)) / 1e9


@_of("est_llm_analysis", "sc21_mem", "grad_gb")
def _(row: Row) -> Value:
    return 2 * _llm_analysis(row)[0] / 1e9


@_of("est_llm_analysis", "sc21_mem", "opt_gb")
def _(row: Row) -> Value:
    return 16 * _llm_analysis(row)[0] / 1e9


@_of("est_llm_analysis", "sc21_mem", "act_gb")
def _(row: Row) -> Value:
    """Full recomputation with checkpoints split over the tensor-parallel ranks, p micro-batches in flight."""
    shape = model("gpt-175b" if row["params_b"] < 200 else "gpt-530b")
    return 2 * 2048 * row["bs_per_gpu"] * shape.hidden * shape.layers / row["tp"] / 1e9


@_of("est_llm_analysis", "sc21_mem", "days")
def _(row: Row) -> Value:
    """Days for 300 billion tokens at the rate that the paper measured on as many GPUs."""
    table = published("megatron_sc21")["t2"]
    names = [*table["config_cols"], *table["value_cols"]]
    asked = ("zero3" if row["zero"] == 3 else "ptd", round(row["params_b"]), row["tp"] * row["pp"] * row["dp"])
    runs = (dict(zip(names, values, strict=True)) for values in table["rows"])
    run = next((each for each in runs if (each["scheme"], round(each["params_b"]), each["gpus"]) == asked), None)
    if run is None:
        return None
    work = iteration(_SC21[run["params_b"]], batch=1, recompute="full", vocabulary=50257) * 300e9 / 2048
    return within(lambda tflops: work / (asked[2] * tflops * 1e12) / 86400, run["tflops"])


# --- handbooks and reports


@_of("ultrascale_playbook", "fp8", "bytes")
def _(row: Row) -> Value:
    """16-bit parameters and gradients, fp32 master weights and two states; 4 more where gradients are added in fp32."""
    return {"bf16_no_fp32_acc": 2 + 2 + 4 + 8, "bf16_fp32_acc": 2 + 2 + 4 + 8 + 4}.get(row["recipe"])


_GRANITE = {"parameters": 6_738_415_616, "layers": 32, "hidden": 4096, "sequence": 4096, "batch": 8}
"""The shape of Llama 2 7B, as its paper has it, and the length that the times and rates of the table agree on."""


@_of("hf_ds_fsdp_precision", "t3", "step_s")
def _(row: Row) -> Value:
    return within(lambda rate: _GRANITE["batch"] * _GRANITE["sequence"] / rate, row["tok_s_dev"])


@_of("hf_ds_fsdp_precision", "t3", "mfu")
def _(row: Row) -> Value:
    """Of an A100's peak: 6 operations a parameter and token, without attention's own."""
    return within(lambda rate: 6 * _GRANITE["parameters"] * rate / 312e12, row["tok_s_dev"])


@_of("reliability_2025", "mttf", "hours")
def _(row: Row) -> Value:
    """The inverse of the rate of all nodes."""
    rate = facts("reliability_2025")["rate"]
    nodes = row["gpus"] / rate["node_gpus"]
    return within(lambda failures: 24 * 1000 / (failures * nodes), rate["per_1000_node_days"])


# --- energy


def _site_kwh(row: Row) -> float:
    return costs.energy_kwh(hours=row["gpu_hours"], watts=row["watts"], pue=facts("llama_2023")["place"]["pue"])


@_of("llama_2023", "t15", "mwh")
def _(row: Row) -> Value:
    """GPU hours, the GPUs' rated power, and what the building adds."""
    return _site_kwh(row) / 1000


@_of("llama_2023", "t15", "tonnes")
def _(row: Row) -> Value:
    """At one grid's average for all."""
    return costs.co2_kg(kwh=_site_kwh(row), grid=facts("llama_2023")["place"]["grid"]) / 1000
