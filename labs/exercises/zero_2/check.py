"""Checks `reduce_gradients(unit)`: what each rank keeps after each micro-batch, and the parameters after a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.exercises import small
from labs.exercises.trial import Case, Failure, Result, Student, Work, different, kind, misshapen
from labs.runner import rank as this
from labs.strategies.units import InOrder, Unit, units_of
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 micro-batches", ranks=2, micro_batches=3, group="accumulation"),
    Case(name="3 ranks", ranks=3, micro_batches=2, group="more-ranks"),
    Case(name="4 ranks, a unit unused", ranks=4, micro_batches=2, group="unused", skipping=(0, 1, 2, 3)),
)
STEPS = 2


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    reduce_gradients = student["reduce_gradients"]
    model = small.Small(seed)
    units = units_of(list(model.pieces), group=group)
    tensors: dict[str, Tensor] = {}
    kept: list[str] = []

    for unit in units:
        unit.keep_gradient_shard()
        unit.keep_master(unit.shard, small.RECIPE)
    in_order = InOrder(units, reduce_gradients)
    with Tracker() as tracker:
        for step in range(STEPS):
            this.step(step)
            tracker.reset_collectives()
            batches = small.micro_batches(
                seed=seed, step=step, rank=dist.get_rank(group), count=case.micro_batches, skipping=case.skipping
            )
            for number, batch in enumerate(batches):
                (model(*batch) / len(batches)).backward()
                in_order.settle()
                for piece, unit in enumerate(units):
                    leave(unit, f"{step}-{number}-{piece}", tensors, kept)
            collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
            for piece, unit in enumerate(units):
                if unit.gradients.shape == unit.master.shape:
                    unit.update(unit.gradients)
                with record_function("report"):
                    unit.all_gather()
                tensors[f"whole-{step}-{piece}"] = unit.whole.detach()[: unit.size].clone()
    return Work(value={"kept": kept, "collectives": collectives}, tensors=tensors)


def leave(unit: Unit, key: str, tensors: dict[str, Tensor], kept: list[str]) -> None:
    """What the unit holds between two micro-batches."""
    if isinstance(unit.gradients, Tensor):
        tensors[f"gradients-{key}"] = unit.gradients.detach().clone().as_subclass(torch.Tensor)
        if unit.gradients.untyped_storage().nbytes() >= unit.whole.nbytes > unit.shard.nbytes:
            kept.append(f"storage-{key}")
    else:
        kept.append(f"type-{key}-{kind(unit.gradients)}")
        unit.keep_gradient_shard()
    if unit.bucket is not None:
        kept.append(f"bucket-{key}")
    if any(p.grad is not None for p in unit.parameters):
        kept.append(f"grad-{key}")


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    twin = small.twin(seed=seed, ranks=case.ranks, count=case.micro_batches, steps=STEPS, skipping=case.skipping)
    for step, truth in enumerate(twin):
        for number in range(case.micro_batches):
            found: list[Failure] = []
            for result in results:
                for piece in range(len(truth.mean)):
                    found += held(case, step, number, truth, result, piece)
            yield from found
            if found:
                return
        for result in results:
            yield from stepped(case, step, truth, result)


def stepped(case: Case, step: int, truth: small.Step, result: Result) -> Iterator[Failure]:
    """The parameters after the update that is made from the kept gradients."""
    for piece, (before, after) in enumerate(zip(truth.before, truth.after, strict=True)):
        told: dict[str, Any] = {"unit": piece, "step": step + 1, "ranks": case.ranks}
        whole = result.tensors.get(f"whole-{step}-{piece}")
        failure = misshapen(whole, after, group="gradients", rank=result.rank, **told)
        if failure is None and whole is not None:
            failure = different(whole, after, {"unchanged": before}, group="gradients", rank=result.rank, **told)
        if failure:
            yield failure


def held(case: Case, step: int, number: int, truth: small.Step, result: Result, piece: int) -> Iterator[Failure]:
    """What this rank keeps after a micro-batch: its shard of the mean of all micro-batches so far, and nothing else."""
    rank, ranks, key = result.rank, case.ranks, f"{step}-{number}-{piece}"
    told: dict[str, Any] = {"unit": piece, "step": step + 1, "micro_batch": number + 1, "ranks": ranks}

    def shard(whole: Tensor, of: int = rank) -> Tensor:
        return small.shard(whole, of, ranks)

    so_far = range(number + 1)
    expected = shard(truth.mean_of(so_far, piece))
    kept = result.get("kept", default=[])
    given = result.tensors.get(f"gradients-{key}")
    if given is not None and given.numel() == expected.numel() * ranks > expected.numel():
        yield Failure(group="ownership", id="whole-kept", rank=rank, values={**told, "got": kind(given)})
        return
    if failure := misshapen(given, expected, group="shape", rank=rank, **told):
        yield failure
        return
    assert given is not None
    for word, id in (("storage", "window-kept"), ("bucket", "bucket-kept"), ("grad", "gradient-kept")):
        if f"{word}-{key}" in kept:
            yield Failure(group="ownership", id=id, rank=rank, values=told)
    own = torch.stack([truth.local[rank][each][piece] for each in so_far]).sum(0)
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "sum": expected * ranks,
        "divided-twice": expected / ranks,
        "own": shard(own),
        "own-divided": shard(own) / ranks,
        "nothing": torch.zeros_like(expected),
    }
    if number:
        meanings["last-only"] = shard(truth.mean_of([number], piece))
        meanings["first-only"] = shard(truth.mean_of([0], piece))
        if case.micro_batches > 1:
            meanings["divided-again"] = expected / case.micro_batches
    meanings["other-shard"] = [shard(truth.mean_of(so_far, piece), other) for other in range(ranks) if other != rank]
    if failure := different(given, expected, meanings, group="gradients", rank=rank, **told):
        yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    before = small.twin(seed=seed, ranks=1, count=1, steps=1)[0].before
    enough = case.micro_batches * sum(small.padded(each, case.ranks).nbytes for each in before)
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
