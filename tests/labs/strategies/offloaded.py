"""Runs in the ranks: a strategy with its states offloaded beside the same without, and beside the unsharded twin."""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs.data import global_batch, micro_batches
from labs.planner.offload import predict_offload
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.offload import FileRoom, HostRoom, offload
from labs.strategies.units import Recipe, whole_parameters
from labs.telemetry import Tracker
from tests.labs.strategies.cases import BATCH, DTYPES, SIZES, STAGES, Twin, model_of

STEPS = 4


def run(case: dict[str, Any], group: dist.ProcessGroup, folder: Path) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    recipe = Recipe(master=DTYPES["fp64" if case["precision"] == "fp64" else "fp32"], clip=case.get("clip"))
    make = partial(FileRoom, folder=folder) if case["to"] == "file" else partial(HostRoom, pinned=False)
    accumulate, late = case.get("accumulate", 1), case.get("late", 0)
    twin, plain = Twin(case, recipe), STAGES[case["stage"]]
    with_it, without = model_of(case), model_of(case)

    def part(step: int) -> tuple[Any, Any]:
        batch = global_batch(step, size=BATCH, sequence=SIZES.sequence)
        return batch, micro_batches(batch, rank=rank, ranks=ranks, accumulate=accumulate)

    beside = plain(without, without.pieces, group=group, recipe=recipe)
    expected = []
    for step in range(STEPS):
        batch, mine = part(step)
        beside.train_step(mine)
        expected.append(twin.step(batch).item())
    with Tracker() as tracker:
        tracker.adopt(with_it.parameters(), "parameters")
        pieces = pieces_of(with_it.pieces)
        strategy = plain(with_it, with_it.pieces, group=group, recipe=recipe)
        away = [] if late else offload(strategy, make, block=case["block"])
        worst, moved = 0.0, 0
        for step in range(STEPS):
            if late and step == late:
                away = offload(strategy, make, block=case["block"])
            if step == late + 1:
                tracker.reset_peak()
            tracker.reset_collectives()
            before = away[0].wire.moved if away else 0
            loss = strategy.train_step(part(step)[1])
            moved = away[0].wire.moved - before if away else 0
            with record_function("report"):
                loss = loss.double()
                dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
            worst = max(worst, abs(loss.item() - expected[step]))
        measured = {"rest": tracker.rest.as_dict(), "peak": tracker.peak.as_dict()}
        collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    with whole_parameters(strategy.units), whole_parameters(beside.units):
        same = all(torch.equal(a, b) for a, b in zip(with_it.parameters(), without.parameters(), strict=True))
        parameters = max(
            (a.double() - b.double()).abs().max().item()
            for a, b in zip(with_it.parameters(), twin.model.parameters(), strict=True)
        )
    for ours, theirs in zip(strategy.trained, beside.trained, strict=True):
        mine, other = ours.adam.state[ours.master], theirs.adam.state[theirs.master]
        same = same and torch.equal(ours.master, theirs.master.detach()) and float(mine["step"]) == float(other["step"])
        same = same and all(torch.equal(mine[name], other[name]) for name in ("exp_avg", "exp_avg_sq"))
    stage, precision = case["stage"], case["precision"]
    prediction = predict_offload(pieces, stage=stage, ranks=ranks, precision=precision, block=case["block"])
    plain_prediction = predict(pieces, stage=stage, ranks=ranks, precision=precision, micro_batches=accumulate)
    states = prediction.states
    return {
        "case": case,
        "loss": worst,
        "parameters": parameters,
        "same": same,
        "measured": measured,
        "moved": moved,
        "collectives": {name: count for name, count in collectives.items() if name != "clipping"},
        "offloaded": sum(each.room.states.nbytes for each in away),
        "on_disk": sum(each.room.on_disk for each in away),
        "predicted": {
            "states": [states.parameters, states.gradients, states.optimizer_states],
            "buffers": prediction.buffers,
            "communication": plain_prediction.communication,
            "offloaded": prediction.offloaded,
            "moved": prediction.moved,
            "collectives": {
                name: {"count": count.count, "bytes": count.bytes}
                for name, count in plain_prediction.collectives.items()
            },
        },
    }


if __name__ == "__main__":
    with this.group() as world, tempfile.TemporaryDirectory() as place:
        found = [run(case, world, Path(place)) for case in json.loads(sys.argv[1])]
        left = [str(path) for path in Path(place).iterdir()]
        this.report({"cases": found, "left": left})
