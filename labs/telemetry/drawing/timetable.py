"""A schedule's timetable, slot by slot, and the messages of some ranks, of which not all may meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.slots import chunk_marks
from labs.telemetry.drawing.svg import Sheet, Svg, text_width
from labs.telemetry.drawing.table import Table
from labs.telemetry.slots import KINDS, parse
from translations import Language

_ROW, _CELL = 34.0, 24.0


def timetable_of(
    table: Sequence[Sequence[str | None]],
    *,
    language: Language | str,
    title: str,
    slots: int = 0,
    beside: Sequence[str] = (),
    above: str = "",
) -> Svg:
    """A row for each rank, a column for each slot, with what the rank does in it; empty ones are the bubble.

    `slots` are as many columns as the sheet has room for, so that two timetables can be drawn to one scale. `beside`
    says something of each row, under the heading `above`.
    """
    words = Words.of(language)
    names = {slot for row in table for slot in row if slot is not None}
    kinds = [kind for kind in KINDS if any(parse(name)[0] == kind for name in names)]
    entries = [entry("slot", kind, words) for kind in kinds]
    if any(parse(name)[2] for name in names):
        entries.append((words("slot-chunk"), lambda sheet, x, y: chunk_marks(sheet, 1, x, y - 9, 18, 12)))
    columns = max(slots, *(len(row) for row in table))
    sheet, top = titled_sheet(
        title, entries, gap=30 if above else 14, height=_ROW * len(table) + 4, language=words.language
    )
    left = MARGIN + max(text_width(words("rank", rank=rank), size=LABEL_SIZE) for rank in range(len(table))) + 14
    told = max((text_width(each, size=LABEL_SIZE) for each in beside), default=0.0)
    right = WIDTH - MARGIN - (max(told, 28.0) + 14 if beside else 0)
    wide = (right - left) / columns
    if above:
        sheet.text(WIDTH - MARGIN, top - 10, above, at="right", size=SMALL_SIZE, quiet=True)
    for rank, row in enumerate(table):
        y = top + rank * _ROW
        sheet.text(left - 12, y + _CELL / 2 + 4, words("rank", rank=rank), at="right", size=LABEL_SIZE, weight=600)
        sheet.shade(left, y, wide * len(row), _CELL, strength=0.06)
        place = 0
        for name, run in groupby(row):
            count = len(list(run))
            if name is not None:
                _cell(sheet, name, left + place * wide, y, count * wide)
            place += count
        if beside:
            sheet.text(WIDTH - MARGIN, y + _CELL / 2 + 4, beside[rank], at="right", size=LABEL_SIZE, ltr=True)
    idle = [words.percent(sum(slot is None for slot in row) / len(row)) for row in table]
    rows = [
        (rank, " ".join(name for name, _ in groupby(row) if name is not None), idle[rank])
        for rank, row in enumerate(table)
    ]
    sentences = [words("slot-row", rank=rank, slots=order, idle=share) for rank, order, share in rows]
    header = [words("table-rank"), words("slot-order"), words("slot-idle"), *([above] if above else [])]
    figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
    lines = [(*row, *beside[row[0] : row[0] + 1]) for row in rows]
    return figure.beside(Table(lines, header=header, language=words.language).html)


def _cell(sheet: Sheet, name: str, x: float, y: float, width: float) -> None:
    kind, micro_batch, chunk = parse(name)
    gap = 1.0 if width > 5 else 0.3
    sheet.swatch(kind, x, y, width - gap, _CELL)
    if chunk:
        chunk_marks(sheet, chunk, x, y, width - gap, _CELL)
    for label in (f"{kind}{micro_batch}", str(micro_batch)):
        if text_width(label, size=SMALL_SIZE) < width:
            middle = x + (width - gap) / 2
            sheet.text(middle, y + _CELL / 2 + 4, label, at="middle", size=SMALL_SIZE, weight=600, ltr=True, ink=INK)
            return


def messages(
    lists: Sequence[Sequence[str]],
    *,
    stuck: Mapping[int, int],
    towards: Mapping[int, int],
    language: Language | str,
    title: str,
    alt: str,
) -> Svg:
    """A row for each rank with what it does, from left to right. What is done is filled. Where a rank is `stuck` (at
    that place in its list) an arrow leads to the rank that it waits for.
    """
    words = Words.of(language)
    row = 62.0
    left = MARGIN + max(text_width(words("rank", rank=rank), size=LABEL_SIZE) for rank in range(len(lists))) + 14
    aside = 34.0 if any(abs(other - rank) > 1 for rank, other in towards.items()) else 0.0
    left += aside
    longest = max(text_width(step, size=LABEL_SIZE) for own in lists for step in own)
    box = min(longest + 22, (WIDTH - MARGIN - left) / max(len(own) for own in lists) - 14)
    sheet, top = titled_sheet(title, gap=16, height=row * len(lists) - 18, language=words.language)
    tall = 30.0
    for rank, own in enumerate(lists):
        y = top + rank * row
        sheet.text(
            left - aside - 12, y + tall / 2 + 4, words("rank", rank=rank), at="right", size=LABEL_SIZE, weight=600
        )
        for place, step in enumerate(own):
            x = left + place * (box + 14)
            done = place < stuck.get(rank, len(own))
            if done:
                sheet.shade(x, y, box, tall, strength=0.16)
            waits = stuck.get(rank) == place
            sheet.outline(x, y, box, tall, radius=4, opacity=1 if waits else 0.4, dash="" if done or waits else "3 3")
            if waits:
                sheet.outline(x - 2, y - 2, box + 4, tall + 4, radius=5, opacity=1)
            told = sheet.text
            told(
                x + box / 2,
                y + tall / 2 + 4,
                step,
                at="middle",
                size=LABEL_SIZE,
                weight=600 if waits else 400,
                ltr=True,
            )
    for rank, other in towards.items():
        x, y = left + stuck[rank] * (box + 14), top + rank * row
        if abs(other - rank) == 1:
            x += box * (0.4 if rank < other else 0.6)
            start, end = (y + tall + 3, y + row - 4) if other > rank else (y - 3, y - row + tall + 4)
            sheet.arrow([(x, start), (x, end)])
        else:  # around what lies between
            middle = [y + tall / 2 for y in (y, top + other * row)]
            sheet.arrow([(x - 3, middle[0]), (x - 2 * aside, sum(middle) / 2), (x - 4, middle[1])])
    return sheet.svg(alt=alt)
