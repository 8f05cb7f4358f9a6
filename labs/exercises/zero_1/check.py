"""Checks `optimizer_step(units)`: what `update` was given on each rank, and the parameters after two steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises import small
from labs.exercises.trial import Case, Failure, Result, Student, Work, different, kind, misshapen
from labs.runner import rank as this
from labs.strategies.units import Unit, units_of
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks", ranks=3, group="more-ranks"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
STEPS = 2


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    optimizer_step = student["optimizer_step"]
    model = small.Small(seed)
    units = units_of(list(model.pieces), group=group)
    tensors: dict[str, Tensor] = {}
    updates: list[list[list[str]]] = []
    for unit in units:
        unit.keep_gradients()
        unit.keep_master(unit.shard, small.RECIPE)
    with Tracker() as tracker:
        for step in range(STEPS):
            this.step(step)
            for batch in small.micro_batches(seed=seed, step=step, rank=dist.get_rank(group), count=1):
                model(*batch).backward()
            seen = [watch(unit, f"update-{step}-{number}", tensors) for number, unit in enumerate(units)]
            tracker.reset_collectives()
            optimizer_step(units)
            collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
            updates.append(seen)
            for number, unit in enumerate(units):
                vars(unit).pop("update")
                tensors[f"whole-{step}-{number}"] = unit.whole.detach()[: unit.size].clone()
                tensors[f"gradients-{step}-{number}"] = unit.gradients.detach().clone()
    return Work(value={"updates": updates, "collectives": collectives}, tensors=tensors)


def watch(unit: Unit, key: str, tensors: dict[str, Tensor]) -> list[str]:
    """Let `unit.update` keep what it is given, as `tensors[key]`; the list gets a word for each call."""
    original, calls = unit.update, list[str]()

    def update(gradients: Tensor) -> None:
        calls.append(kind(gradients))
        if isinstance(gradients, Tensor):
            tensors[key] = gradients.detach().clone().as_subclass(torch.Tensor)
            if gradients.shape == unit.master.shape:
                original(gradients)

    vars(unit)["update"] = update
    return calls


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    twin = small.twin(seed=seed, ranks=case.ranks, count=1, steps=STEPS)
    for step, truth in enumerate(twin):
        found: list[Failure] = []
        for result in results:
            for piece in range(len(truth.mean)):
                found += updated(case, step, truth, result, piece)
                found += gathered(case, step, truth, result, piece)
        yield from found
        if found:
            return


def updated(case: Case, step: int, truth: small.Step, result: Result, piece: int) -> Iterator[Failure]:
    """What this rank's `unit.update` was given: its own shard of the mean."""
    rank, ranks = result.rank, case.ranks
    mean = small.shard(truth.mean[piece], rank, ranks)
    told: dict[str, Any] = {"unit": piece, "step": step + 1, "ranks": ranks}
    calls = result.get("updates", step, piece, default=[])
    if not calls:
        yield Failure(group="ownership", id="not-updated", rank=rank, values=told)
        return
    given = result.tensors.get(f"update-{step}-{piece}")
    if given is None or given.shape != mean.shape:
        yield Failure(
            group="shape", id="not-a-shard", rank=rank, values={**told, "got": calls[0], "expected": kind(mean)}
        )
        return
    if failure := misshapen(given, mean, group="shape", rank=rank, **told):
        yield failure
        return
    if len(calls) > 1:
        yield Failure(group="ownership", id="updated-twice", rank=rank, values={**told, "calls": len(calls)})
    if step == 0:
        for other in range(ranks):
            if (
                other != rank
                and different(given, small.shard(truth.mean[piece], other, ranks), {}, group="", rank=0) is None
            ):
                yield Failure(group="ownership", id="other-shard", rank=rank, values={**told, "other": other})
    own = small.shard(truth.own(rank, piece), rank, ranks)
    meanings = {"sum": mean * ranks, "divided-twice": mean / ranks, "own": own, "own-divided": own / ranks}
    if failure := different(given, mean, meanings, group="gradients", rank=rank, **told):
        yield failure


def gathered(case: Case, step: int, truth: small.Step, result: Result, piece: int) -> Iterator[Failure]:
    """The parameters that this rank computes with after the step, and the gradients that the next one starts with."""
    rank, ranks = result.rank, case.ranks
    told: dict[str, Any] = {"unit": piece, "step": step + 1, "ranks": ranks}
    before, after = truth.before[piece], truth.after[piece]
    whole = result.tensors.get(f"whole-{step}-{piece}")
    if failure := misshapen(whole, after, group="step", rank=rank, **told):
        yield failure
        return
    assert whole is not None
    mine = slice(rank * len(small.shard(before, rank, ranks)), (rank + 1) * len(small.shard(before, rank, ranks)))
    alone = before.clone()
    alone[mine] = after[mine]
    if failure := different(
        whole, after, {"unchanged": before, "not-gathered": alone}, group="step", rank=rank, **told
    ):
        yield failure
    left = result.tensors.get(f"gradients-{step}-{piece}")
    if left is None or bool(left.any()):
        yield Failure(group="step", id="gradients-left", rank=rank, values=told)


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    buffers = [
        small.padded(before, case.ranks).nbytes for before in small.twin(seed=seed, ranks=1, count=1, steps=1)[0].before
    ]
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > 2 * sum(buffers):
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": 2 * sum(buffers)})
    elif sum(each["count"] for each in counted.values()) > 2 * len(buffers):
        calls = sum(each["count"] for each in counted.values())
        yield Failure(group="traffic", id="calls", values={"got": calls, "expected": 2 * len(buffers)})
