"""Runs in the ranks: each parallelism with and without recomputation, on the same model with dropout. Reports whether
losses and parameters are equal bit by bit, and what the collectives of the last step moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies import context
from labs.strategies.data_parallel import DataParallel
from labs.strategies.pipeline import PipelineParallel
from labs.strategies.recompute import recompute
from labs.strategies.schedules import schedule
from labs.strategies.tensor_parallel import TensorParallel
from labs.strategies.units import MicroBatch, Recipe, whole_parameters
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker

SHAPE = Shape(layers=4, hidden=16, heads=2, sequence=8, dropout=0.2, fused=False)
ALL = ("full", "selective", "every")
MODES = {
    "data": ALL,
    "zero-1": ("full",),
    "zero-2": ("full",),
    "zero-3": ALL,
    "tensor": ALL,
    "sequence": ("full", "selective"),
    "1f1b": ("full",),
    "interleaved": ("every",),
    "zero-bubble": ("full", "selective"),
    "context": ("full", "selective"),
}
RECIPE = Recipe()
Step = Callable[[Sequence[MicroBatch]], Any]


def build(kind: str, model: GPT, group: dist.ProcessGroup) -> tuple[Any, bool]:
    """The strategy, and whether all ranks see the same examples."""
    stages: dict[str, Any] = {"data": DataParallel, "zero-1": Zero1, "zero-2": Zero2, "zero-3": Zero3}
    if kind in stages:
        return stages[kind](model, model.pieces, group=group, recipe=RECIPE), False
    if kind in ("tensor", "sequence"):
        return TensorParallel(model, group=group, recipe=RECIPE, sequence=kind == "sequence"), True
    if kind == "context":
        ring = context.parallelize(model, group=group, length=SHAPE.sequence)
        strategy: Any = DataParallel(model, model.pieces, group=group, recipe=RECIPE)
        strategy.share = ring.share
        return strategy, True
    orders = schedule(kind, ranks=dist.get_world_size(group), micro_batches=4, chunks=2 if kind == "interleaved" else 1)

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    pieces = model.pieces
    return PipelineParallel(pieces, orders=orders, hidden=SHAPE.hidden, loss=loss, group=group, recipe=RECIPE), True


def run(kind: str, mode: str, group: dist.ProcessGroup) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    shape = replace(SHAPE, dropout=0.0) if kind == "context" else SHAPE
    model = GPT(shape, seed=1)
    strategy, shared = build(kind, model, group)
    recompute(model, mode=mode, every=2)
    losses = []
    with Tracker() as tracker:
        for step in range(2):
            tracker.reset_collectives()
            batch = global_batch(step, size=8, sequence=SHAPE.sequence)
            mine = micro_batches(batch, rank=0 if shared else rank, ranks=1 if shared else ranks, accumulate=4)
            if kind == "context":
                mine = [strategy.share(*each) for each in mine]
            torch.manual_seed(100 * step + (0 if shared else rank))
            loss = strategy.train_step(mine)
            losses.append(None if loss is None else loss.item())
        moved = {name: [each.count, each.bytes] for name, each in tracker.collectives.items()}
    units = getattr(strategy, "units", [])
    with whole_parameters(units):
        parameters = [p.detach().clone() for p in strategy.model.parameters()]
    return {"losses": losses, "parameters": parameters, "moved": moved}


if __name__ == "__main__":
    with this.group() as world:
        told = {}
        for kind, modes in MODES.items():
            plain = run(kind, "none", world)
            told[kind] = {"none": plain["moved"]}
            for mode in modes:
                again = run(kind, mode, world)
                pairs = zip(plain["parameters"], again["parameters"], strict=True)
                equal = all(torch.equal(a, b) for a, b in pairs) and plain["losses"] == again["losses"]
                told[kind][mode] = {"equal": equal, "moved": again["moved"]}
        this.report(told)
