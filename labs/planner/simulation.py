"""One rank of each pipeline stage of a run on thousands, in one process: the labs' own strategies, or torch's FSDP2 and
tensor parallelism, on tensors that have shapes and no values, over a process group that reaches nobody.

What a strategy allocates and which collectives it calls depend on shapes alone, so the tracker counts here what it
would count there, byte for byte.

Not everything has to run for that. Stages with as many layers differ by the micro-batches that they have in flight, and
one more in flight keeps as much as the one before: those with two and three are run, the others lie on the line
through them. One micro-batch more in a step sends as much as the one before. `test_simulation.py` holds both against
running everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal, Protocol, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.profiler import record_function

from labs.model import GPT, Shape
from labs.planner import fake
from labs.planner.configuration import Configuration, Stack
from labs.planner.fully_sharded import FullySharded
from labs.strategies.data_parallel import DataParallel
from labs.strategies.layout import Layout
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.pipeline import stages_of
from labs.strategies.recompute import recompute
from labs.strategies.schedules import Order, layers_of, one_f_one_b, schedule
from labs.strategies.units import MicroBatch, Recipe, Strategy
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry.categories import CATEGORIES, Bytes, Count
from translations import CourseError

Implementation = Literal["labs", "torch"]
IMPLEMENTATIONS: tuple[Implementation, ...] = get_args(Implementation)
STAGES: dict[int, Callable[..., Strategy]] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
Axes = dict[str, dict[str, Count]]
MOST_RANKS, MOST_MICRO_BATCHES = 2**17, 512
"""Ranks of a mesh, and micro-batches of an interleaved schedule, all of which are run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One rank in its second step: micro-batches in flight, model states as that step ends, the highest of each
    category, the highest of all together, and the step's collectives by axis.
    """

    stage: int
    rank: int
    layers: int
    in_flight: int
    states: Bytes
    peak: Bytes
    peak_total: int
    axes: Axes


def simulate(
    plan: Configuration, *, implementation: Implementation = "labs", stages: Sequence[int] | None = None
) -> Iterator[Simulated]:
    """The first rank of each pipeline stage, or of the named ones.

    labs   parameters and gradients in the stack's precision, Adam's states in at least fp32
    torch  shards, gradients and Adam's states in fp32; gathered and reduced in the stack's precision

    Raises CourseError for what they cannot train.
    """
    plan = checked(plan, implementation)
    run = cache(partial(_run, plan, implementation))
    for stage in range(plan.pp) if stages is None else stages:
        yield _simulated(plan, stage, run)


def checked(plan: Configuration, implementation: Implementation) -> Configuration:
    """The plan with the layers of each stage written down."""
    plan.checked()
    shape = plan.model
    if implementation not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise CourseError("labs.unknown-choice", name="implementation", value=implementation, known=known)
    if (
        shape.gated
        or shape.experts
        or (shape.key_value_heads, shape.head_size * shape.heads) != (shape.heads, shape.hidden)
    ):
        raise CourseError("labs.simulate-plain", model=shape.title)
    if plan.gpus > MOST_RANKS:
        raise CourseError("labs.option-at-most", name="dp x tp x pp x cp", most=MOST_RANKS, value=plan.gpus)
    if implementation == "torch":
        if plan.cp > 1 or plan.interleave > 1:
            raise CourseError("labs.simulate-torch-axes")
        if plan.zero == 0 and plan.dp > 1:
            raise CourseError("labs.simulate-torch-zero")
        return replace(plan, stages=plan.layers)
    if plan.zero >= 2 and plan.tp * plan.cp > 1:
        raise CourseError("labs.simulate-zero", stage=plan.zero)
    if plan.interleave > 1 and plan.micro_batches % plan.pp:
        raise CourseError("labs.simulate-groups", pp=plan.pp, micro_batches=plan.micro_batches)
    if plan.interleave > 1 and plan.micro_batches > MOST_MICRO_BATCHES:
        most = MOST_MICRO_BATCHES * plan.dp * plan.micro_batch
        raise CourseError("labs.option-at-most", name="batch", most=most, value=plan.global_batch)
    even = tuple(layers_of(layers=shape.layers, stages=plan.pp))
    if plan.stages and plan.stages != even:
        raise CourseError("labs.simulate-stages", even=", ".join(map(str, even)))
    return replace(plan, stages=even)


# --- what is run, and what lies on a line with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Layers of a stage, and whether it has the embedding and the head."""

    layers: int
    first: bool
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A step of so many micro-batches, and the collectives of one of `fewer`."""

    micro_batches: int
    states: Bytes
    peak: Bytes
    peak_total: int
    axes: Axes
    fewer: int
    axes_of_fewer: Axes


Sizes = tuple[tuple[int, int], ...]  # micro-batches in flight, and in a step
Runs = Callable[[Kind, int, Sizes], tuple[Run, ...]]


def _simulated(plan: Configuration, stage: int, run: Runs) -> Simulated:
    m, flying = plan.micro_batches, min(plan.micro_batches, plan.pp - stage)
    kind = Kind(layers=plan.layers[stage], first=stage == 0, last=stage == plan.pp - 1)
    more = int(m > flying)  # whether others come after those in flight
    few, some = (2, 3) if more else (3, 4)  # with fewer, no backward adds to gradients without being the last
    alone = plan.pp < some + (not kind.first) or flying < few or (kind.first and flying <= some)
    beyond = 0  # steps on the line from the first run through the last
    if plan.interleave > 1:
        runs = run(kind, stage, ((flying, m),))
    elif flying == 1 and m > 4:  # the last stage keeps the loss of each
        runs, beyond = run(kind, stage, ((1, 3), (1, 4))), m - 4
    elif alone:
        place = stage if kind.first or kind.last else plan.pp - max(flying, 2)
        runs = run(kind, place, ((flying, m if flying == 1 else flying + more),))
    else:
        place = stage if kind.first else plan.pp - some
        runs, beyond = run(kind, place, ((few, few + more), (some, some + more))), flying - some
    first, last = runs[0], runs[-1]
    return Simulated(
        stage=stage,
        rank=_layout(plan).rank_at(pipeline=stage),
        layers=kind.layers,
        in_flight=flying,
        states=_bytes_along(first.states, last.states, beyond),
        peak=_bytes_along(first.peak, last.peak, beyond),
        peak_total=_along(first.peak_total, last.peak_total, beyond),
        axes=_lengthened(last, micro_batches=m),
    )


def _along(first: int, last: int, beyond: int) -> int:
    return last + beyond * (last - first)


def _bytes_along(first: Bytes, last: Bytes, beyond: int) -> Bytes:
    pairs = zip(CATEGORIES, first.amounts, last.amounts, strict=True)
    return Bytes(**{category: _along(a, b, beyond) for category, a, b in pairs})


def _lengthened(run: Run, *, micro_batches: int) -> Axes:
    """The collectives of a step of another number of micro-batches: each adds what the last ones did."""
    if micro_batches == run.micro_batches:
        return run.axes
    found: Axes = {}
    for axis, counts in run.axes.items():
        for name, count in counts.items():
            before = run.axes_of_fewer.get(axis, {}).get(name, Count())
            more, others = micro_batches - run.micro_batches, run.micro_batches - run.fewer
            found.setdefault(axis, {})[name] = Count(
                count=count.count + more * (count.count - before.count) // others,
                bytes=count.bytes + more * (count.bytes - before.bytes) // others,
            )
    return found


def _run(plan: Configuration, implementation: Implementation, kind: Kind, stage: int, sizes: Sizes) -> tuple[Run, ...]:
    layout = _layout(plan)
    build = {"labs": _ours, "torch": _torchs}[implementation]
    with fake.group(rank=layout.rank_at(pipeline=stage), ranks=layout.ranks()) as everyone:
        mesh = mesh_of(layout, device="cpu")
        model = _model(plan, implementation, layers=kind.layers * plan.pp)
        with ExitStack() as stack:
            stack.enter_context(fake.no_values())
            text = torch.zeros(plan.micro_batch, plan.length + 1, dtype=torch.long)
            tracker = stack.enter_context(fake.ShardedTracker(fake=True))
            place = Place(stage=stage, layout=layout, mesh=mesh, everyone=everyone)
            trained = build(plan, model, place, tracker)
            del model  # the layers of other stages, the other parts of each matrix

            def step(flying: int, micro_batches: int) -> None:
                tracker.reset_peak()
                tracker.reset_collectives()
                trained.orders = _orders(plan, stage, flying=flying, micro_batches=micro_batches)
                trained.train_step([(text[:, :-1], text[:, 1:])] * micro_batches)

            # Adam makes its states in the first step; where one run follows, it is also the one of fewer micro-batches.
            fewer = plan.pp if plan.interleave > 1 else min(2, plan.micro_batches) if len(sizes) == 1 else 1
            step(1, fewer)
            found: list[Run] = []
            for flying, micro_batches in sizes:
                axes_of_fewer = tracker.axes
                step(flying, micro_batches)
                found.append(
                    Run(
                        micro_batches=micro_batches,
                        states=tracker.rest,
                        peak=tracker.peak,
                        peak_total=tracker.peak_total,
                        axes=tracker.axes,
                        fewer=fewer,
                        axes_of_fewer=axes_of_fewer,
                    )
                )
                fewer = micro_batches
            return tuple(found)


def _orders(plan: Configuration, stage: int, *, flying: int, micro_batches: int) -> list[Order]:
    """Of all stages, so that this one has so many micro-batches in flight: as if the pipeline ended sooner after it."""
    if plan.interleave > 1:
        return schedule("interleaved", ranks=plan.pp, micro_batches=micro_batches, chunks=plan.interleave)
    length = min(plan.pp, stage + flying)
    return [
        one_f_one_b(rank=min(rank, length - 1), ranks=length, micro_batches=micro_batches) for rank in range(plan.pp)
    ]


# --- what is trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the simulated rank is."""

    stage: int
    layout: Layout
    mesh: DeviceMesh
    everyone: dist.ProcessGroup


