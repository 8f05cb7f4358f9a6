"""Single numbers of the published sources (`published/`, their `facts`) that a formula determines, computed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from labs.planner import activations, costs, links, zero
from labs.planner.configuration import Configuration, Stack
from labs.planner.models import gpt, model, padded
from labs.planner.recomputed import Cell, Value, decimals, facts, iteration, reasons, within

Key = str | int
"""Which of a fact's numbers, where it has several; otherwise nothing."""
Formula = Callable[[Any, Key], Value]
FACTS: dict[tuple[str, str, Key], tuple[Formula, float]] = {}
"""By source, fact and key: the formula of the printed value, in units of so much."""


def cells_of_facts() -> Iterator[Cell]:
    """All that a formula determines."""
    why = reasons()
    for (source, fact, key), (formula, unit) in FACTS.items():
        value = facts(source)[fact]
        printed = float(value[key] if key != "" else value) / unit
        computed = formula(value, key)
        low, high = computed if isinstance(computed, tuple) else (computed, computed)
        yield Cell(
            source=source,
            table="facts",
            column=fact,
            row=(key,),
            printed=printed,
            decimals=decimals(printed),
            low=min(low, high),
            high=max(low, high),
            why=why.get((source, "facts", fact), ""),
        )


def _fact(source: str, name: str, *keys: Key, unit: float = 1.0) -> Callable[[Formula], Formula]:
    def keep(formula: Formula) -> Formula:
        for key in keys or ("",):
            FACTS[source, name, key] = formula, unit
        return formula

    return keep


@_fact("zero_sc20", "r_act_100b")
def _(_: Any, __: Key) -> Value:
    """Section 6.1: 2 bytes of each of 125 layers' inputs, with its own sizes."""
    return 2 * 32 * 1024 * 8192 * 125 / 1e9


@_fact("zero_sc20", "r_cb")
def _(_: Any, __: Key) -> Value:
    return 4 * 3e9 / 1e9


@_fact("zero_sc20", "max_dp64", 0, 1, 2)
def _(_: Any, key: Key) -> Value:
    """Billions of parameters in 32 GB at a data-parallel degree of 64, by stage."""
    states = zero.model_states(parameters=64, stage=int(key) + 1, ranks=64)
    return 32 * 64 / states.total


def _elements_sent(stage: int) -> float:
    """Elements that a rank sends in a step for each parameter, on so many ranks that d - 1 is d."""
    shape = gpt(layers=1, hidden=64, heads=1, vocabulary=64, sequence=64)
    each = Stack(name="", parameter=1, gradient=1, optimizer_states=0)
    plan = Configuration(model=shape, dp=10**9, zero=stage, stack=each)
    return links.data_bytes(plan) / shape.parameters


@_fact("zero_sc20", "comm_psi", "dp", "os", "os_g", "os_g_p")
def _(_: Any, key: Key) -> Value:
    return _elements_sent(("dp", "os", "os_g", "os_g_p").index(str(key)))


@_fact("zero_infinity_sc21", "pflops_512")
def _(_: Any, __: Key) -> Value:
    """512 GPUs at what figure 5a prints for a trillion parameters."""
    return within(lambda tflops: 512 * tflops / 1000, 49)


@_fact("zero_infinity_sc21", "bw_opt_90")
def _(_: Any, __: Key) -> Value:
    """Equations 6 and 10 solved for the bandwidth: 90 % at batch 2 and sequence 1024."""
    return 9 * 70e12 / (1024 * 2 / 4) / 1e12


@_fact("deepspeed_posts", "gpt2_adam", "states_gb")
def _(_: Any, __: Key) -> Value:
    return 12 * 1.5


@_fact("deepspeed_posts", "gpt2_adam", "zero1_8gpu_gb")
def _(_: Any, __: Key) -> Value:
    return 12 * 1.5 / 8


@_fact("deepspeed_posts", "z3off_tflops", "tflops_per_gpu")
def _(fact: Any, _: Key) -> Value:
    return within(lambda pflops: 1000 * pflops / fact["gpus"], fact["pflops"])


