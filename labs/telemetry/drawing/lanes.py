"""The timeline of a run: a lane for each rank, with what it did, what of it was lost, and where the run failed and went
on.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Entry, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.svg import Sheet, Svg, text_width
from labs.telemetry.drawing.table import Table
from labs.telemetry.events import Event
from labs.telemetry.lanes import ALARMS, KINDS, MARKS, Stretch, Timeline
from translations import Language

_ROW, _LANE, _ASIDE, _NUMBERED = 38.0, 22.0, 8.0, 16.0
_TOGETHER = 1.0
"""Seconds between what two ranks tell alike that is told as one."""


def lanes_over_time(run: Timeline, *, language: Language | str, under_way: bool = False) -> Svg:
    """A lane for each rank; a step is a cell of it, and a step that was done again is hatched."""
    words = Words.of(language)
    message = run_message(run, words, under_way=under_way)
    entries = [entry("stretch", kind, words) for kind in KINDS if _stretches(run, kind)]
    entries += [_mark_entry(name, words) for name in MARKS if run.marks(name)]

    sheet, top = titled_sheet(message, entries, gap=14, height=_ROW * len(run.lanes) + 22, language=words.language)

    left = MARGIN + max((text_width(words("rank", rank=rank), size=LABEL_SIZE) for rank in run.lanes), default=0) + 14
    room = WIDTH - MARGIN - 14 - left
    length = run.end or 1.0
    steps = [room * (each.end - each.start) / length for each in _stretches(run, "training")]
    numbered = bool(steps) and median(steps) > _NUMBERED
    for index, (rank, lane) in enumerate(run.lanes.items()):
        y = top + index * _ROW
        sheet.text(left - 12, y + _LANE / 2 + 4, words("rank", rank=rank), at="right", size=LABEL_SIZE, weight=600)
        sheet.shade(left, y, room, _LANE, strength=0.06)
        for stretch in sorted(lane.stretches, key=lambda each: each.kind == "saving"):
            x, width = left + room * stretch.start / length, room * (stretch.end - stretch.start) / length
            _stretch(sheet, stretch, x, y, width, numbered=numbered)
        for event in lane.marks:
            _mark(sheet, event.name, left + room * event.seconds / length, y, height=_LANE)
    foot = top + _ROW * len(run.lanes) + 4
    sheet.text(left, foot, "0", size=SMALL_SIZE, quiet=True, ltr=True)
    sheet.text(left + room, foot, words.time(run.end), at="right", size=SMALL_SIZE, quiet=True, ltr=True)

    told = happened(run, words)
    figure = sheet.svg(alt=" ".join([words.sentence(message), *(words.sentence(what) for _, what in told)]))
    header = [words("table-time"), words("table-event")]
    table = Table([(words.time(at), what) for at, what in told], header=header, language=words.language)
    return figure.beside(table.html)


def run_message(run: Timeline, words: Words, *, under_way: bool = False) -> str:
    """What happened, in a sentence."""
    killed, alarms = run.marks("killed"), run.marks("alarm")
    lost = words("run-lost", count=run.lost) if run.lost else words("run-lost-none")
    if alarms:
        told = _told("run-alarm", alarms[:1], words)
        return words("list-sentence", first=told, rest=lost) if run.pauses else told
    if killed and run.pauses:
        longest, ranks = words.time(max(run.pauses)), words.listed([str(event.rank) for event in killed])
        if len(run.pauses) > 1:
            told = words("run-killed-again", count=len(run.pauses), time=longest)
        else:
            told = words("run-killed" if len(killed) == 1 else "run-killed-several", ranks=ranks, time=longest)
        return words("list-sentence", first=told, rest=lost)
    if killed:
        return words("run-down", rank=killed[0].rank)
    steps = [each for each in _stretches(run, "training") if each.step is not None]
    if not steps:
        return words("run-nothing")
    return words("run-under-way") if under_way else words("run-well", count=1 + max(each.step or 0 for each in steps))


def happened(run: Timeline, words: Words) -> list[tuple[float, str]]:
    """When and what, in the order of time. What several ranks tell alike is told once: a save as its last rank has it,
    anything else as the first one tells it.
    """
    alike: list[list[Event]] = []
    for event in sorted((event for name in MARKS for event in run.marks(name)), key=lambda each: each.seconds):
        last = next((events for events in reversed(alike) if events[0].name == event.name), None)
        soon = last is not None and event.seconds - last[-1].seconds < _TOGETHER
        if last is not None and soon and last[0].values.get("step") == event.values.get("step"):
            last.append(event)
        else:
            alike.append([event])
    told = [(events[0].seconds, _told(f"event-{events[0].name}", events, words)) for events in alike]
    ends: dict[int, float] = {}
    for save in _stretches(run, "saving"):
        ends[save.step or 0] = max(ends.get(save.step or 0, 0.0), save.end)
    return sorted([*told, *((end, words("event-saved", step=step)) for step, end in ends.items())])


def _told(id: str, events: Sequence[Event], words: Words) -> str:
    """What ranks have told alike in words, of one rank or of several."""
    first = events[0]
    kind = str(first.values.get("kind", ""))
    known = words(f"alarm-{kind}") if kind in ALARMS else kind
    several = len(events) > 1 or first.rank is None
    ranks = words.listed([str(event.rank) for event in events])
    return words(id + "-all" * several, rank=first.rank, ranks=ranks, step=first.values.get("step"), kind=known)


def _stretches(run: Timeline, kind: str) -> list[Stretch]:
    return [each for lane in run.lanes.values() for each in lane.stretches if each.kind == kind]


def _stretch(sheet: Sheet, stretch: Stretch, x: float, y: float, width: float, *, numbered: bool) -> None:
    gap = 1.0 if stretch.kind in ("training", "lost") and width > 4 else 0.0
    if stretch.kind == "saving" and stretch.aside:
        sheet.swatch("saving", x, y + _LANE - _ASIDE, max(width, 1.5), _ASIDE)
        return
    sheet.swatch(stretch.kind, x, y, max(width - gap, 0.8), _LANE)
    if numbered and stretch.kind == "training" and width > _NUMBERED / 2:
        sheet.text(x + width / 2, y + 12, str(stretch.step), at="middle", size=10, ltr=True, ink=INK)


def _mark_entry(name: str, words: Words) -> Entry:
    return words(f"mark-{name}"), lambda sheet, x, y: _mark(sheet, name, x + 9, y - 11, height=14)


def _mark(sheet: Sheet, name: str, x: float, y: float, *, height: float) -> None:
    """A sign of its own for each, in the text's colour: a cross, a dashed line, a warning triangle, a flag."""
    middle = y + height / 2
    match name:
        case "killed":
            sheet.shape(f"M{x - 5:.1f} {middle - 5:.1f}l10 10m0 -10l-10 10", stroke=2.4)
        case "detected":
            sheet.line(x, y - 3, x, y + height + 3, width=1.8, dash="3 2.5")
        case "alarm":
            sheet.shape(f"M{x:.1f} {middle - 8:.1f}l8 14h-16Z")
            sheet.bar(x - 1, middle - 3.5, 2, 5, colour="#F0E442")
            sheet.bar(x - 1, middle + 2.5, 2, 2, colour="#F0E442")
        case "resumed":
            pole = height + 5
            sheet.shape(f"M{x:.1f} {y - 3:.1f}l7 4l-7 4ZM{x:.1f} {y - 3:.1f}v{pole:.1f}h1.4v-{pole:.1f}Z")
