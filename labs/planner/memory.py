"""The bytes that the fullest rank of a training run holds, bar by bar, and what to do where they don't fit.

Model states follow the layout exactly: which parameters a stage has, which of them the tensor axis splits, what ZeRO
shards. Activations are Korthikanti's (2022, table 2), times the micro-batches that 1F1B keeps in flight. What no
formula of a paper gives, the context of CUDA and the allocator's rest, has its own bar, `slack`, from two published
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from labs.planner import activations
from labs.planner.configuration import Configuration, Stack, within
from labs.planner.hardware import Accelerator
from labs.planner.models import Model
from translations import CourseError

CONTEXT = 1271 * 2**20
"""Bytes of a CUDA context, as BLOOM's authors measured it on an A100 (their log of the 104B model)."""
ALLOCATOR = 0.05
"""The share of activations that Megatron-LM's own report adds for what the allocator loses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bytes on one rank."""

    parameters: int = 0
    gradients: int = 0
    optimizer_states: int = 0
    activations: int = 0
    gathered: int = 0
    buckets: int = 0
    logits: int = 0
    slack: int = 0

    @property
    def total(self) -> int:
        return sum(self.as_dict().values())

    @property
    def states(self) -> int:
        """Model states: parameters, gradients and optimizer states."""
        return self.parameters + self.gradients + self.optimizer_states

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that makes the fullest rank lighter: a change, the bytes it saves there, and what it costs, as ids."""

    change: str
    value: int | str
    saves: int
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The fullest rank: its stage and number, its bars; `fits` is None where no accelerator was named."""

    stage: int
    rank: int
    bars: Bars
    fits: bool | None

    @property
    def total(self) -> int:
        return self.bars.total

    def as_json(self) -> dict[str, object]:
        return {
            "total": self.total,
            "fits": self.fits,
            "worst_rank": {"stage": self.stage, "rank": self.rank},
            "bytes": self.bars.as_dict(),
        }


