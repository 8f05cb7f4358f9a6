"""Runs in the ranks: each strategy with overlapped communication beside the same without, and the unsharded twin."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs.data import global_batch, micro_batches
from labs.link import Link
from labs.planner.overlap import buckets_of, communication_peak
from labs.planner.zero import pieces_of
from labs.runner import rank as this
from labs.strategies.overlap import OverlappedDataParallel, OverlappedZero1, OverlappedZero2, OverlappedZero3
from labs.strategies.units import Recipe, whole_parameters
from labs.telemetry import Tracker
from tests.labs.strategies.cases import BATCH, DTYPES, SIZES, STAGES, Twin, model_of

OVERLAPPED = {0: OverlappedDataParallel, 1: OverlappedZero1, 2: OverlappedZero2, 3: OverlappedZero3}
STEPS = 3


def run(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    recipe = Recipe(master=DTYPES["fp64" if case["precision"] == "fp64" else "fp32"], clip=case.get("clip"))
    bounds = {name: case[name] for name in ("ahead", "buckets", "bucket") if name in case}
    twin, batches = Twin(case, recipe), []
    for step in range(STEPS):
        batch = global_batch(step, size=BATCH, sequence=SIZES.sequence)
        twin.step(batch)
        batches.append(micro_batches(batch, rank=rank, ranks=ranks, accumulate=case.get("accumulate", 1)))

    def trained(kind: Any, **bounds: int) -> dict[str, Any]:
        with Tracker() as tracker:
            model = model_of(case)
            pieces = pieces_of(model.pieces)
            strategy = kind(model, model.pieces, group=group, recipe=recipe, **bounds)
            losses = []
            for step, mine in enumerate(batches):
                if step == 1:
                    tracker.reset_peak()
                tracker.reset_collectives()
                losses.append(strategy.train_step(mine).item())
            highest = tracker.peak.communication
            with record_function("report"), whole_parameters(strategy.units):
                parameters = [p.detach().clone() for p in model.parameters()]
        return {
            "losses": losses,
            "parameters": parameters,
            "collectives": {name: count.as_dict() for name, count in tracker.collectives.items()},
            "communication": highest,
            "pieces": pieces,
        }

    plain, overlapped = trained(STAGES[case["stage"]]), trained(OVERLAPPED[case["stage"]], **bounds)
    pairs = zip(overlapped["parameters"], plain["parameters"], strict=True)
    beside = zip(overlapped["parameters"], twin.model.parameters(), strict=True)
    precision = case["precision"]
    return {
        "case": case,
        "same": overlapped["losses"] == plain["losses"] and all(torch.equal(a, b) for a, b in pairs),
        "parameters": max((a.double() - b.double()).abs().max().item() for a, b in beside),
        "collectives": [plain["collectives"], overlapped["collectives"]],
        "communication": overlapped["communication"],
        "predicted": 0
        if case["stage"] == 0
        else communication_peak(overlapped["pieces"], stage=case["stage"], ranks=ranks, precision=precision, **bounds),
        "reduced": buckets_of(overlapped["pieces"], ranks=ranks, precision=precision, bucket=case.get("bucket", 0)),
    }


def another_order(group: dist.ProcessGroup) -> str:
    """What ZeRO-3 says when a later micro-batch uses the pieces in another order."""
    model = model_of({"precision": "fp32"})
    strategy = OverlappedZero3(model, model.pieces, group=group, recipe=Recipe())
    batch = micro_batches(
        global_batch(0, size=BATCH, sequence=SIZES.sequence), rank=this.number(), ranks=this.world_size()
    )
    strategy.train_step(batch)
    model.blocks = torch.nn.ModuleList(reversed(model.blocks))
    try:
        strategy.train_step(batch)
    except RuntimeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    with this.group() as world, Link(None):
        found = [run(case, world) for case in json.loads(sys.argv[1])]
        this.report({"cases": found, "refused": another_order(world)})
