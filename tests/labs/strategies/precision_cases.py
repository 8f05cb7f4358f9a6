"""Runs in the ranks: mixed precision with a loss scale that overflows now and then. Reports losses, scales, skipped
steps and parameters; and what each rank decides from a shard of which only one holds an infinite gradient.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.precision import LossScaler, MixedPrecision
from labs.strategies.units import Recipe

SHAPE = Shape(layers=2, hidden=24, heads=2, sequence=12)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
STEPS = 12


def run(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    model = GPT(SHAPE, seed=1, dtype=DTYPES[case["precision"]])
    recipe = Recipe(clip=case.get("clip"))
    scaler = LossScaler(**case.get("scaler", {"scale": 1.0, "dynamic": False}), group=group)
    if case.get("plain"):
        strategy: Any = DataParallel(model, model.pieces, group=group, recipe=recipe)
        strategy.skipped = False
    else:
        strategy = MixedPrecision(model, model.pieces, group=group, recipe=recipe, scaler=scaler)
    losses, scales, skipped = [], [], []
    for step in range(STEPS):
        batch = global_batch(step, size=8, sequence=SHAPE.sequence)
        scales.append(scaler.scale)
        loss = strategy.train_step(
            micro_batches(batch, rank=rank, ranks=ranks, accumulate=case.get("accumulate", 1))
        ).double()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
        losses.append(loss.item())
        skipped += [step] if strategy.skipped else []
    parameters = [p.float().flatten().tolist() for p in model.parameters()]
    return {"losses": losses, "scales": scales, "skipped": skipped, "parameters": parameters}


def shards(group: dist.ProcessGroup) -> list[Any]:
    """Only the last rank's shard overflows; what this rank finds, and its scale after the step."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    scaler = LossScaler(scale=4.0, interval=2, group=group)
    told = []
    for step in range(4):
        shard = torch.full((3,), torch.inf if step == 1 and rank == ranks - 1 else 8.0)
        overflow = scaler.unscale([shard])
        scaler.update(overflow=overflow)
        told.append([overflow, scaler.scale, shard[0].item() if rank < ranks - 1 else None])
    return told


if __name__ == "__main__":
    with this.group() as world:
        found = [run(case, world) for case in json.loads(sys.argv[1])]
        this.report({"cases": found, "shards": shards(world)})
