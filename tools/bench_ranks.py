"""The part of `make bench` that runs in the ranks: the same training steps by our strategies and by torch's own, in
turns, timed beside each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import Recipe
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker

SHAPE = Shape(layers=4, hidden=256, heads=4, sequence=32)
STEPS, WARM = 15, 3
Step = Callable[[Any], object]


def ours(kind: Callable[..., Any], group: dist.ProcessGroup) -> Step:
    model = GPT(SHAPE)
    strategy = kind(model, model.pieces, group=group, recipe=Recipe())
    step: Step = strategy.train_step
    return step


def theirs(prepare: Callable[[GPT], tuple[nn.Module, torch.optim.Optimizer]]) -> Step:
    model, adam = prepare(GPT(SHAPE))

    def step(mine: Any) -> None:
        for tokens, targets in mine:
            (model(tokens, targets) / len(mine)).backward()
        adam.step()
        adam.zero_grad()

    return step


def adam_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6, fused=True)


def ddp(model: GPT) -> tuple[nn.Module, torch.optim.Optimizer]:
    wrapped = DistributedDataParallel(model)
    return wrapped, adam_of(wrapped)


def ddp_zero(model: GPT) -> tuple[nn.Module, torch.optim.Optimizer]:
    wrapped = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(
        wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3, eps=1e-6, fused=True
    )
    return wrapped, optimizer


def fsdp(*, reshard: bool) -> Callable[[GPT], tuple[nn.Module, torch.optim.Optimizer]]:
    def prepare(model: GPT) -> tuple[nn.Module, torch.optim.Optimizer]:
        mesh = init_device_mesh(this.device().type, (this.world_size(),))
        for piece in model.pieces:
            fully_shard(piece, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
        return model, adam_of(model)

    return prepare


def one_step_cpu() -> dict[str, float]:
    """CPU seconds of a step of plain training on one rank: alone, under our tracker, under torch's MemTracker."""
    from torch.distributed._tools.mem_tracker import MemTracker

    batch = global_batch(0, size=12, sequence=SHAPE.sequence)
    model = GPT(SHAPE)
    adam = adam_of(model)

    def step() -> None:
        model(*batch).backward()
        adam.step()
        adam.zero_grad()

    def timed(context: Any, before: Callable[[], None] = lambda: None) -> float:
        spent = []
        with context:
            for _ in range(STEPS):
                before()
                started = time.process_time()
                step()
                spent.append(time.process_time() - started)
        return statistics.median(spent[WARM:])

    step()
    from contextlib import nullcontext

    alone = timed(nullcontext())
    tracked = timed(Tracker(model=model, optimizer=adam))
    tracker = MemTracker()
    tracker.track_external(model, adam)
    return {"alone": alone, "tracker": tracked, "memtracker": timed(tracker, tracker.reset_mod_stats)}


if __name__ == "__main__":
    with this.group() as group:
        steps = {
            "stage 0": ours(DataParallel, group),
            "stage 1": ours(Zero1, group),
            "stage 2": ours(Zero2, group),
            "stage 3": ours(Zero3, group),
            "DDP": theirs(ddp),
            "DDP + ZeroRedundancyOptimizer": theirs(ddp_zero),
            "FSDP2, no reshard": theirs(fsdp(reshard=False)),
            "FSDP2": theirs(fsdp(reshard=True)),
        }
        spent: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(STEPS):
            batch = global_batch(turn, size=12, sequence=SHAPE.sequence)
            mine = micro_batches(batch, rank=this.number(), ranks=this.world_size(), device=this.device())
            for name, step in steps.items():
                dist.barrier()
                started = time.perf_counter()
                step(mine)
                dist.barrier()
                spent[name].append(time.perf_counter() - started)
        medians = {name: statistics.median(own[WARM:]) for name, own in spent.items()}
        cpu = one_step_cpu() if this.number() == 0 else None
        this.report({"steps": medians, "cpu": cpu})
