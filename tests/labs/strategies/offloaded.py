"""Runs in the ranks: a strategy with its states offloaded beside the same without, and beside the unsharded twin."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
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
from labs.strategies.checkpoint import Checkpoints
from labs.strategies.offload import FileRoom, HostRoom, offload
from labs.strategies.overlap import OverlappedZero1, OverlappedZero3
from labs.strategies.parts import names_of, parts_of, places_of, shapes_in
from labs.strategies.pipeline import PipelineParallel
from labs.strategies.schedules import schedule
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


def composed(group: dist.ProcessGroup, folder: Path) -> dict[str, bool]:
    """Whether offloading changes nothing under what else has units: overlap, a pipeline, and checkpoints that are saved
    from a file and loaded into one, or into memory.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    make, case = partial(FileRoom, folder=folder), {"precision": "fp32"}
    whole = [global_batch(step, size=BATCH, sequence=SIZES.sequence) for step in range(2)]
    parts_of_batch = [micro_batches(batch, rank=rank, ranks=ranks) for batch in whole]

    def built(kind: Any, *, away: bool) -> Any:
        model = model_of(case)
        strategy = kind(model, model.pieces, group=group, recipe=Recipe())
        if away:
            offload(strategy, make, block=208)
        return strategy

    def piped(*, away: bool) -> Any:
        model = model_of(case)
        strategy = PipelineParallel(
            model.pieces,
            orders=schedule("1f1b", ranks=ranks, micro_batches=4),
            hidden=SIZES.hidden,
            loss=lambda logits, targets: model.loss(logits.flatten(0, 1), targets.flatten()),
            group=group,
            recipe=Recipe(),
        )
        if away:
            offload(strategy, make, block=208)
        return strategy

    def trained(strategy: Any, steps: Sequence[Any]) -> list[torch.Tensor]:
        for mine in steps:
            strategy.train_step(mine)
        with whole_parameters(strategy.units):
            return [p.detach().clone() for p in strategy.model.parameters()]

    def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

    found = {}
    for kind in (OverlappedZero1, OverlappedZero3):
        ours, plain = (trained(built(kind, away=away), parts_of_batch) for away in (True, False))
        found[kind.__name__] = same(ours, plain)
    steps = [micro_batches(batch, rank=0, ranks=1, accumulate=4) for batch in whole]
    found["pipeline"] = same(*(trained(piped(away=away), steps) for away in (True, False)))

    def parts_in(strategy: Any) -> Any:
        return parts_of(strategy.units, places_of(shapes_in(strategy.units), names_of(strategy.model)))

    saved = built(STAGES[1], away=True)
    checkpoints = Checkpoints(folder / "saved")
    trained(saved, parts_of_batch[:1])
    checkpoints.save(parts_in(saved), {}, step=1)
    checkpoints.wait()
    end = trained(saved, parts_of_batch[1:])
    for away in (True, False):
        loaded = built(STAGES[1], away=away)
        checkpoints.load(parts_in(loaded))
        found[f"checkpoint, offloaded {away}"] = same(end, trained(loaded, parts_of_batch[1:]))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder / "saved")
    dist.barrier()
    return found


if __name__ == "__main__":
    with this.group() as world, tempfile.TemporaryDirectory() as place:
        places: list[Any] = [place]
        dist.broadcast_object_list(places)
        found = [run(case, world, Path(place)) for case in json.loads(sys.argv[1])]
        together = composed(world, Path(places[0])) if world.size() == 2 else {}
        left = [str(path) for path in Path(place).iterdir()]
        this.report({"cases": found, "composed": together, "left": left})