@_fact("megatron_2019", "baseline_tf")
def _(_: Any, __: Key) -> Value:
    """30 % of a V100's peak in a DGX-2H."""
    return within(lambda share: share / 100 * 130, 30)


@_fact("megatron_2019", "sustained")
def _(_: Any, __: Key) -> Value:
    """512 GPUs at 76 % of what one reaches."""
    low, high = within(lambda rate: 512 * rate / 1000, 39)
    return 0.755 * low, 0.765 * high


@_fact("megatron_sc21", "gpt3_days")
def _(_: Any, __: Key) -> Value:
    """Equation 4: 8 T P / (n X)."""
    return 8 * 300e9 * 175e9 / (1024 * 140e12) / 86400


@_fact("megatron_sc21", "fig13_param_conflict", 0)
def _(_: Any, __: Key) -> Value:
    return gpt(layers=32, hidden=20480, heads=128, vocabulary=51200, sequence=2048).parameters / 1e9


@_fact("megatron_sc21", "fig13_param_conflict", 1)
def _(_: Any, __: Key) -> Value:
    """The layers' matrices alone."""
    return 12 * 32 * 20480**2 / 1e9


def _large(name: str) -> dict[str, Any]:
    shape = model({"gpt3": "gpt-175b", "mtnlg": "mt-nlg-530b"}[name])
    return {"sequence": 2048, "batch": 1, "hidden": shape.hidden, "heads": shape.heads}


@_fact("korthikanti_2022", "ratio_gpt3")
def _(_: Any, __: Key) -> Value:
    shape = model("gpt-175b")
    return 5 * shape.heads * 2048 / shape.hidden


@_fact("korthikanti_2022", "save_sel", "gpt3_pct", "mtnlg_pct")
@_fact("ultrascale_playbook", "gpt3_sel", "saved_pct")
def _(_: Any, key: Key) -> Value:
    sizes = _large("mtnlg" if key == "mtnlg_pct" else "gpt3")
    return 100 * (1 - activations.layer(**sizes, recompute="selective") / activations.layer(**sizes))


@_fact("korthikanti_2022", "flop_sel", "gpt3_pct", "mtnlg_pct")
@_fact("ultrascale_playbook", "gpt3_sel", "flops_pct")
def _(_: Any, key: Key) -> Value:
    name = "mt-nlg-530b" if key == "mtnlg_pct" else "gpt-175b"
    return 100 * (iteration(name, batch=1, recompute="selective") / iteration(name, batch=1, recompute="none") - 1)


@_fact("ultrascale_playbook", "tip_70b", "gb")
def _(_: Any, __: Key) -> Value:
    return 2 * 70e9 / 1e9


@_fact("ultrascale_playbook", "tip_70b", "gib_printed")
def _(_: Any, __: Key) -> Value:
    return 2 * 70e9 / 2**30


@_fact("bloom_176b", "ckpt_bf16")
def _(_: Any, __: Key) -> Value:
    return 2 * model("bloom-176b").parameters / 2**30


@_fact("hf_bloom_inference", "weights")
def _(_: Any, __: Key) -> Value:
    return within(lambda billions: 2 * billions, 176)


@_fact("bloom_176b", "m104b", "params_gpu_with_emb")
def _(fact: Any, _: Key) -> Value:
    """A stage's layers and the embedding, over the tensor-parallel ranks; the norms' and biases' share as well."""
    hidden = fact["hidden"]
    layers = fact["layers"] // fact["pp"] * (12 * hidden**2 + 13 * hidden)
    return (layers + fact["vocab"] * hidden) / fact["tp"]


@_fact("bloom_176b", "m104b", "states_gb")
def _(fact: Any, _: Key) -> Value:
    return fact["bytes_per_param"] * fact["params_gpu_with_emb"] / 1e9