def memory(plan: Configuration, *, gpu: Accelerator | None = None) -> Memory:
    """The fullest rank of a run. Raises CourseError for a configuration that cannot run."""
    plan.checked()
    # Of stages alike the first holds the most micro-batches, so no other can be the fullest.
    alike: dict[object, int] = {}
    for stage, parameters in enumerate(parameters_by_stage(plan)):
        alike.setdefault((stage == 0, stage == plan.pp - 1, plan.layers[stage], parameters), stage)
    each = {stage: rank_bars(plan, stage=stage) for stage in alike.values()}
    stage = max(each, key=lambda number: each[number].total)
    bars = each[stage]
    # The tensor axis is innermost and the pipeline axis outermost, so a stage's first rank is this one.
    rank = stage * (plan.gpus // plan.pp)
    return Memory(stage=stage, rank=rank, bars=bars, fits=None if gpu is None else bars.total <= gpu.memory)


def of_parameters(parameters: int, *, dp: int, zero: int, stack: Stack, gpu: Accelerator | None = None) -> Memory:
    """Model states of so many parameters and nothing else, as ZeRO's table 1 counts them."""
    within("dp", dp)
    if zero not in (0, 1, 2, 3):
        raise CourseError("labs.unknown-stage", value=zero)
    bars = _states(parameters, stack=stack, zero=zero, shards=dp)
    return Memory(stage=0, rank=0, bars=bars, fits=None if gpu is None else bars.total <= gpu.memory)


# --- one rank


def stage_parameters(plan: Configuration, *, stage: int) -> tuple[int, int]:
    """Parameters of one rank of a pipeline stage: those that the tensor axis splits, and those it replicates.

    With tied weights and more than one stage, the last has a copy of the token table.
    """
    return parameters_by_stage(plan)[stage]


def parameters_by_stage(plan: Configuration) -> tuple[tuple[int, int], ...]:
    """The same of every stage."""
    return _by_stage(plan.model, plan.tp, plan.vocabulary, plan.layers)


@cache
def _by_stage(shape: Model, tensor: int, vocabulary: int, layers: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    whole = shape.norms * shape.norm + _row_biases(shape)
    table, last = vocabulary * shape.hidden, len(layers) - 1
    found = []
    for stage, number in enumerate(layers):
        replicated, split = number * whole, number * (shape.layer - whole)
        if shape.experts is not None:
            wide = shape.network(shape.features) - (shape.layer - shape.attention - shape.norms * shape.norm)
            split += wide * max(0, min(shape.experts.dense - sum(layers[:stage]), number))
        if stage == 0:
            split += table
            replicated += shape.embedding - shape.vocabulary * shape.hidden
        if stage == last:
            replicated += shape.norm if shape.final_norm else 0
            split += table if not shape.tied or last else 0
        found.append((-(-split // tensor), replicated))
    return tuple(found)


def in_flight(plan: Configuration, *, stage: int) -> float:
    """Micro-batches, of all layers of the stage, whose activations it keeps: min(m, p - i) under 1F1B; interleaving
    keeps 1 + (p - 1) / (p v) times as many on the first stage (Narayanan et al. 2021, section 2.2).
    """
    kept = min(plan.micro_batches, plan.pp - stage)
    if plan.interleave == 1:
        return kept
    more = 1 + (plan.pp - 1) / (plan.pp * plan.interleave)
    return min(plan.micro_batches, kept * more)


def rank_bars(plan: Configuration, *, stage: int) -> Bars:
    """One rank of a pipeline stage."""
    shape = plan.model
    split, replicated = stage_parameters(plan, stage=stage)
    states = _states(split + replicated, stack=plan.stack, zero=plan.zero, shards=plan.shards)

    tokens = plan.length * plan.micro_batch // plan.cp
    one = activations.layer(
        sequence=plan.length,
        batch=plan.micro_batch,
        hidden=shape.hidden,
        heads=shape.heads,
        tensor=plan.tp,
        sequence_parallel=plan.sequence_parallel,
        recompute=plan.recompute,
    )
    kept = in_flight(plan, stage=stage) * plan.layers[stage] * one
    if plan.recompute == "full":
        again = activations.layer(
            sequence=plan.length,
            batch=plan.micro_batch,
            hidden=shape.hidden,
            heads=shape.heads,
            tensor=plan.tp,
            sequence_parallel=plan.sequence_parallel,
        )
        kept += again
    if stage == 0:
        kept += in_flight(plan, stage=0) * plan.length * plan.micro_batch * shape.hidden / _along(plan)
    kept /= plan.cp

    logits = 0.0
    if stage == plan.pp - 1:
        # Inputs of the last norm and of the projection, and the logits in 2 and in 4 bytes (Korthikanti, section 4.3).
        logits = 4 * tokens * shape.hidden / _along(plan) + 6 * tokens * plan.vocabulary / plan.tp

    layer = -(-shape.layer // plan.tp)
    gathered = 2 * plan.stack.parameter * layer if plan.zero == 3 and plan.shards > 1 else 0
    buckets = 0
    if plan.shards > 1 and plan.zero >= 1:
        buckets = plan.stack.parameter * min(plan.stack.bucket or (layer if plan.zero >= 2 else 0), split + replicated)
    if plan.offload != "none":
        states = replace(states, optimizer_states=0)
    if plan.offload == "gradients":
        # They leave for the host as backward makes them, the largest matrix in one piece.
        table = -(-plan.vocabulary * shape.hidden // plan.tp)
        states = replace(states, gradients=0)
        buckets = max(buckets, plan.stack.gradient * max(layer, table))
    if plan.pp > 1:
        buckets += 4 * tokens * shape.hidden // _along(plan)
    return replace(
        states,
        activations=round(kept),
        gathered=gathered,
        buckets=buckets,
        logits=round(logits),
        slack=CONTEXT + round(ALLOCATOR * (kept + logits)),
    )


def _states(count: int, *, stack: Stack, zero: int, shards: int) -> Bars:
    """Shards are rounded up to whole parameters."""
    shard = -(-count // shards)
    return Bars(
        parameters=stack.parameter * (shard if zero >= 3 else count),
        gradients=stack.gradient * (shard if zero >= 2 else count),
        optimizer_states=stack.optimizer_states * (shard if zero >= 1 else count),
    )


def _row_biases(shape: Model) -> int:
    """Biases of row-parallel products, which every tensor-parallel rank has whole: attention's and the network's."""
    return (shape.hidden if shape.attention_biases else 0) + (shape.hidden if shape.biases else 0)


def _along(plan: Configuration) -> int:
    """By how much the sequence is split outside of attention and network."""
    return plan.tp if plan.sequence_parallel else 1


# --- what to do where it does not fit


def advice(plan: Configuration) -> tuple[Advice, ...]:
    """What would make the fullest rank lighter, the most saving first; each with what it costs."""
    now = memory(plan).total
    ideas: list[tuple[str, int | str, Configuration, str]] = []
    if plan.recompute == "none":
        ideas.append(("recompute", "selective", replace(plan, recompute="selective"), "recompute-selective"))
    if plan.recompute != "full":
        ideas.append(("recompute", "full", replace(plan, recompute="full"), "recompute-full"))
    if plan.tp > 1 and not plan.sequence_parallel and plan.length // plan.cp % plan.tp == 0:
        ideas.append(("sequence-parallel", "", replace(plan, sequence_parallel=True), "free"))
    if plan.micro_batch % 2 == 0:
        smaller = replace(plan, micro_batch=plan.micro_batch // 2, micro_batches=plan.micro_batches * 2)
        ideas.append(("micro-batch", plan.micro_batch // 2, smaller, "smaller-products"))
    if plan.shards > 1:
        highest = 1 if plan.pp > 1 else 3
        for stage in range(plan.zero + 1, highest + 1):
            ideas.append(("zero", stage, replace(plan, zero=stage), f"zero-{stage}"))
    cut = plan.length // plan.cp % (2 * plan.tp) == 0 or not plan.sequence_parallel
    if plan.model.heads % (2 * plan.tp) == 0 and cut:
        ideas.append(("tp", 2 * plan.tp, replace(plan, tp=2 * plan.tp), "tensor-traffic"))
    chunks = 2 * plan.pp * plan.interleave
    even = plan.interleave == 1 or plan.model.layers % chunks == 0
    if chunks <= plan.model.layers and even and plan.zero < 2 and not plan.stages:
        ideas.append(("pp", 2 * plan.pp, replace(plan, pp=2 * plan.pp), "bubble"))
    found = [
        Advice(change=change, value=value, saves=now - memory(other).total, cost=cost)
        for change, value, other, cost in ideas
    ]
    return tuple(sorted((each for each in found if each.saves > 0), key=lambda each: -each.saves))
