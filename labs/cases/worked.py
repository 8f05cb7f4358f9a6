"""BLOOM-176B and MT-NLG 530B as worked cases: the published layout, and what the planner makes of it beside what the
teams printed.

Published numbers come from `labs/planner/published`; computed ones from the formulas of `labs/planner`, in which
nothing is fitted to either run. Where the two part, the row says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from labs.planner.configuration import STACKS, Configuration
from labs.planner.goodput import checkpoint_bytes, lost_share, young
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.memory import memory
from labs.planner.models import model
from labs.planner.recomputed import facts, published
from labs.planner.throughput import bubble, seconds, throughput
from translations import CourseError

HOUR, DAY = 3600.0, 86400.0
Unit = Literal["B", "GiB", "s", "TFLOP/s", "%", ""]
Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity of a run: `published` is the range that was printed, None where nothing was.

    `why` is the id of a reason, for a computed value outside of that range. Texts: `labs.case-row-<quantity>` and
    `labs.case-why-<why>`. Units: bytes ("GiB" for those that were printed in powers of two), seconds, TFLOP/s a GPU, a
    share; "" is a count.
    """

    quantity: str
    unit: Unit
    computed: float
    published: Range | None = None
    source: str = ""
    why: str = ""

    @property
    def off(self) -> float | None:
        """The share by which the computed value lies outside of the published range; None where nothing was printed."""
        if self.published is None:
            return None
        low, high = self.published
        return self.computed / min(max(self.computed, low), high) - 1

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__} | {"off": self.off}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run: its layout, its accelerators, its rows, and what its team had to solve: ids, and the source of each.

    A text of these is the message `labs.case-<id>`.
    """

    name: str
    plan: Configuration
    gpu: Accelerator
    rows: tuple[Row, ...]
    solved: Mapping[str, str]

    def row(self, quantity: str) -> Row:
        return next(row for row in self.rows if row.quantity == quantity)

    def as_json(self) -> dict[str, object]:
        plan = self.plan
        names = ("dp", "tp", "pp", "zero", "micro_batch", "micro_batches", "recompute")
        layout = {name: getattr(plan, name) for name in names} | {"layers": list(plan.layers)}
        rows = [row.as_dict() for row in self.rows]
        return {"case": self.name, "gpu": self.gpu.name, "layout": layout, "rows": rows, "solved": dict(self.solved)}


def case(name: str) -> Case:
    """Raises CourseError for a run that is no case here."""
    if name not in CASES:
        raise CourseError("labs.unknown-choice", name="case", value=name, known=", ".join(CASES))
    return CASES[name]()


def bloom() -> Case:
    """BLOOM-176B on 384 A100 of Jean Zay, March to July 2022."""
    told = facts("bloom_176b")
    layout, log, ramp, saves = (told[name] for name in ("layout", "log", "ramp", "saves"))
    gpu = accelerator("a100-80")
    plan = Configuration(
        model=model("bloom-176b"),
        dp=layout["dp"],
        tp=layout["tp"],
        pp=layout["pp"],
        zero=1,
        micro_batch=log["mbs"],
        recompute=layout["recompute"],
        stack=STACKS["megatron"],
    )

    def at(batch: int, micro_batch: int) -> Configuration:
        return replace(plan, micro_batch=micro_batch, micro_batches=batch // (micro_batch * plan.dp))

    plan, first, then = (
        at(log["gbs"], log["mbs"]),
        at(ramp["first_gbs"], ramp["first_mbs"]),
        at(ramp["then_gbs"], ramp["then_mbs"]),
    )
    uneven = replace(plan, stages=(6,) * 10 + (5, 5))  # 70 layers on 12 stages, with embedding and head not counted
    steps = told["duration"]["tokens"] / (plan.global_batch * plan.length)
    between = told["failures"]["days_between"] * DAY
    rows = (
        Row(
            quantity="weights",
            unit="GiB",
            computed=2 * plan.model.parameters,
            published=_printed(told["ckpt_bf16"], 0, 2**30),
            source="README",
            why="rounded-up",
        ),
        Row(
            quantity="checkpoint",
            unit="GiB",
            computed=checkpoint_bytes(parameters=plan.model.parameters),
            published=_printed(saves["checkpoint_tib"], 1, 2**40),
            source="README",
            why="rounded-up",
        ),
        _bytes("memory", memory(plan).total, _measured_memory(plan), "chronicles-prequel", "outside-the-formula"),
        _bytes("memory-uneven", memory(uneven).total),
        Row(quantity="bubble", unit="%", computed=bubble(plan)),
        _step("seconds", plan, gpu, _printed(log["sec"], 2), "chronicles 2022-03-18", "wider-layers"),
        _rate("tflops-measured", plan, gpu, log["sec"], _printed(log["tflops"], 2), "chronicles 2022-03-18"),
        Row(quantity="bubble-first", unit="%", computed=bubble(first)),
        _rate("tflops-first", first, gpu, None, _printed(ramp["first_tflops"], 2), "README", "nothing-hidden"),
        _rate("tflops-then", then, gpu, None, _printed(ramp["then_tflops"], 0), "README", "small-products"),
        Row(
            quantity="training",
            unit="s",
            computed=steps * log["sec"],
            published=_wall(told["luccioni"]),
            source="Luccioni et al. 2022",
            why="not-only-steps",
        ),
        Row(
            quantity="lost",
            unit="s",
            computed=saves["lost_iterations"] * log["sec"],
            published=_printed(saves["lost_hours"], 1, HOUR),
            source="chronicles 2022-03-21",
        ),
        Row(
            quantity="save-every",
            unit="",
            computed=young(cost=saves["seconds"], mtbf=between) / log["sec"],
            published=_printed(saves["then_every_iterations"], 0),
            source="chronicles 2022-03-22",
            why="flat",
        ),
        *(
            Row(
                quantity=f"lost-share-{every}",
                unit="%",
                computed=lost_share(interval=every * log["sec"], cost=saves["seconds"], mtbf=between),
            )
            for every in (saves["every_iterations"], saves["then_every_iterations"])
        ),
    )
    return Case(name=plan.model.name, plan=plan, gpu=gpu, rows=rows, solved=_BLOOM_SOLVED)


def mt_nlg() -> Case:
    """MT-NLG 530B on 280 and 420 DGX A100 of Selene."""
    told, table = facts("mtnlg_530b"), published("mtnlg_530b")["iter"]
    gpu = accelerator("a100-80")
    arch, layout = told["arch"], told["layout"]
    few, many = (row[1] // layout["gpus_per_replica"] for row in table["rows"])

    def on(replicas: int) -> Configuration:
        return Configuration(
            model=model("mt-nlg-530b"),
            dp=replicas,
            tp=layout["tp"],
            pp=layout["pp"],
            micro_batches=arch["batch"] // replicas,
            recompute="full",
            stack=STACKS["megatron"],
        )

    plan = on(few)
    small = accelerator("a100-40")
    (_, _, slow, slow_rate), (_, _, fast, fast_rate) = table["rows"]
    at, scaled = "section 2.4", on(many)
    rows = (
        Row(
            quantity="parameters",
            unit="",
            computed=plan.model.parameters,
            published=_printed(arch["params"] / 1e9, 0, 1e9),
            source="section 3.2",
        ),
        _bytes("memory", memory(plan).total),
        Row(quantity="fits-40", unit="%", computed=memory(plan).total / small.memory),
        Row(quantity="bubble", unit="%", computed=bubble(plan)),
        _step("seconds", plan, gpu, _printed(slow, 1), at, "constant"),
        _rate("tflops-measured", plan, gpu, slow, _printed(slow_rate, 0), at),
        Row(quantity="bubble-more", unit="%", computed=bubble(scaled)),
        _step("seconds-more", scaled, gpu, _printed(fast, 1), at, "constant"),
        _rate("tflops-measured-more", scaled, gpu, fast, _printed(fast_rate, 0), at),
        Row(
            quantity="scaling",
            unit="%",
            computed=seconds(plan, gpu=gpu) * few / (seconds(scaled, gpu=gpu) * many),
            published=(slow * few / (fast * many),) * 2,
            source=at,
            why="only-the-bubble",
        ),
    )
    return Case(name=plan.model.name, plan=plan, gpu=gpu, rows=rows, solved=_MT_NLG_SOLVED)


CASES: Mapping[str, Callable[[], Case]] = {"bloom-176b": bloom, "mt-nlg-530b": mt_nlg}

_BLOOM_SOLVED = {
    "bloom-layers": "README, Architecture",
    "bloom-bf16": "chronicles 2022-03-18",
    "bloom-fp32-sums": "README, Deepspeed config",
    "bloom-init": "README, std Init",
    "bloom-ramp": "README, Global batch size",
    "bloom-hang": "README, Important environment variables",
    "bloom-failures": "chronicles 2022-03-21, 2022-04-XX",
    "bloom-clipping": "chronicles 2022-03-24, 2022-03-28",
    "bloom-slow-gpu": "chronicles 2022-04-28",
    "bloom-deadlock": "chronicles 2022-04-30, 2022-05-09",
    "bloom-reshape": "README, Checkpoint reshaping",
}
_MT_NLG_SOLVED = {
    "mt-nlg-layout": "arXiv 2201.11990, 2.2",
    "mt-nlg-mapping": "arXiv 2201.11990, 2.3",
    "mt-nlg-batch": "arXiv 2201.11990, 2.4, 3.2",
    "mt-nlg-init": "arXiv 2201.11990, 3.2",
}


# --- rows


def _bytes(quantity: str, computed: float, printed: Range | None = None, source: str = "", why: str = "") -> Row:
    return Row(quantity=quantity, unit="B", computed=computed, published=printed, source=source, why=why)


def _step(quantity: str, plan: Configuration, gpu: Accelerator, printed: Range, source: str, why: str) -> Row:
    computed = seconds(plan, gpu=gpu)
    return Row(quantity=quantity, unit="s", computed=computed, published=printed, source=source, why=why)


def _rate(
    quantity: str,
    plan: Configuration,
    gpu: Accelerator,
    step: float | None,
    printed: Range,
    source: str,
    why: str = "",
) -> Row:
    """TFLOP/s a GPU, from a measured step or from the predicted one."""
    computed = throughput(plan, gpu=gpu, step_seconds=step).tflops_per_gpu
    return Row(quantity=quantity, unit="TFLOP/s", computed=computed, published=printed, source=source, why=why)


def _printed(value: float, decimals: int, unit: float = 1.0) -> Range:
    """All that rounds to this print."""
    half = 0.5 * 10**-decimals
    return (value - half) * unit, (value + half) * unit


def _measured_memory(plan: Configuration) -> Range:
    """What nvidia-smi showed for this model at this layout, over the runs that tried it, in GB."""
    table = published("bloom_176b")["prequel_bf16"]
    names = [*table["config_cols"], *table["value_cols"]]
    runs: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    wanted = {"hidden": plan.model.hidden, "layers": plan.model.layers, "mbs": plan.micro_batch, "tp": plan.tp}
    found = [run["mem_gb"] * 1e9 for run in runs if wanted.items() <= run.items() and run["dp"] == plan.dp]
    return min(found), max(found)


def _wall(printed: str) -> Range:
    """Seconds of "118 d 5 h 41 min"."""
    days, hours, minutes = (float(part) for part in printed.split()[::2])
    return _printed(days * 1440 + hours * 60 + minutes, 0, 60.0)