@_fact("bloom_176b", "carbon", "kwh")
def _(fact: Any, _: Key) -> Value:
    """GPU hours at the GPUs' rated power."""
    return costs.energy_kwh(hours=fact["gpu_hours"], watts=fact["watts"])


@_fact("bloom_176b", "carbon", "tonnes")
def _(fact: Any, _: Key) -> Value:
    return costs.co2_kg(kwh=fact["kwh"], grid=fact["grid"]) / 1000


@_fact("bloom_176b", "layout", "gpus")
def _(fact: Any, _: Key) -> Value:
    return fact["dp"] * fact["tp"] * fact["pp"]


@_fact("bloom_176b", "arch", "padded_vocab")
def _(fact: Any, _: Key) -> Value:
    return padded(fact["vocab"], tensor=4)


@_fact("mtnlg_530b", "layout", "gpus_per_replica")
def _(fact: Any, _: Key) -> Value:
    return fact["tp"] * fact["pp"]


@_fact("mtnlg_530b", "arch", "params", unit=1e9)
def _(_: Any, __: Key) -> Value:
    return model("mt-nlg-530b").parameters / 1e9


@_fact("falcon_180b", "layout", "dp")
def _(fact: Any, _: Key) -> Value:
    return facts("falcon_180b")["run"]["gpus"] / (fact["tp"] * fact["pp"])


@_fact("palm_540b", "layout", "chip_hours")
def _(_: Any, __: Key) -> Value:
    """Section 4 of the paper: 6,144 chips for 1,200 hours, then 3,072 for 336."""
    return 6144 * 1200 + 3072 * 336


@_fact("deepseek_v3", "layout", "expert_dp")
def _(fact: Any, _: Key) -> Value:
    return fact["gpus"] / (fact["pp"] * fact["ep"])


@_fact("deepseek_v3", "layout", "dp")
def _(fact: Any, _: Key) -> Value:
    return fact["gpus"] / (fact["pp"] * fact["tp"])


@_fact("deepseek_v3", "moe", "total_params", unit=1e9)
def _(_: Any, __: Key) -> Value:
    return model("deepseek-v3").parameters / 1e9


@_fact("deepseek_v3", "moe", "active", unit=1e9)
def _(_: Any, __: Key) -> Value:
    """With the table of the embedding, and without it: a look-up multiplies nothing."""
    shape = model("deepseek-v3")
    return (shape.active_parameters - shape.embedding) / 1e9, shape.active_parameters / 1e9


@_fact("deepseek_v3", "batch", "tokens", unit=1e6)
def _(fact: Any, _: Key) -> Value:
    return fact["sequences"] * fact["seq"] / 1e6


@_fact("llama3_405b", "interruptions", "interruptions")
def _(fact: Any, _: Key) -> Value:
    return fact["planned"] + fact["unexpected"]


@_fact("ft_hsdp", "rate", "gpus")
def _(fact: Any, _: Key) -> Value:
    return fact["replicas"] * fact["replica_gpus"]


@_fact("hf_mini_r1", "launch", "gpus")
def _(fact: Any, _: Key) -> Value:
    return fact["train_processes"] + fact["vllm_gpus"]


@_fact("megatron_readme", "gpt3_iter", "tflops")
def _(fact: Any, _: Key) -> Value:
    work = iteration("gpt-175b", batch=fact["batch"], recompute="full")
    return within(lambda seconds: work / (fact["gpus"] * seconds) / 1e12, fact["sec_per_iter"])


@_fact("megatron_readme", "gpt3_iter", "pct_peak")
def _(fact: Any, _: Key) -> Value:
    return within(lambda tflops: 100 * tflops / 312, fact["tflops"])


@_fact("hf_bloom_optimization", "estimate", "ms_one_gpu", "ms_sixteen")
def _(fact: Any, key: Key) -> Value:
    """At the peak of an A100, on one of them or on sixteen."""
    gpus = 16 if key == "ms_sixteen" else 1
    return within(lambda work: 1000 * work / 312 / gpus, fact["tflop_per_forward"])