class Trained(Protocol):
    """A strategy, with the schedule of its next step."""

    orders: Sequence[Order]

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor | None: ...


class Unscheduled:
    """A strategy without a pipeline takes its micro-batches one after the other."""

    orders: Sequence[Order]

    def __init__(self, strategy: Strategy) -> None:
        self.train_step = strategy.train_step


def _ours(plan: Configuration, model: GPT, place: Place, tracker: fake.ShardedTracker) -> Trained:
    with record_function("parameters"):
        allocate(model)
    if plan.zero >= 2:
        tracker.name_axis(place.everyone, "data")
        if plan.recompute != "none":
            recompute(model, mode=plan.recompute)
        return Unscheduled(STAGES[plan.zero](model, model.pieces, group=place.everyone, recipe=Recipe()))
    strategy = Parallel(
        model.pieces,
        layout=place.layout,
        mesh=place.mesh,
        orders=_orders(plan, place.stage, flying=1, micro_batches=plan.pp),
        hidden=plan.model.hidden,
        length=plan.length,
        loss=model.loss,
        recipe=Recipe(),
        recomputed=plan.recompute,
    )
    for axis, own in strategy.groups.items():
        tracker.name_axis(own, axis)
    return strategy


def _torchs(plan: Configuration, model: GPT, place: Place, tracker: fake.ShardedTracker) -> Trained:
    pieces = stages_of(model.pieces, stages=plan.pp)[place.stage]
    allocate(nn.ModuleList(pieces))
    strategy = FullySharded(
        pieces,
        mesh=place.mesh,
        zero=plan.zero,
        hidden=plan.model.hidden,
        policy=policy(plan.stack),
        sequence=plan.sequence_parallel,
        recompute=plan.recompute,
        tied=plan.model.tied,
    )
    strategy.watched(tracker)
    return strategy


