"""The timetable of a pipeline as its ranks run it: which slot ran when, and the share of the time that was idle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from labs.telemetry.rows import Slot

Kind = Literal["F", "B", "W"]
KINDS: tuple[Kind, ...] = ("F", "B", "W")

_NAME = re.compile(r"([FBW])(\d+)(?:@(\d+))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A slot that has begun: forward (F), backward (B) or the weights' part of it (W) of a micro-batch, on a chunk of
    the rank's layers. Seconds as in the rows; `end` is None while it runs.
    """

    kind: Kind
    micro_batch: int
    chunk: int
    start: float
    end: float | None

    @property
    def name(self) -> str:
        return f"{self.kind}{self.micro_batch}" + (f"@{self.chunk}" if self.chunk else "")


Step = Mapping[int, Sequence[Cell]]
"""One training step: by rank, its cells in the order of time."""


def parse(name: str) -> tuple[Kind, int, int]:
    """Kind, micro-batch and chunk of a slot's name, such as F0 or B3@1. Raises ValueError for another name."""
    found = _NAME.match(name)
    if found is None:
        raise ValueError(f"{name!r} names no slot: F, B or W, a micro-batch, and @chunk where there are several")
    return cast("Kind", found[1]), int(found[2]), int(found[3] or 0)


@dataclass(slots=True)
class Timetable:
    """Takes the slots of all ranks as they come. A slot that a rank has run in this step begins its next step."""

    ranks: int
    _steps: dict[int, list[dict[str, Cell]]] = field(default_factory=dict)

    def take(self, rank: int, slot: Slot) -> None:
        steps = self._steps.setdefault(rank, [{}])
        if slot.begins:
            if slot.name in steps[-1]:
                steps.append({})
            kind, micro_batch, chunk = parse(slot.name)
            steps[-1][slot.name] = Cell(kind=kind, micro_batch=micro_batch, chunk=chunk, start=slot.seconds, end=None)
        elif (running := steps[-1].get(slot.name)) is not None:
            steps[-1][slot.name] = Cell(
                kind=running.kind,
                micro_batch=running.micro_batch,
                chunk=running.chunk,
                start=running.start,
                end=slot.seconds,
            )

    @property
    def number(self) -> int:
        """Of the step that some rank has begun last, from 0."""
        return max((len(steps) for steps in self._steps.values()), default=1) - 1

    @property
    def latest(self) -> Step:
        """That step; a rank that is not there yet has no cells."""
        return self.step(self.number)

    @property
    def whole(self) -> Step | None:
        """The latest step that every rank has ended: it has begun the next one, or run as many slots as in its first.
        None before there is one.
        """
        if len(self._steps) < self.ranks:
            return None
        for number in range(min(map(len, self._steps.values())) - 1, -1, -1):
            if all(_ended(steps, number) for steps in self._steps.values()):
                return self.step(number)
        return None

    def step(self, number: int) -> Step:
        return {
            rank: list(self._steps[rank][number].values())
            if rank in self._steps and number < len(self._steps[rank])
            else []
            for rank in range(self.ranks)
        }


def _ended(steps: Sequence[Mapping[str, Cell]], number: int) -> bool:
    own = steps[number]
    over = number + 1 < len(steps) or (number > 0 and len(own) == len(steps[0]))
    return over and all(cell.end is not None for cell in own.values())


def span(step: Step, *, now: float | None = None) -> tuple[float, float]:
    """From the first slot's beginning to the last one's end; a slot that runs reaches to `now`. (0, 0) without any."""
    cells = [cell for own in step.values() for cell in own]
    if not cells:
        return 0.0, 0.0
    latest = max(cell.start if cell.end is None else cell.end for cell in cells)
    return min(cell.start for cell in cells), latest if now is None else max(latest, now)


def bubble(step: Step) -> float:
    """The idle share of a step that has ended: of all ranks' time between its first slot and its last, what no slot
    filled.
    """
    start, end = span(step)
    busy = sum((cell.end or cell.start) - cell.start for own in step.values() for cell in own)
    return 1 - busy / (len(step) * (end - start)) if end > start else 0.0
