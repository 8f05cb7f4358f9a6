"""Checks `average_gradients(parameters, bucket_size=..., group=...)`: every parameter's gradient on every rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises import small
from labs.exercises.trial import Case, Failure, Result, Student, Work, different, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
    Case(name="3 ranks, a piece unused on rank 1", ranks=3, group="unused", skipping=(1,)),
)
BUCKET = 60
BUCKETS = 4
"""Buckets of at most 60 values hold 35 + 7, 49, 49 + 7 and 21 + 3."""


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    average_gradients = student["average_gradients"]
    model = small.Small(seed)
    rank = dist.get_rank(group)
    for batch in small.micro_batches(seed=seed, step=0, rank=rank, count=1, skipping=case.skipping):
        model(*batch).backward()
    parameters = list(model.parameters())
    with Tracker() as tracker:
        average_gradients(parameters, bucket_size=BUCKET, group=group)
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    tensors: dict[str, Tensor] = {}
    kinds: list[str] = []
    for number, p in enumerate(parameters):
        kinds.append(kind(p.grad))
        if isinstance(p.grad, Tensor):
            tensors[f"gradient-{number}"] = p.grad.detach().clone().as_subclass(torch.Tensor)
    return Work(value={"kinds": kinds, "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (truth,) = small.twin(seed=seed, ranks=case.ranks, count=1, steps=1, skipping=case.skipping)
    shapes = [[p.shape for p in piece.parameters()] for piece in small.Small(seed).pieces]
    means = parts(truth.mean, shapes)
    locals_ = [parts([truth.own(rank, piece) for piece in range(len(shapes))], shapes) for rank in range(case.ranks)]
    for result in results:
        for number, mean in enumerate(means):
            got = result.tensors.get(f"gradient-{number}")
            told: dict[str, Any] = {"parameter": number, "ranks": case.ranks}
            if failure := misshapen(got, mean, group="shape", rank=result.rank, **told):
                yield failure
                continue
            assert got is not None
            own = locals_[result.rank][number]
            meanings: dict[str, Tensor | Sequence[Tensor]] = {
                "sum": mean * case.ranks,
                "divided-twice": mean / case.ranks,
                "own": own,
                "own-divided": own / case.ranks,
                "zero": torch.zeros_like(mean),
            }
            if failure := different(got, mean, meanings, group="gradients", rank=result.rank, **told):
                yield failure


def parts(flat: Sequence[Tensor], shapes: Sequence[Sequence[torch.Size]]) -> list[Tensor]:
    """The flat gradients of pieces as one gradient a parameter."""
    found = []
    for whole, own in zip(flat, shapes, strict=True):
        for part, shape in zip(torch.split(whole, [shape.numel() for shape in own]), own, strict=True):
            found.append(part.view(shape))
    return found


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    counted = results[0].get("collectives", default={})
    calls = sum(each["count"] for each in counted.values())
    if calls > BUCKETS:
        yield Failure(group="traffic", id="calls", values={"got": calls, "expected": BUCKETS, "size": BUCKET})
