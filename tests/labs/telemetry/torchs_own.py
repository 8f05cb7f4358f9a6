"""A lab script: torch's own strategies under the tracker, then again under torch's own tracker; reports both."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from labs.runner import rank as this
from labs.telemetry import Tracker

STEPS = 3
Built = tuple[nn.Module, torch.optim.Optimizer]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24), nn.LayerNorm(24), nn.Linear(24, 24, bias=False)
    )


def ddp() -> Built:
    model = DistributedDataParallel(network())
    return model, torch.optim.Adam(model.parameters(), fused=True)


def zero() -> Built:
    model = DistributedDataParallel(network())
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3, fused=True)


def fsdp() -> Built:
    model, mesh = network(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), fused=True)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, after: Callable[[], None]) -> None:
    for _ in range(STEPS):
        with record_function("forward"):
            loss = nn.functional.mse_loss(model(x), x)
        with record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        after()


def ours(build: Callable[[], Built], x: Tensor) -> dict[str, Any]:
    model, optimizer = build()
    totals: list[int] = []
    with Tracker(model=model, optimizer=optimizer) as tracker:
        tracker.adopt([x], "temporary")

        def after() -> None:
            totals.append(tracker.now.total)
            if len(totals) < STEPS:
                tracker.reset_collectives()
                tracker.reset_peak()

        steps(model, optimizer, x, after)
    return {
        "totals": totals,
        "peak_total": tracker.peak_total,
        "rest": tracker.rest.as_dict(),
        "peak": tracker.peak.as_dict(),
        "now": tracker.now.as_dict(),
        "collectives": {name: count.as_dict() for name, count in tracker.collectives.items()},
        "parameters": sum(p.nbytes for p in network().parameters()),
        "tensors": len(list(network().parameters())),
    }


def theirs(build: Callable[[], Built], x: Tensor, *, sharded: bool) -> dict[str, Any]:
    model, optimizer = build()
    tracker: Any = FSDPMemTracker(model, optimizer) if sharded else MemTracker()
    if sharded:
        tracker.track_inputs((x,))
    else:
        tracker.track_external(model, optimizer, x)
    totals: list[int] = []

    def after() -> None:
        totals.append(tracker.get_tracker_snapshot()[torch.device("cpu")]["Total"])
        tracker.reset_mod_stats()

    with tracker:
        steps(model, optimizer, x, after)
    return {"totals": totals, "peak_total": tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with this.group() as group:
        rank = dist.get_rank(group)
        x = torch.randn(6, 24, generator=torch.Generator().manual_seed(rank))
        built = {"ddp": ddp, "zero": zero, "fsdp": fsdp}
        this.report(
            {
                name: {"ours": ours(build, x), "theirs": theirs(build, x, sharded=name == "fsdp")}
                for name, build in built.items()
                if name in sys.argv[1:]
            }
        )
