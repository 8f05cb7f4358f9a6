"""Runs in the ranks: torch's FSDP2, tensor parallelism and 1F1B as the simulation runs them, on a real group."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labs.data import global_batch, micro_batches
from labs.model import GPT, Attention, Shape
from labs.planner.configuration import STACKS, Configuration
from labs.planner.fake import ShardedTracker
from labs.planner.fully_sharded import FullySharded
from labs.planner.models import gpt
from labs.planner.simulation import policy
from labs.runner import rank as this
from labs.strategies import tensor
from labs.strategies.layout import Layout
from labs.strategies.parallel import mesh_of
from labs.strategies.pipeline import stages_of
from labs.strategies.schedules import one_f_one_b

SMALL = replace(
    gpt(layers=2, hidden=32, heads=4, vocabulary=256, sequence=16), query_biases=False
)  # what the labs' GPT has
STEPS = 3


def plan_of(case: dict[str, Any]) -> Configuration:
    """A case as JSON says it: `stack` and `tied` by name."""
    model = replace(SMALL, tied=case.pop("tied", True))
    return Configuration(model=model, stack=STACKS[case.pop("stack", "lab")], micro_batch=2, **case).checked()


def run(plan: Configuration) -> dict[str, Any]:
    layout = Layout(dp=plan.dp, pp=plan.pp, tp=plan.tp)
    here = layout.coordinates(dist.get_rank())
    mesh = mesh_of(layout, device="cpu")
    sizes = Shape(
        layers=plan.model.layers, hidden=plan.model.hidden, heads=plan.model.heads, sequence=plan.length,
        tied=plan.model.tied,
    )  # fmt: skip
    twin = GPT(sizes, seed=1)
    adam = torch.optim.Adam(twin.parameters(), lr=1e-3, eps=1e-6)
    model = GPT(sizes, seed=1)
    rank_by_rank(model, ranks=plan.tp)
    strategy = FullySharded(
        stages_of(model.pieces, stages=plan.pp)[here["pipeline"]],
        mesh=mesh,
        zero=plan.zero,
        hidden=plan.model.hidden,
        policy=policy(plan.stack),
        sequence=plan.sequence_parallel,
        recompute=plan.recompute,
        tied=plan.model.tied,
    )
    del model
    batches = [global_batch(step, size=plan.global_batch, sequence=plan.length) for step in range(STEPS)]
    own = [micro_batches(each, rank=here["data"], ranks=plan.dp, accumulate=plan.micro_batches) for each in batches]
    true = [alone(twin, adam, batch) for batch in batches]
    losses = []
    with ShardedTracker() as tracker:
        strategy.watched(tracker)
        for mine in own:
            tracker.reset_peak()
            tracker.reset_collectives()
            strategy.orders = [
                one_f_one_b(rank=i, ranks=plan.pp, micro_batches=plan.micro_batches) for i in range(plan.pp)
            ]
            losses.append(number(strategy.train_step(mine)))
        return {
            "data": here["data"],
            "losses": losses,
            "true": true,
            "states": tracker.rest.as_dict(),
            "peak": tracker.peak.as_dict(),
            "axes": {axis: {name: each.as_dict() for name, each in own.items()} for axis, own in tracker.axes.items()},
        }


def number(loss: torch.Tensor | None) -> float | None:
    return None if loss is None else loss.item()


def alone(twin: GPT, adam: torch.optim.Optimizer, batch: Any) -> float:
    """A step on one process."""
    loss = twin(*batch)
    loss.backward()
    adam.step()
    adam.zero_grad()
    return float(loss)


def rank_by_rank(model: nn.Module, *, ranks: int) -> None:
    """torch splits rows in one stretch: put a rank's queries, keys and values together."""
    for module in model.modules():
        if isinstance(module, Attention):
            weight = module.qkv.weight
            thirds = tensor.Shard(dim=0, size=len(weight), sections=3)
            parts = [tensor.part(weight.data, thirds, rank=rank, ranks=ranks) for rank in range(ranks)]
            weight.data = torch.cat(parts)


if __name__ == "__main__":
    with this.group():
        this.report([run(plan_of(case)) for case in json.loads(sys.argv[1])])
