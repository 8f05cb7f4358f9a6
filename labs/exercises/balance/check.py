"""Checks `balance(costs, stages)`: sizes of stages whose heaviest is the lightest possible."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

CASES = (Case(name="arithmetic", ranks=1, communicates=False),)
BLOOM = ((3_596_615_680, *(2_466_437_120,) * 70, 3_596_615_680), 12)
"""Parameters of BLOOM-176B's table, layers and head, and its stages."""
SMALL = ((513_802_240, *(50_358_272,) * 24, 513_802_240), 8)
"""The same of a model with narrower layers: of 24 layers, ten weigh as much as the table."""


def questions(seed: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """What is asked, by name: costs of the pieces, and the number of stages."""
    drawn = random.Random(seed)
    return {
        "one": ((5, 3), 1),
        "each": ((7, 1, 4), 3),
        "even": ((4,) * 8, 4),
        "heavy-ends": ((90, *(30,) * 10, 60), 4),
        "heavy-middle": ((10, 10, 80, 10, 10, 10), 3),
        "bloom": BLOOM,
        "small": SMALL,
        "drawn": (tuple(drawn.randint(1, 40) for _ in range(17)), 5),
        "drawn-again": (tuple(drawn.randint(1, 40) for _ in range(12)), 4),
    }


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    balance = student["balance"]
    found: dict[str, Any] = {}
    for name, (costs, stages) in questions(seed).items():
        sizes = balance(list(costs), stages)
        if isinstance(sizes, (list, tuple)) and all(type(each) is int for each in sizes):
            found[name] = list(sizes)
        else:
            found[name] = kind(sizes)
    return Work(value=found)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    for name, (costs, stages) in questions(seed).items():
        yield from compare_sizes(result.get(name), costs, stages)


def compare_sizes(got: object, costs: Sequence[int], stages: int) -> Iterator[Failure]:
    told: dict[str, object] = {"pieces": len(costs), "stages": stages, "costs": short(costs)}
    if not isinstance(got, list):
        yield Failure(group="shape", id="not-a-list", values={**told, "got": str(got)})
        return
    told["got"] = short(got)
    if len(got) != stages:
        yield Failure(group="shape", id="other-number", values={**told, "count": len(got)})
    elif min(got) < 1:
        yield Failure(group="pieces", id="empty-stage", values={**told, "stage": got.index(min(got))})
    elif sum(got) != len(costs):
        yield Failure(group="pieces", id="not-all", values={**told, "sum": sum(got)})
    else:
        heaviest, least = max(sums(got, costs)), lightest(costs, stages)
        if heaviest > least:
            id = "by-number" if max(got) - min(got) <= 1 else "greedy" if got == filled(costs, stages) else "heavier"
            yield Failure(group="heaviest", id=id, values={**told, "heaviest": heaviest, "least": least})


def sums(sizes: Sequence[int], costs: Sequence[int]) -> list[int]:
    """What each stage costs."""
    borders = [0, *accumulate(sizes)]
    return [sum(costs[begin:end]) for begin, end in pairwise(borders)]


def lightest(costs: Sequence[int], stages: int) -> int:
    """The least that the heaviest stage can cost: the lowest limit under which as few stages are enough."""
    low, high = max(costs), sum(costs)
    while low < high:
        limit = (low + high) // 2
        if needed(costs, limit) <= stages:
            high = limit
        else:
            low = limit + 1
    return low


def needed(costs: Sequence[int], limit: int) -> int:
    """Stages that are needed if none may cost more than the limit."""
    count, room = 1, limit
    for cost in costs:
        if cost > room:
            count, room = count + 1, limit
        room -= cost
    return count


def filled(costs: Sequence[int], stages: int) -> list[int]:
    """Each stage filled until it has the mean, and all that is left for the last one."""
    sizes: list[int] = []
    mean, own, size = sum(costs) / stages, 0, 0
    for index, cost in enumerate(costs):
        own, size = own + cost, size + 1
        rest, open_stages = len(costs) - index - 1, stages - len(sizes) - 1
        if open_stages and (own >= mean or rest == open_stages):
            sizes.append(size)
            own, size = 0, 0
    return [*sizes, size]


def short(numbers: Sequence[int]) -> str:
    """The numbers of a list, the middle left out where it is long."""
    shown = [*map(str, numbers)]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:4], "...", *shown[-3:]])


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
