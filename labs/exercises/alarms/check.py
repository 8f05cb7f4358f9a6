"""Checks `alarm(seconds, norm, group=group)`: its verdict on steps in which nothing is wrong, or one rank is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from labs.exercises.trial import Case, Failure, Result, Student, Work, generator, kind
from labs.runner import rank as this
from labs.telemetry import Tracker

CASES = (
    Case(name="4 ranks", ranks=4),
    Case(name="3 ranks", ranks=3, group="more-ranks"),
)
FAULTS: dict[str, tuple[str, float]] = {
    "silent-large": ("bad-gradient", 1024.0),
    "silent-near": ("bad-gradient", 30.0),
    "silent-small": ("bad-gradient", 1 / 64),
    "silent-infinite": ("bad-gradient", math.inf),
    "silent-nan": ("bad-gradient", math.nan),
    "silent-slow": ("straggler", 4.0),
}
"""What it means that a fault is not found: its kind, and what the culprit's number is multiplied by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The numbers of all ranks in one step, and what is wrong in it: `fault` is a key of FAULTS, or empty."""

    seconds: tuple[float, ...]
    norms: tuple[float, ...]
    fault: str = ""
    culprit: int = 0

    @property
    def verdict(self) -> list[str | int] | None:
        return [FAULTS[self.fault][0], self.culprit] if self.fault else None


def steps_of(seed: int, ranks: int) -> list[Step]:
    """Steps in which ranks differ as they do, by less than a factor of 1.5, and each fault on each rank."""
    random = generator(seed, ranks)
    found = []
    for fault in ("", "", *FAULTS):
        for culprit in range(ranks):
            spread = 1 + torch.rand(2, ranks, generator=random, dtype=torch.float64) / 2
            scale = 10 ** float(torch.rand((), generator=random) * 4 - 2)
            seconds, norms = (0.02 * spread[0]).tolist(), (scale * spread[1]).tolist()
            if fault:
                numbers = seconds if fault == "silent-slow" else norms
                numbers[culprit] *= FAULTS[fault][1]
            found.append(Step(seconds=tuple(seconds), norms=tuple(norms), fault=fault, culprit=culprit))
    return found


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    alarm, rank = student["alarm"], dist.get_rank(group)
    verdicts: list[Any] = []
    with Tracker() as tracker:
        for number, step in enumerate(steps_of(seed, case.ranks)):
            this.step(number)
            verdicts.append(plain(alarm(step.seconds[rank], step.norms[rank], group=group)))
    moved = sum(count.bytes for count in tracker.collectives.values())
    return Work(value={"verdicts": verdicts, "moved": moved})


def plain(verdict: object) -> list[str | int] | str | None:
    """A verdict as JSON; what is none, as words."""
    if verdict is None:
        return None
    if isinstance(verdict, tuple | list) and len(verdict) == 2:
        named, rank = verdict
        if isinstance(named, str) and isinstance(rank, int) and not isinstance(rank, bool):
            return [named, rank]
        return f"({kind(named)}, {kind(rank)})"
    return kind(verdict)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for number, step in enumerate(steps_of(seed, case.ranks)):
        told = [result.get("verdicts", number, default="None") for result in results]
        values: dict[str, Any] = {"culprit": step.culprit, "seconds": listed(step.seconds), "norms": listed(step.norms)}
        for result, verdict in zip(results, told, strict=True):
            if isinstance(verdict, str) or (verdict and verdict[0] not in ("bad-gradient", "straggler")):
                got = verdict if isinstance(verdict, str) else repr(verdict[0])
                yield Failure(group="shape", id="no-verdict", rank=result.rank, values={"got": got})
                return
        if any(verdict != told[0] for verdict in told):
            other = next(rank for rank, verdict in enumerate(told) if verdict != told[0])
            spoken = {"first": said(told[0]), "second": said(told[other]), "other": other}
            yield Failure(group="agreement", id="disagree", values={**values, **spoken})
            return
        if failure := judged(step, told[0], values):
            yield failure


def judged(step: Step, verdict: list[str | int] | None, values: dict[str, Any]) -> Failure | None:
    """What is wrong with the verdict that all ranks gave on a step."""
    if verdict == step.verdict:
        return None
    if not step.fault:
        return Failure(group="silence", id="false-alarm", values={**values, "got": said(verdict)})
    group = FAULTS[step.fault][0] if step.fault not in ("silent-nan", "silent-infinite") else "not-finite"
    if verdict is None:
        return Failure(group=group, id=step.fault, values=values)
    if verdict[0] != FAULTS[step.fault][0]:
        return Failure(group=group, id="other-kind", values={**values, "got": said(verdict)})
    return Failure(group=group, id="other-rank", values={**values, "got": verdict[1]})


def said(verdict: Any) -> str:
    return "None" if verdict is None else f'("{verdict[0]}", {verdict[1]})'


def listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    enough = 16 * case.ranks * len(steps_of(seed, case.ranks))
    moved = results[0].get("moved", default=0)
    if moved > enough:
        steps = len(steps_of(seed, case.ranks))
        yield Failure(group="traffic", id="traffic", values={"got": moved // steps, "expected": enough // steps})