def policy(stack: Stack) -> MixedPrecisionPolicy:
    """Parameters are gathered and gradients reduced as the stack keeps them; without a word where that is fp32."""
    if stack.parameter == 4:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=DTYPES[stack.parameter], reduce_dtype=DTYPES[stack.gradient])


def _layout(plan: Configuration) -> Layout:
    return Layout(
        dp=plan.dp, pp=plan.pp, tp=plan.tp, cp=plan.cp, zero=min(plan.zero, 1), sequence=plan.sequence_parallel,
        chunks=plan.interleave,
    )  # fmt: skip


def _model(plan: Configuration, implementation: Implementation, *, layers: int) -> GPT:
    """The course's GPT in the model's sizes, without a byte. Ours fills the vocabulary up as it splits it."""
    shape, ours = plan.model, implementation == "labs"
    vocabulary = shape.vocabulary if ours else plan.vocabulary
    dtype = DTYPES[plan.stack.parameter] if ours else torch.float32
    sizes = Shape(layers=layers, hidden=shape.hidden, heads=shape.heads, sequence=plan.length, tied=shape.tied)
    with torch.device("meta"):
        model = GPT(sizes, dtype=dtype)
        model.embedding.token = nn.Embedding(vocabulary, shape.hidden, dtype=dtype)
        model.head.linear = nn.Linear(shape.hidden, vocabulary, bias=False, dtype=dtype)
    if shape.tied:
        model.head.linear.weight = model.embedding.token.weight
    return model


def allocate(model: nn.Module) -> None:
    """Every parameter gets a storage; what is shared stays shared."""
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                if p not in made:
                    made[p] = nn.Parameter(torch.empty(p.shape, dtype=p.dtype))
                module._parameters[name] = made[p]
