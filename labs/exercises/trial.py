"""What an exercise's `check.py` is made of: cases that run on ranks, and what is found wrong with their results.

A check is data. Inputs come from a seed and are made alike in the ranks and in the parent; the ranks leave tensors and
JSON; the comparison happens in the parent. Nothing here knows of languages or of how ranks are started.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

RELATIVE = 1e-9
"""How far a float64 result may be from the twin's: rounding is about 1e-15, the smallest fault about 1e-3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of the student's code. With `group`, whatever it finds counts for that group of points.

    On the ranks in `skipping`, the first micro-batch leaves a piece of the model unused.
    """

    name: str
    ranks: int
    micro_batches: int = 1
    group: str | None = None
    skipping: tuple[int, ...] = ()
    communicates: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is wrong: the group of points, the id of its text, the rank, and the values in the text."""

    group: str
    id: str
    rank: int | None = None
    values: Mapping[str, object] = field(default_factory=dict)


class Found(Exception):
    """Raised in a rank where going on would crash or hang: it carries a Failure to the parent, as JSON."""

    def __init__(self, group: str, id: str, **values: int | str) -> None:
        super().__init__(json.dumps({"group": group, "id": id, "values": values}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one rank left."""

    rank: int
    value: Any
    tensors: Mapping[str, Tensor]

    def get(self, *keys: object, default: Any = None) -> Any:
        """A value inside the JSON, or the default where the rank left something else."""
        found = self.value
        for key in keys:
            try:
                found = found[key]
            except (LookupError, TypeError):
                return default
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What `work` hands back in a rank."""

    value: Any = None
    tensors: dict[str, Tensor] = field(default_factory=dict)


class Check(Protocol):
    """An exercise's `check.py`.

    work      in a rank: calls the student's code and gives what came out
    compare   in the parent: what is wrong; the first of the first group of points is told, so a later step's faults,
              which follow from an earlier one's, are left out
    remarks   in the parent, when nothing is wrong: what could be better, worth no points
    """

    CASES: Sequence[Case]

    def work(self, student: Student, case: Case, seed: int, group: Any) -> Work: ...

    def compare(self, case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]: ...

    def remarks(self, case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]: ...


class Student:
    """The names that the student's file defined."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = self._names[name]
        except KeyError:
            raise Found("file", "no-such-name", name=name) from None
        if not callable(found):
            raise Found("file", "no-such-name", name=name)
        return found


# --- comparing


def kind(value: object) -> str:
    """What something is, in a programmer's words: `tensor float64 (3, 2)` or `list`."""
    if isinstance(value, Tensor):
        return f"tensor {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return "None" if value is None else type(value).__name__


def same(got: Tensor, expected: Tensor) -> bool:
    """Equal in shape and dtype, and in value within rounding. A NaN equals nothing."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    return bool(within(got, expected).all())


def within(got: Tensor, expected: Tensor) -> Tensor:
    """Which values are equal within rounding."""
    return (got - expected).abs() <= RELATIVE * expected.abs().clamp(min=1e-3)


def misshapen(got: Tensor | None, expected: Tensor, *, group: str, rank: int, **values: object) -> Failure | None:
    """Missing, or of another shape or dtype, or not finite."""
    told = {"got": kind(got), "expected": kind(expected), **values}
    if got is None:
        return Failure(group=group, id="missing", rank=rank, values=told)
    if got.shape != expected.shape:
        return Failure(group=group, id="shape", rank=rank, values=told)
    if got.dtype != expected.dtype:
        return Failure(group=group, id="dtype", rank=rank, values=told)
    if not bool(got.isfinite().all()):
        return Failure(group=group, id="not-finite", rank=rank, values=told)
    return None


def different(
    got: Tensor,
    expected: Tensor,
    meanings: Mapping[str, Tensor | Sequence[Tensor]],
    *,
    group: str,
    rank: int,
    **values: object,
) -> Failure | None:
    """None where equal. Else which of `meanings` it is, or a constant factor, or the first place that differs."""
    if same(got, expected):
        return None
    for id, meaning in meanings.items():
        if any(same(got, each) for each in ([meaning] if isinstance(meaning, Tensor) else meaning)):
            return Failure(group=group, id=id, rank=rank, values=values)
    factor = ratio(got, expected)
    if factor is not None:
        return Failure(group=group, id="factor", rank=rank, values={"factor": f"{factor:.4g}", **values})
    wrong = ~within(got, expected).flatten()
    index = int(wrong.nonzero()[0])
    told = {
        "index": index,
        "got": f"{float(got.flatten()[index]):.6g}",
        "expected": f"{float(expected.flatten()[index]):.6g}",
        "wrong": int(wrong.sum()),
        "all": wrong.numel(),
    }
    return Failure(group=group, id="differs", rank=rank, values={**told, **values})


def ratio(got: Tensor, expected: Tensor) -> float | None:
    """The one factor that turns expected into got, if there is one."""
    norm = float((expected * expected).sum())
    if norm == 0 or not bool(got.isfinite().all()):
        return None
    factor = float((got * expected).sum()) / norm
    return factor if math.isfinite(factor) and abs(factor) > 1e-6 and same(got, factor * expected) else None


def generator(seed: int, *words: int) -> torch.Generator:
    """Random numbers that depend on these numbers only."""
    mixed = seed
    for word in words:
        mixed = (mixed * 1_000_003 + word + 1) % 2**31
    return torch.Generator().manual_seed(mixed)
