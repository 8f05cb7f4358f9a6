"""The map of units as a picture: each below what it builds on, with an arrow from there, and how far it is done.

Boxes are ordinary HTML, so that titles wrap and read in any direction; only the arrows are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from shardwise import pages
from shardwise.progress import Overview, Stop
from shardwise.units import Unit
from translations import Translator

ROW, BOX, WIDTH = 108, 74, 1000
"""Height of a row with the gap below it, height of a box, and the width that places are counted in."""
GAP = 12
MARKS = {"mastered": "✓", "started": "…", "open": "", "planned": ""}
KNOWN = "»"
HEAD = (
    '<marker id="shardwise-needs" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker>'
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a unit stands: its row from the top, and the start and width of its box in the drawing's units."""

    row: int
    start: float
    width: float

    @property
    def middle(self) -> float:
        return self.start + self.width / 2


def html(shown: Overview, text: Translator) -> str:
    """The picture as one fragment, with a legend."""
    placed = places([stop.unit for stop in shown.stops])
    height = ROW * (1 + max(each.row for each in placed.values())) - (ROW - BOX)
    lines = "".join(
        _arrow(placed[need], placed[stop.unit.id]) for stop in shown.stops for need in stop.unit.needs if need in placed
    )
    needs = "; ".join(
        f"{stop.unit.number}: {', '.join(str(int(need[:2])) for need in stop.unit.needs)}"
        for stop in shown.stops
        if stop.unit.needs
    )
    boxes = "".join(_box(stop, placed[stop.unit.id], height, shown, text) for stop in shown.stops)
    legend = "".join(_sample(each, text) for each in ("mastered", "known", "started", "open", "planned"))
    return (
        f'<figure class="map" aria-label="{escape(text("shardwise.map-title"))}">'
        f"<figcaption>{escape(text('shardwise.map-title'))}</figcaption>"
        f'<div style="aspect-ratio: {WIDTH} / {height}"><svg viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(text("shardwise.map-alt", needs=needs))}">'
        f"<defs>{HEAD}</defs>{lines}</svg><ol>{boxes}</ol></div>"
        f'<ul class="legend">{legend}</ul></figure>'
    )


def places(listed: Sequence[Unit]) -> Mapping[str, Place]:
    """Each unit one row below the lowest that it needs; within a row near what it needs, spread over the width."""
    row: dict[str, int] = {}
    for unit in listed:
        row[unit.id] = max((row[need] + 1 for need in unit.needs if need in row), default=0)
    widest = max(list(row.values()).count(each) for each in row.values())
    width = WIDTH / widest - GAP
    placed: dict[str, Place] = {}
    for level in sorted(set(row.values())):
        members = [unit for unit in listed if row[unit.id] == level]
        members.sort(key=lambda unit: (_above(unit, placed), unit.number))
        cell = WIDTH / len(members)
        for at, unit in enumerate(members):
            placed[unit.id] = Place(row=level, start=cell * (at + 0.5) - width / 2, width=width)
    return placed


def _above(unit: Unit, placed: Mapping[str, Place]) -> float:
    """The mean place of what a unit needs."""
    middles = [placed[need].middle for need in unit.needs if need in placed]
    return sum(middles) / len(middles) if middles else 0.0


def _arrow(above: Place, below: Place) -> str:
    start, end = above.row * ROW + BOX, below.row * ROW
    bend = (ROW - BOX) * (0.9 if below.row - above.row == 1 else 1.6)
    return (
        f'<path d="M{above.middle:.0f} {start}C{above.middle:.0f} {start + bend:.0f} '
        f'{below.middle:.0f} {end - bend:.0f} {below.middle:.0f} {end - 2}" marker-end="url(#shardwise-needs)"/>'
    )


def _sample(state: str, text: Translator) -> str:
    said = escape(text(f"shardwise.state-{state}"))
    return f'<li><span class="sample {state}">{MARKS.get(state, KNOWN)}</span> {said}</li>'


def _box(stop: Stop, place: Place, height: float, shown: Overview, text: Translator) -> str:
    unit, state = stop.unit, stop.standing
    kind = f"{state} next" if unit.id == shown.next else state
    where = (
        f"inset-inline-start: {place.start / WIDTH:.2%}; top: {place.row * ROW / height:.2%}; "
        f"width: {place.width / WIDTH:.2%}; height: {BOX / height:.2%}"
    )
    mark = MARKS.get(state, KNOWN)
    said = escape(text(f"shardwise.state-{state}"))
    title = escape(unit.title(text))
    name = title if stop.state == "planned" else f'<a href="{unit.id}.ipynb">{title}</a>'
    shown_mark = f'<span aria-hidden="true">{mark}</span>' if mark else ""
    return (
        f'<li class="{kind}" style="{where}" title="{said}"><b>{pages.ltr(str(unit.number))}{shown_mark}</b>'
        f'<span>{name}<i class="unseen">, {said}</i></span></li>'
    )
