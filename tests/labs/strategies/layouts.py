"""Runs in the ranks: layouts of all ranks beside the unsharded twin, for every case in the list."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.planner.layout import Training, states, traffic
from labs.runner import rank as this
from labs.strategies.layout import Layout
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.pipeline import stages_of
from labs.strategies.schedules import schedule
from labs.strategies.tensor import part, shard_of
from labs.strategies.units import Recipe
from labs.telemetry import Tracker

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
SIZES = {"layers": 2, "hidden": 16, "heads": 2, "sequence": 8}
STEPS = 3


class Twin:
    """The same model on one process: torch's own Adam over master copies."""

    def __init__(self, model: GPT, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe
        self.masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in model.parameters()]
        self.adam = torch.optim.Adam(self.masters, lr=recipe.lr, eps=recipe.eps)

    def step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.model.zero_grad()
        loss = self.model(*batch)
        loss.backward()
        for p, master in zip(self.model.parameters(), self.masters, strict=True):
            master.grad = p.grad.to(self.recipe.master)
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.masters, self.recipe.clip)
        self.adam.step()
        for p, master in zip(self.model.parameters(), self.masters, strict=True):
            p.data.copy_(master.detach())
        return loss.detach()


@cache
def mesh_of_degrees(dp: int, pp: int, tp: int, cp: int) -> DeviceMesh:
    """One mesh for all layouts of the same degrees: making its groups takes longer than a step."""
    return mesh_of(Layout(dp=dp, pp=pp, tp=tp, cp=cp), device="cpu")


def run(case: dict[str, Any]) -> dict[str, Any]:
    layout = Layout(**case["layout"])
    sizes = Shape(**(SIZES | case.get("sizes", {})))
    micro = case.get("micro_batches", 2)
    dtype = DTYPES[case["precision"]]
    recipe = Recipe(master=torch.float64 if dtype == torch.float64 else torch.float32, clip=case.get("clip"))
    here = layout.fits(
        ranks=dist.get_world_size(), layers=sizes.layers, heads=sizes.heads, length=sizes.sequence, micro_batches=micro
    ).coordinates(dist.get_rank())

    def make() -> GPT:
        return GPT(sizes, seed=1, dtype=dtype)

    twin = Twin(make(), recipe)
    mesh = mesh_of_degrees(layout.dp, layout.pp, layout.tp, layout.cp)
    orders = schedule(case.get("schedule", "1f1b"), ranks=layout.pp, micro_batches=micro, chunks=layout.chunks)
    worst = 0.0
    with Tracker() as tracker:
        with record_function("parameters"):
            model = make()
        strategy = Parallel(
            model.pieces,
            layout=layout,
            mesh=mesh,
            orders=orders,
            hidden=sizes.hidden,
            length=sizes.sequence,
            loss=model.loss,
            recipe=recipe,
            recomputed=case.get("recompute", "none"),
        )
        for axis, group in strategy.groups.items():
            tracker.name_axis(group, axis)
        del model
        for step in range(STEPS):
            if step == 1:
                tracker.reset_peak()
            tracker.reset_collectives()
            batch = global_batch(step, size=layout.dp * micro * 2, sequence=sizes.sequence)
            mine = micro_batches(batch, rank=here["data"], ranks=layout.dp, accumulate=micro)
            loss = strategy.train_step(mine)
            with record_function("report"):
                expected = twin.step(batch)
                if loss is not None:
                    loss = loss.double()
                    dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=strategy.data)
                    worst = max(worst, abs(loss.item() - expected.item()))
        rest = tracker.rest.as_dict()
        axes = {
            axis: {name: count.as_dict() for name, count in counts.items()} for axis, counts in tracker.axes.items()
        }
    assert (loss is None) == (here["pipeline"] < layout.pp - 1)

    theirs = stages_of(twin.model.pieces, stages=layout.pp * layout.chunks)
    whole = [p for stage in layout.stages(dist.get_rank()) for p in nn.ModuleList(theirs[stage]).parameters()]
    ours = [p for stage in strategy.model for p in stage.parameters()]
    parameters = max(
        (p.double() - part(q, shard_of(p), rank=here["tensor"], ranks=layout.tp).double()).abs().max().item()
        for p, q in zip(ours, whole, strict=True)
    )
    training = Training(
        layout=layout,
        layers=sizes.layers,
        hidden=sizes.hidden,
        sequence=sizes.sequence,
        micro_batch=2,
        micro_batches=micro,
        precision=case["precision"],
        tied=sizes.tied,
        recompute=case.get("recompute", "none"),
    )
    return {
        "case": case,
        "loss": worst,
        "parameters": parameters,
        "rest": {name: rest[name] for name in ("parameters", "gradients", "optimizer_states")},
        "axes": axes,
        "predicted": {
            "rest": asdict(states(training, dist.get_rank())),
            "axes": {
                axis: {name: asdict(count) for name, count in counts.items()}
                for axis, counts in traffic(training, dist.get_rank()).items()
            },
        },
    }


if __name__ == "__main__":
    with this.group() as world:
        this.report([run(case) for case in json.loads(sys.argv[1])])
