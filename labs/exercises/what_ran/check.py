"""Checks `ran(report, parameters=..., each=...)`: what a launch really did, from what its ranks printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

CASES = (Case(name="launches", ranks=1, communicates=False),)
WORDS = ("sharded", "replicated", "alone")
P = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What was printed of a launch."""

    wrapped: str
    adam: tuple[int, ...]
    sent: dict[str, int]
    each: int = 8

    @property
    def report(self) -> dict[str, Any]:
        return {"wrapped": self.wrapped, "adam": [*self.adam], "sent": dict(self.sent)}


REDUCED, GATHERED = {"all_reduce": 8 * P}, {"reduce_scatter": 4 * P, "all_gather": 4 * P}
COUNTERS = 4 * 28
LAUNCHES = {
    "ddp": Launch(wrapped="DistributedDataParallel", adam=(8 * P + COUNTERS,) * 2, sent=REDUCED),
    "zero-2": Launch(wrapped="GPT", adam=(4 * P, 4 * P), sent=GATHERED),
    "engine": Launch(wrapped="DeepSpeedEngine", adam=(6 * P, 6 * P), sent={**REDUCED, "all_gather": 4 * P}, each=12),
    "stage-0": Launch(wrapped="DeepSpeedEngine", adam=(8 * P + COUNTERS,) * 2, sent=REDUCED),
    "zero-redundancy": Launch(
        wrapped="DistributedDataParallel", adam=(4 * P + 40, 4 * P), sent={**REDUCED, "broadcast": 4 * P}
    ),
    "alone": Launch(wrapped="GPT2LMHeadModel", adam=(8 * P + COUNTERS,) * 4, sent={}),
    "alone-by-zeros": Launch(wrapped="DistributedDataParallel", adam=(8 * P, 8 * P), sent={"all_reduce": 0}),
    "bf16": Launch(wrapped="DistributedDataParallel", adam=(4 * P, 4 * P), sent={"all_reduce": 4 * P}, each=4),
    "uneven": Launch(wrapped="DistributedDataParallel", adam=(0, 8 * P, 8 * P), sent=REDUCED),
}
RIGHT = {
    "ddp": "replicated",
    "zero-2": "sharded",
    "engine": "sharded",
    "stage-0": "replicated",
    "zero-redundancy": "sharded",
    "alone": "alone",
    "alone-by-zeros": "alone",
    "bf16": "replicated",
    "uneven": "replicated",
}
"""What really ran."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    ran = student["ran"]
    found: dict[str, Any] = {}
    for name, asked in LAUNCHES.items():
        given = ran(asked.report, parameters=P, each=asked.each)
        found[name] = given if isinstance(given, str) else [kind(given)]
    return Work(value=found)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    for name, asked in LAUNCHES.items():
        yield from compare_launch(name, result.get(name), asked)


def compare_launch(name: str, got: object, asked: Launch) -> Iterator[Failure]:
    told: dict[str, object] = {
        "wrapped": asked.wrapped,
        "adam": ", ".join(f"{size:,}" for size in asked.adam),
        "sent": ", ".join(f"{key} {size:,}" for key, size in asked.sent.items()) or "{}",
        "each": asked.each,
        "parameters": f"{P:,}",
        "expected": RIGHT[name],
    }
    if got not in WORDS:
        yield Failure(group="shape", id="no-such-word", values={**told, "got": str(got)})
    elif got != RIGHT[name]:
        group = "alone" if "alone" in (got, RIGHT[name]) else "states"
        yield Failure(group=group, id=_meaning(name, str(got)), values={**told, "got": got})


def _meaning(name: str, got: str) -> str:
    """The id of what a wrong word means."""
    if RIGHT[name] == "alone":
        return "nothing-sent"
    if got == "alone":
        return "messages-were-sent"
    return {"stage-0": "believed-the-name", "zero-redundancy": "believed-the-name", "bf16": "fixed-bytes"}.get(
        name, "one-rank" if name == "uneven" else "bytes"
    )


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
