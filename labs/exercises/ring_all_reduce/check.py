"""Checks `ring_all_reduce(buffer, group=...)`: which ranks are in the sum of each chunk on each rank."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import Case, Failure, Result, Student, Work, different, generator, misshapen, same
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks", ranks=3),
    Case(name="4 ranks", ranks=4),
)
LENGTHS: dict[int, dict[str, int]] = {2: {"two-ranks": 6}, 3: {"more-ranks": 12}, 4: {"uneven": 10, "short": 3}}
"""By number of ranks, the groups of points and the lengths of their buffers."""


def buffer(seed: int, ranks: int, length: int, rank: int) -> Tensor:
    return torch.randn(length, generator=generator(seed, ranks, length, rank), dtype=torch.float64)


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    ring_all_reduce = student["ring_all_reduce"]
    rank = dist.get_rank(group)
    tensors: dict[str, Tensor] = {}
    returned: dict[str, bool] = {}
    with Tracker() as tracker:
        for name, length in LENGTHS[case.ranks].items():
            own = buffer(seed, case.ranks, length, rank)
            returned[name] = isinstance(ring_all_reduce(own, group=group), Tensor)
            tensors[name] = own.clone()
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return Work(value={"returned": returned, "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for name, length in LENGTHS[case.ranks].items():
        buffers = [buffer(seed, case.ranks, length, rank) for rank in range(case.ranks)]
        total = torch.stack(buffers).sum(0)
        for result in results:
            got = result.tensors.get(name)
            if failure := misshapen(got, total, group=name, rank=result.rank):
                yield failure
            elif got is not None and not same(got, total):
                yield wrong(case, name, buffers, total, got, result)


def wrong(case: Case, name: str, buffers: Sequence[Tensor], total: Tensor, got: Tensor, result: Result) -> Failure:
    """What a wrong buffer is made of."""
    rank, ranks = result.rank, case.ranks
    if same(got, buffers[rank]):
        id = "returned" if result.get("returned", name) else "unchanged"
        return Failure(group=name, id=id, rank=rank, values={"ranks": ranks})
    if same(got, total / ranks):
        return Failure(group=name, id="mean", rank=rank, values={"ranks": ranks})
    for number, (chunk, own) in enumerate(zip(got.tensor_split(ranks), total.tensor_split(ranks), strict=True)):
        if same(chunk, own):
            continue
        parts = [each.tensor_split(ranks)[number] for each in buffers]
        counts = made_of(chunk, parts)
        told: dict[str, Any] = {"chunk": number, "ranks": ranks}
        if counts is None:
            break
        missing = [str(r) for r, count in enumerate(counts) if count == 0]
        doubled = [str(r) for r, count in enumerate(counts) if count > 1]
        present = ", ".join(str(r) for r, count in enumerate(counts) if count) or "0"
        if doubled:
            return Failure(group=name, id="twice", rank=rank, values={**told, "doubled": ", ".join(doubled)})
        if missing:
            values = {**told, "present": present, "missing": ", ".join(missing)}
            return Failure(group=name, id="partial", rank=rank, values=values)
    failure = different(got, total, {}, group=name, rank=rank)
    assert failure is not None
    return failure


def made_of(chunk: Tensor, parts: Sequence[Tensor]) -> tuple[int, ...] | None:
    """How often each rank's part is in the chunk, if it is a sum of them."""
    for counts in itertools.product(range(4), repeat=len(parts)):
        made = sum((count * part for count, part in zip(counts, parts, strict=True)), torch.zeros_like(chunk))
        if any(counts) and same(chunk, made):
            return counts
    return None


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    if len(LENGTHS[case.ranks]) > 1:
        return
    (length,) = LENGTHS[case.ranks].values()
    sent = results[0].get("collectives", "send", default={"count": 0, "bytes": 0})
    others = sorted(set(results[0].get("collectives", default={})) - {"send", "receive"})
    enough = 2 * (case.ranks - 1) * 8 * length // case.ranks
    if others:
        yield Failure(group="traffic", id="collective", values={"names": ", ".join(others)})
    elif sent["bytes"] > enough:
        yield Failure(group="traffic", id="traffic", values={"got": sent["bytes"], "expected": enough})
