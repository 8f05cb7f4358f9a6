"""The mathematics of a memory plot: axes, stacks, and rows made few without losing a peak. No drawing, no words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labs.telemetry.categories import PHASES
from labs.telemetry.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase, from when to when."""

    phase: str
    start: float
    end: float


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least that."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def ticks(highest: float, *, most: int = 4) -> list[float]:
    """Round values from zero up to at most `highest`: at most `most` steps of 1, 2 or 5 times a power of ten."""
    if highest <= 0 or not math.isfinite(highest):
        return [0.0]
    step = round_step(highest / most)
    return [index * step for index in range(int(highest / step + 1e-9) + 1)]


def condensed(rows: Sequence[Row], *, start: float, end: float, columns: int) -> list[Row]:
    """At most two rows for each of `columns` equal spans of time: the one with the highest total, and the last.

    The step curve through them has the same highest total as the curve through all rows.
    """
    width = (end - start) / columns or 1.0
    kept: list[Row] = []
    index = 0
    while index < len(rows):
        column = int((rows[index].seconds - start) / width)
        last = index
        while last + 1 < len(rows) and int((rows[last + 1].seconds - start) / width) == column:
            last += 1
        highest = max(range(index, last + 1), key=lambda at: rows[at].bytes.total)
        kept.extend(rows[at] for at in sorted({highest, last}))
        index = last + 1
    return kept


def since(rows: Sequence[Row], start: float) -> list[Row]:
    """The rows from `start` on, and before them the state that the rank was in at `start`."""
    before = [row for row in rows if row.seconds < start]
    later = [row for row in rows if row.seconds >= start]
    return [replace(row, seconds=start) for row in before[-1:]] + later


@dataclass(slots=True)
class Window:
    """From when to when a plot of all ranks should go: training, with a little of what came before it. Learns from each
    row.
    """

    first: float | None = None
    begun: float | None = None
    last: float = 0.0

    def learn(self, row: Row) -> None:
        self.first = row.seconds if self.first is None else min(self.first, row.seconds)
        self.last = max(self.last, row.seconds)
        if row.phase:
            self.begun = row.seconds if self.begun is None else min(self.begun, row.seconds)

    @property
    def times(self) -> tuple[float, float]:
        if self.first is None:
            return 0.0, 1.0
        begun = self.first if self.begun is None else self.begun
        return max(self.first, begun - 0.04 * (self.last - begun)), self.last


def window(rows: Iterable[Sequence[Row]]) -> tuple[float, float]:
    """The window of rows that are all there."""
    found = Window()
    for own in rows:
        for row in own:
            found.learn(row)
    return found.times


def stacks(row: Row, order: Sequence[str]) -> list[int]:
    """How high the stack stands on top of each category, in `order` from the bottom."""
    heights, total = [], 0
    for category in order:
        total += int(getattr(row.bytes, category))
        heights.append(total)
    return heights


def steps(points: Iterable[tuple[float, float]], *, end: float, base: float) -> str:
    """An SVG path for the area between `base` and a curve that keeps each value until the next point."""
    path: list[str] = []
    x = y = 0.0
    for next_x, next_y in ((round(px, 1), round(py, 1)) for px, py in points):
        if not path:
            path.append(f"M{next_x:g} {base:g}V{next_y:g}")
            x, y = next_x, next_y
        elif next_y != y:
            if next_x != x:
                path.append(f"H{next_x:g}")
            path.append(f"V{next_y:g}")
            x, y = next_x, next_y
    return "".join([*path, f"H{end:.1f}V{base:g}Z"]) if path else ""


def spans(rows: Sequence[Row], *, end: float) -> list[Span]:
    """The phases in the order of time; what lies between them is in none."""
    found: list[Span] = []
    phase, start = "", 0.0
    for row in rows:
        if row.phase != phase:
            if phase in PHASES:
                found.append(Span(phase=phase, start=start, end=row.seconds))
            phase, start = row.phase, row.seconds
    if phase in PHASES:
        found.append(Span(phase=phase, start=start, end=end))
    return found


def rest(rows: Sequence[Row]) -> Row | None:
    """The row at which the latest optimizer phase began."""
    found = None
    for before, row in zip([None, *rows], rows, strict=False):
        if row.phase == "optimizer" and (before is None or before.phase != "optimizer"):
            found = row
    return found


def peak(rows: Sequence[Row]) -> Row | None:
    """The first row with the highest total."""
    return max(rows, key=lambda row: row.bytes.total, default=None)


def scale(low: float, high: float, *, start: float, end: float) -> Callable[[float], float]:
    """Maps low...high to start...end."""
    factor = (end - start) / ((high - low) or 1.0)
    return lambda value: start + (value - low) * factor


def log_scale(low: float, high: float, *, start: float, end: float) -> Callable[[float], float]:
    """Maps low...high to start...end so that equal factors take equal room."""
    across = scale(math.log(low), math.log(high), start=start, end=end)
    return lambda value: across(math.log(value))


def apart(ends: Mapping[str, float], *, most: float, least: float = 15.0) -> dict[str, float]:
    """Where the names at the ends of lines stand, so that none covers another and none is below `most`."""
    placed: dict[str, float] = {}
    last = -least
    for name, place in sorted(ends.items(), key=lambda each: each[1]):
        last = placed[name] = max(place, last + least)
    for name in reversed(placed):
        placed[name] = min(placed[name], most)
        most = placed[name] - least
    return placed
