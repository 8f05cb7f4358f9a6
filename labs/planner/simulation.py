"""One rank of each pipeline stage of a run on thousands, in one process: the labs' own strategies on tensors that have
shapes and no values, over a process group that reaches nobody.

What a strategy allocates and which collectives it calls depend on shapes alone, so the tracker counts here what it
would count there, byte for byte. Private names of torch are in this file only: the fake process group and its store,
and the mode of tensors without values. tests/labs/planner/test_simulation.py says what changed when torch is upgraded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

from labs.model import GPT, Shape
from labs.planner.configuration import Configuration
from labs.strategies.data_parallel import DataParallel
from labs.strategies.layout import Layout
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.schedules import schedule
from labs.strategies.units import MicroBatch, Recipe, Strategy
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry.categories import Bytes, Count
from labs.telemetry.tracker import Tracker
from translations import CourseError

STAGES: dict[int, Callable[..., Strategy]] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One rank in its second step: model states as that step ends, the highest of each category, the highest of all
    together, and the step's collectives by axis.
    """

    stage: int
    rank: int
    states: Bytes
    peak: Bytes
    peak_total: int
    axes: dict[str, dict[str, Count]]


def simulate(plan: Configuration, *, stages: Sequence[int] | None = None) -> Iterator[Simulated]:
    """The first rank of each pipeline stage, or of the named ones. Memory is that of `labs/strategies`: parameters and
    gradients in the stack's precision, Adam's states in at least fp32. Raises CourseError for what they cannot train.
    """
    plan.checked()
    shape = plan.model
    if (
        shape.gated
        or shape.experts
        or (shape.key_value_heads, shape.head_size * shape.heads) != (shape.heads, shape.hidden)
    ):
        raise CourseError("labs.simulate-plain", model=shape.title)
    if plan.zero >= 2 and plan.tp * plan.cp > 1:
        raise CourseError("labs.simulate-zero", stage=plan.zero)
    for stage in range(plan.pp) if stages is None else stages:
        yield _simulated(plan, stage)


def _simulated(plan: Configuration, stage: int) -> Simulated:
    layout = Layout(
        dp=plan.dp, pp=plan.pp, tp=plan.tp, cp=plan.cp, zero=min(plan.zero, 1), sequence=plan.sequence_parallel,
        chunks=plan.interleave,
    )  # fmt: skip
    rank = layout.rank_at(pipeline=stage)
    with _group(rank=rank, ranks=layout.ranks()) as group:
        model = _without_storage(plan)
        mesh = mesh_of(layout, device="cpu") if plan.zero < 2 else None
        with FakeTensorMode(), Tracker(fake=True) as tracker:
            with record_function("parameters"):
                _allocate(model)
            step = _step(plan, model, layout=layout, mesh=mesh, group=group, tracker=tracker)
            del model  # the layers of other stages, the other parts of each matrix
            text = torch.zeros(plan.micro_batch, plan.length + 1, dtype=torch.long)
            example = text[:, :-1], text[:, 1:]
            for number in range(2):  # Adam makes its states in the first
                if number:
                    tracker.reset_peak()
                tracker.reset_collectives()
                step([example] * plan.micro_batches)
            return Simulated(
                stage=stage,
                rank=rank,
                states=tracker.rest,
                peak=tracker.peak,
                peak_total=tracker.peak_total,
                axes=tracker.axes,
            )


def _step(
    plan: Configuration,
    model: GPT,
    *,
    layout: Layout,
    mesh: DeviceMesh | None,
    group: dist.ProcessGroup,
    tracker: Tracker,
) -> Callable[[list[MicroBatch]], Tensor | None]:
    if mesh is None:
        tracker.name_axis(group, "data")
        return STAGES[plan.zero](model, model.pieces, group=group, recipe=Recipe()).train_step
    strategy = Parallel(
        model.pieces,
        layout=layout,
        mesh=mesh,
        orders=schedule(
            "interleaved" if plan.interleave > 1 else "1f1b",
            ranks=plan.pp,
            micro_batches=plan.micro_batches,
            chunks=plan.interleave,
        ),
        hidden=plan.model.hidden,
        length=plan.length,
        loss=model.loss,
        recipe=Recipe(),
        recomputed=plan.recompute,
    )
    for axis, own in strategy.groups.items():
        tracker.name_axis(own, axis)
    return strategy.train_step


@contextmanager
def _group(*, rank: int, ranks: int) -> Iterator[dist.ProcessGroup]:
    """A group of so many ranks, of which this process is one and the others are nobody."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        group = dist.group.WORLD
        assert group is not None
        yield group
    finally:
        dist.destroy_process_group()


def _without_storage(plan: Configuration) -> GPT:
    """The course's GPT in the model's sizes, without a byte."""
    shape, dtype = plan.model, DTYPES[plan.stack.parameter]
    sizes = Shape(layers=shape.layers, hidden=shape.hidden, heads=shape.heads, sequence=plan.length, tied=shape.tied)
    with torch.device("meta"):
        model = GPT(sizes, dtype=dtype)
        model.embedding.token = nn.Embedding(shape.vocabulary, shape.hidden, dtype=dtype)
        model.head.linear = nn.Linear(shape.hidden, shape.vocabulary, bias=False, dtype=dtype)
    if shape.tied:
        model.head.linear.weight = model.embedding.token.weight
    return model


def _allocate(model: nn.Module) -> None:
    """Every parameter gets a storage; what is shared stays shared."""
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                if p not in made:
                    made[p] = nn.Parameter(torch.empty(p.shape, dtype=p.dtype))
                module._parameters[name] = made[p]
