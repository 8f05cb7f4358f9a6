"""Checks `parts(sizes, rank=, ranks=)`: every element of every parameter in one place, and what some ranks have saved
comes whole to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

SIZES = {"embedding.weight": 12, "block.weight": 7, "block.bias": 1, "head.weight": 4}
"""24 elements: 2, 3 and 4 ranks cut without padding."""
PADDED = {"embedding.weight": 12, "block.weight": 7, "block.bias": 2, "head.weight": 2}
TINY = {"scale": 1, "bias": 1}
"""On 4 ranks two of them have nothing but padding."""
CASES = (Case(name="a shard of each rank", ranks=1, communicates=False),)
LAYOUTS: tuple[tuple[str, Mapping[str, int], int], ...] = (
    ("cut", SIZES, 1),
    ("cut", SIZES, 2),
    ("cut", SIZES, 4),
    ("padding", PADDED, 2),
    ("padding", PADDED, 4),
    ("padding", TINY, 4),
    ("others", PADDED, 3),
    ("others", TINY, 3),
)
"""The group of points, the parameters, and how many ranks there are."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    parts = student["parts"]
    told = []
    for _, sizes, ranks in LAYOUTS:
        told.append([plain(parts(dict(sizes), rank=rank, ranks=ranks)) for rank in range(ranks)])
    return Work(value=told)


def plain(given: object) -> list[list[Any]] | str:
    """The entries where the value is a list of them, else what it is."""
    if not isinstance(given, list | tuple):
        return kind(given)
    for entry in given:
        whole = isinstance(entry, list | tuple) and len(entry) == 4 and isinstance(entry[0], str)
        if not whole or any(type(number) is not int for number in entry[1:]):
            return f"a list with {kind(entry)}" if not isinstance(entry, list | tuple) else f"a list with {entry!r}"
    return [list(entry) for entry in given]


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for number, (group, sizes, ranks) in enumerate(LAYOUTS):
        found = []
        for rank in range(ranks):
            given = results[0].get(number, rank)
            if not isinstance(given, list):
                values = {"got": str(given), "call": call(sizes, rank, ranks)}
                yield Failure(group="form", id="not-a-list", rank=rank, values=values)
                return
            found += list(of_rank(given, sizes, rank, ranks, group))
        yield from found
        if found:
            return


def call(sizes: Mapping[str, int], rank: int, ranks: int) -> str:
    return f"parts({dict(sizes)}, rank={rank}, ranks={ranks})"


def held(sizes: Mapping[str, int], rank: int, width: int) -> dict[str, tuple[int, int, int]]:
    """Of each parameter that lies in a shard of this width: first, count, here."""
    begin, found = 0, {}
    for name, size in sizes.items():
        first, last = max(begin, rank * width), min(begin + size, (rank + 1) * width)
        if first < last:
            found[name] = (first - begin, last - first, first - rank * width)
        begin += size
    return found


def of_rank(
    given: Sequence[Sequence[Any]], sizes: Mapping[str, int], rank: int, ranks: int, group: str
) -> Iterator[Failure]:
    """What is wrong with the entries of one rank: the first of it."""
    total = sum(sizes.values())
    width = -(-total // ranks)
    expected, floored = held(sizes, rank, width), held(sizes, rank, total // ranks)
    told: dict[str, Any] = {"call": call(sizes, rank, ranks), "rank": rank, "ranks": ranks, "total": total}
    told["width"] = width

    def failure(id: str, **values: object) -> Failure:
        return Failure(group=group, id=id, rank=rank, values=told | values)

    entries: dict[str, tuple[int, int, int]] = {}
    for name, *numbers in given:
        if name not in sizes:
            yield Failure(group="form", id="no-such-parameter", rank=rank, values=told | {"got": name})
            return
        if name in entries:
            yield failure("twice", name=name)
            return
        entries[name] = (numbers[0], numbers[1], numbers[2])
    if entries == expected:
        return
    if entries == floored:
        yield failure("floor", got=str(list(as_entries(entries))), right=str(list(as_entries(expected))))
        return
    for name, (first, count, here) in entries.items():
        values = {"name": name, "first": first, "count": count, "size": sizes[name]}
        begin = sum(list(sizes.values())[: list(sizes).index(name)])
        right = expected.get(name)
        if (first, count, here) == right:
            continue
        if right is not None:
            values |= {"got": str((name, first, count, here)), "right": str((name, *right))}
        if count < 1:
            yield failure("empty", **values)
        elif right is None:
            yield failure("foreign", **values)
        elif (here, count, first) == right:
            yield failure("swapped", **values)
        elif (first, count) == (0, sizes[name]) != right[:2]:
            yield failure("whole", **values)
        elif begin and first == begin + right[0]:
            yield failure("from-the-buffer", **values)
        elif first < 0 or first + count > sizes[name]:
            yield failure("past-the-end", **values)
        else:
            yield failure("place" if (first, count) == right[:2] else "elements", **values)
        return
    name = next(name for name in expected if name not in entries)
    yield failure("missing", name=name, right=str((name, *expected[name])))


def as_entries(held: Mapping[str, tuple[int, int, int]]) -> Iterator[tuple[str, int, int, int]]:
    for name, (first, count, here) in held.items():
        yield name, first, count, here


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    yield from ()
