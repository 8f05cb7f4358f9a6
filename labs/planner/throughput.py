"""How long a step takes on a cluster, what share of the hardware it uses, and what a whole run costs.

Computation: the operations of Narayanan et al. 2021 (equation 3) and Korthikanti et al. 2022 (equations 7 and 8) at the
share of the peak that a transformer layer was measured to reach. Around it the pipeline's bubble, and what
communication nothing hides. What a real run adds, stragglers, input, saving, it adds on top; a measured step can be
given in the model's place.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner import activations
from labs.planner.configuration import Configuration
from labs.planner.costs import Place, costs, tokens_a_day
from labs.planner.hardware import Accelerator
from labs.planner.links import axes, in_the_open
from translations import CourseError

LAYER = 0.48
"""The share of an A100's peak that one layer of a 22B model reached, forward and backward, on 8 tensor-parallel ranks:
19.6 ms for 2.94e12 operations a rank (Korthikanti et al. 2022, table 4, baseline)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """One layout on one cluster. `bubble` is the idle share of the whole step; `mfu` counts the model's own
    operations, `hfu` the recomputed ones as well. Without a token budget there are no days. `energy_kwh` is that of the
    accelerators, `site_kwh` with what the building adds.
    """

    seconds_per_step: float
    bubble: float
    tflops_per_gpu: float
    mfu: float
    hfu: float
    tokens_a_day: float
    days: float | None
    gpu_hours: float | None
    cost: float | None
    energy_kwh: float | None
    site_kwh: float | None
    co2_kg: float | None

    def as_json(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in self.__slots__}


def bubble(plan: Configuration) -> float:
    """The idle share of the whole under (interleaved) 1F1B: (p - 1) / (v m + p - 1)."""
    return (plan.pp - 1) / (plan.interleave * plan.micro_batches + plan.pp - 1)


def step_flops(plan: Configuration, *, recompute: str | None = None) -> float:
    """Operations of one step on the whole cluster; by default with what the layout recomputes."""
    shape, how = plan.model, plan.recompute if recompute is None else recompute
    if shape.experts is None and not shape.gated and shape.key_value_heads == shape.heads:
        return activations.flops(
            layers=shape.layers,
            sequence=plan.length,
            batch=plan.global_batch,
            hidden=shape.hidden,
            vocabulary=shape.vocabulary,
            recompute=how,
        )
    # Two operations a parameter and token in forward, four in backward, for every product's parameters that the token
    # meets; attention's own products besides. A look-up in the embedding costs none.
    tokens = plan.global_batch * plan.length
    met = shape.active_parameters - shape.embedding + (shape.vocabulary * shape.hidden if shape.tied else 0)
    products = 6 * tokens * (met - shape.head if how == "full" else met)
    attention = 12 * tokens * plan.length * shape.layers * shape.heads * shape.head_size
    again = {"none": 0.0, "selective": attention / 3, "full": (products + attention) / 3}[how]
    outside = 6 * tokens * shape.head if how == "full" else 0
    return products + outside + attention + again


def layer_products(plan: Configuration) -> float:
    """Of `step_flops`, those of the layers' products with weights: what the recipes for FP8 and FP4 compute in that
    format. Attention's own products and the vocabulary's stay in bf16 (Transformer Engine, low-precision training).
    """
    shape = plan.model
    weights = shape.active_parameters - shape.embedding - shape.head - shape.layers * shape.norms * shape.norm
    return (8 if plan.recompute == "full" else 6) * plan.global_batch * plan.length * weights


def compute_seconds(
    plan: Configuration, *, gpu: Accelerator, efficiency: float = LAYER, precision: str = "bf16"
) -> float:
    """Seconds that the fullest stage computes in one step, if it never waited. Raises CourseError for a `precision` in
    which the accelerator cannot multiply.
    """
    share = max(plan.layers) * plan.pp / plan.model.layers
    fast = gpu.peak_of(precision)
    narrow = 0.0 if precision == "bf16" else layer_products(plan)
    at_once = (step_flops(plan) - narrow) / gpu.peak + narrow / fast
    return at_once / plan.gpus / efficiency * share


def seconds(plan: Configuration, *, gpu: Accelerator, efficiency: float = LAYER, precision: str = "bf16") -> float:
    """Seconds of one step: computation of the fullest stage, the bubble around it, and what is sent in the open."""
    computing = compute_seconds(plan, gpu=gpu, efficiency=efficiency, precision=precision)
    sent = in_the_open(axes(plan, gpu=gpu), computing=computing)
    return (computing + sent["tensor"] + sent["context"]) / (1 - bubble(plan)) + sent["data"] + sent["pipeline"]


def days_of(*, tokens: float, sequences: int, length: int, seconds: float) -> float:
    """Days of a run that takes so many sequences of one length in each step, and so many seconds for it."""
    return tokens / (sequences * length) * seconds / 86400


def throughput(
    plan: Configuration,
    *,
    gpu: Accelerator,
    tokens: float | None = None,
    step_seconds: float | None = None,
    price: float | None = None,
    pue: float = 1.0,
    grid: float | None = None,
    precision: str = "bf16",
) -> Throughput:
    """The whole account. `step_seconds` is a measured step, in place of the model's; `price`, `pue` and `grid` are
    those of the place (`costs.Place`); `precision` that of the layers' products, whose peak the utilizations are shares
    of.
    """
    plan.checked()
    peak = gpu.peak_of(precision)
    step = step_seconds or seconds(plan, gpu=gpu, precision=precision)
    if step == float("inf"):
        raise CourseError("labs.plan-no-network", gpu=gpu.title, node=gpu.node)
    model, hardware = step_flops(plan, recompute="none"), step_flops(plan)
    days = spent = None
    if tokens is not None:
        days = days_of(tokens=tokens, sequences=plan.global_batch, length=plan.length, seconds=step)
        spent = costs(gpus=plan.gpus, days=days, watts=gpu.watts, place=Place(price=price, pue=pue, grid=grid))
    return Throughput(
        seconds_per_step=step,
        bubble=bubble(plan),
        tflops_per_gpu=hardware / plan.gpus / step / 1e12,
        mfu=model / plan.gpus / step / peak,
        hfu=hardware / plan.gpus / step / peak,
        tokens_a_day=tokens_a_day(sequences=plan.global_batch, length=plan.length, seconds=step),
        days=days,
        gpu_hours=spent.hours if spent else None,
        cost=spent.money if spent else None,
        energy_kwh=spent.energy_kwh if spent else None,
        site_kwh=spent.site_kwh if spent else None,
        co2_kg=spent.co2_kg if spent else None,
    )
