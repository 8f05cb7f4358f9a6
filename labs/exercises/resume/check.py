"""Checks `next_step`: the examples of every step, over epochs and over changes of the number of ranks, and whether all
ranks agree on the progress.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from labs.exercises.trial import Case, Failure, Result, Student, Work, generator, kind

BATCH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Case):
    """(ranks, steps) one after the other, with a checkpoint between them; and how many examples there are."""

    parts: tuple[tuple[int, int], ...]
    size: int


CASES = (
    Plan(name="one run", ranks=2, parts=((2, 3),), size=100),
    Plan(name="epochs that end with a step", ranks=3, group="epochs", parts=((3, 3),), size=24),
    Plan(name="epochs that end within a step", ranks=3, group="epochs", parts=((3, 4),), size=22),
    Plan(name="resumed", ranks=4, group="resumed", parts=((4, 2), (4, 2)), size=100),
    Plan(name="fewer ranks, then more", ranks=4, group="other-ranks", parts=((4, 3), (2, 2), (3, 2)), size=30),
)


def order_of(seed: int, size: int) -> Callable[[int], list[int]]:
    return lambda epoch: torch.randperm(size, generator=generator(seed, epoch)).tolist()


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    assert isinstance(case, Plan)
    next_step = student["next_step"]
    rank = dist.get_rank(group)
    saved: list[Any] = [{"consumed": 0, "global_batch": BATCH}]
    told: list[dict[str, Any]] = []
    for ranks, steps in case.parts:
        # The checkpoint: what rank 0 has. It is read anew, as by ranks that were started again.
        dist.broadcast_object_list(saved, src=0, group=group)
        progress = json.loads(json.dumps(saved[0]))
        for _ in range(steps if rank < ranks else 0):
            given = next_step(progress, rank=rank, ranks=ranks, size=case.size, order=order_of(seed, case.size))
            if not isinstance(given, tuple) or len(given) != 2:
                return Work(value=[{"wrong": kind(given)}])
            taken, progress = given
            if not isinstance(progress, dict):
                return Work(value=[{"wrong": kind(progress)}])
            try:
                told.append({"taken": [int(each) for each in taken], "progress": json.loads(json.dumps(progress))})
            except (TypeError, ValueError):
                return Work(value=[{"wrong": kind(taken)}])
        saved = [progress]
    return Work(value=told)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    assert isinstance(case, Plan)
    for result in results:
        if (wrong := result.get(0, "wrong")) is not None:
            yield Failure(group="form", id="not-a-pair", rank=result.rank, values={"got": str(wrong)})
            return
    place, done = 0, Counter[int]()  # in the order of the run; steps that each rank has taken
    for part, (ranks, steps) in enumerate(case.parts):
        before = case.parts[part - 1][0] if part else ranks
        for step in range(steps):
            taken = []
            for rank in range(ranks):
                taken.append(results[rank].get(done[rank], "taken", default=[]))
                done[rank] += 1
            told = {"step": place // BATCH + 1, "ranks": ranks, "before": before, "batch": BATCH, "size": case.size}
            if failure := of_step(
                taken, told, place, order_of(seed, case.size), case.size, first=step == 0 and part > 0
            ):
                yield failure
                return
            progress = [results[rank].get(done[rank] - 1, "progress") for rank in range(ranks)]
            if any(each != progress[0] for each in progress):
                other = next(rank for rank in range(ranks) if progress[rank] != progress[0])
                values = {**told, "got": str(progress[other]), "expected": str(progress[0])}
                yield Failure(group="form", id="progress-differs", rank=other, values=values)
                return
            place += BATCH


def of_step(
    taken: Sequence[Sequence[int]],
    told: Mapping[str, Any],
    place: int,
    order: Callable[[int], list[int]],
    size: int,
    *,
    first: bool,
) -> Failure | None:
    """What is wrong with a step, in which the ranks took these examples; None where they took those that come next."""
    ranks = len(taken)

    def at(start: int, count: int = BATCH) -> list[int]:
        return [order(each // size)[each % size] for each in range(start, start + count)]

    wanted, got = at(place), [each for own in taken for each in own]
    if Counter(got) == Counter(wanted):
        uneven = next((rank for rank, own in enumerate(taken) if len(own) != BATCH // ranks), None)
        if uneven is None:
            return None
        return failure("uneven", told, uneven, got=len(taken[uneven]), expected=BATCH // ranks)
    if ranks > 1 and all(own == taken[0] for own in taken):
        return failure("same-on-all", told, None)
    if len(got) != BATCH:
        begins = [place + rank * BATCH // ranks for rank in range(ranks)]
        if got == [each for start in begins for each in at(start, min(BATCH // ranks, size - start % size))]:
            return failure("stops-at-border", told, None, got=len(got))
        kept = BATCH // told["before"] == len(taken[0]) and told["before"] != ranks
        return failure("batch-changed" if kept else "batch-size", told, None, got=len(got))
    meanings: dict[str, list[int]] = {
        "again": at(max(0, place - BATCH)),
        "per-rank": at(place // told["before"] * ranks),
        "border": [order(place // size)[each % size] for each in range(place, place + BATCH)],
        "same-order": [order(0)[each % size] for each in range(place, place + BATCH)],
        "epoch-begins-anew": at(-(-place // size) * size),
    }
    for id, meaning in meanings.items():
        if Counter(got) == Counter(meaning):
            return failure(id, told, None)
    surplus, missing = Counter(got) - Counter(wanted), Counter(wanted) - Counter(got)
    return failure("others", told, None, got=sorted(surplus), expected=sorted(missing))


def failure(id: str, told: Mapping[str, Any], rank: int | None, **values: object) -> Failure:
    return Failure(group="examples", id=id, rank=rank, values={**told, **values})


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    yield from ()
