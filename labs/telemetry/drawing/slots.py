"""The timetable of a pipeline as its ranks ran it, to the scale of time: rows are ranks, cells are slots."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.svg import Sheet, Svg, text_width, wrapped
from labs.telemetry.drawing.table import Table
from labs.telemetry.slots import KINDS, Cell, Step, bubble, span
from translations import Language

_ROW, _CELL, _MARK, _LABEL = 34.0, 24.0, 3.0, 10.5


UNLIKE = 0.1
"""So much more of the step than the schedule says must be idle before it is said why."""


def slots_over_time(
    step: Step,
    *,
    language: Language | str,
    expected: float | None = None,
    now: float | None = None,
    length: float = 0.0,
) -> Svg:
    """A row for each rank, with each slot from when to when it ran; what is empty between them is the bubble.

    `expected` is the bubble of the schedule, beside which the measured one stands. A step that is under way, `now`
    seconds into the run, has no bubble yet; there is room for `length` seconds of it, or else for what it takes.
    """
    words = Words.of(language)
    message = _message(step, words, expected=expected, under_way=now is not None)
    chunks = 1 + max((cell.chunk for own in step.values() for cell in own), default=0)
    kinds = [kind for kind in KINDS if any(cell.kind == kind for own in step.values() for cell in own)]
    entries = [entry("slot", kind, words) for kind in kinds]
    if chunks > 1:
        entries.append((words("slot-chunk"), lambda sheet, x, y: chunk_marks(sheet, 1, x, y - 9, 18, 12)))

    note = []
    if now is None and expected is not None and bubble(step) > expected + UNLIKE:
        note = wrapped(words("slot-short"), size=SMALL_SIZE, width=WIDTH - 2 * MARGIN)

    sheet, top = titled_sheet(
        message, entries, gap=14, height=_ROW * len(step) + 26 + 16 * len(note), language=words.language
    )

    begun, ended = span(step, now=now)
    length = _length(ended - begun, length) if now is not None else max(ended - begun, 1e-6)
    left = MARGIN + max((text_width(words("rank", rank=rank), size=LABEL_SIZE) for rank in step), default=0) + 14
    right = WIDTH - MARGIN - text_width(words.percent(0.88), size=SMALL_SIZE) - 10
    room = right - left
    lettered = _lettered(step, room / length)
    for index, (rank, cells) in enumerate(sorted(step.items())):
        y = top + index * _ROW
        sheet.text(left - 12, y + _CELL / 2 + 4, words("rank", rank=rank), at="right", size=LABEL_SIZE, weight=600)
        sheet.shade(left, y, room, _CELL, strength=0.06)
        for cell in cells:
            until = ended if cell.end is None else cell.end
            x = left + room * (cell.start - begun) / length
            label = cell.kind * lettered[cell.kind] + str(cell.micro_batch)
            _cell(sheet, cell, label, x, y, max(room * (until - cell.start) / length, 0.8))
        if now is None and cells:
            idle = words.percent(_idle(cells, length))
            sheet.text(right + 8, y + _CELL / 2 + 4, idle, size=SMALL_SIZE, quiet=True, ltr=True)
    foot = top + _ROW * len(step) + 8
    sheet.text(left, foot, "0", size=SMALL_SIZE, quiet=True, ltr=True)
    if any(step.values()):
        sheet.text(right, foot, words.time(length), at="right", size=SMALL_SIZE, quiet=True, ltr=True)
    for index, line in enumerate(note):
        sheet.opening(MARGIN, WIDTH - MARGIN, foot + 20 + 16 * index, line, size=SMALL_SIZE)
    told = _rows(step, words, length)
    sentences = [words("slot-row", rank=rank, slots=slots, idle=idle) for rank, slots, idle in told]
    figure = sheet.svg(alt=" ".join([words.sentence(message), *([" ".join(note)] if note else []), *sentences]))
    header = [words("table-rank"), words("slot-order"), words("slot-idle")]
    return figure.beside(Table(told, header=header, language=words.language).html)


def _length(passed: float, expected: float) -> float:
    """Of the axis under a step that is under way: it changes seldom, so that one can watch the cells."""
    length = max(expected, 0.05)
    while length < passed:
        length *= 1.5
    return length


def _lettered(step: Step, scale: float) -> dict[str, bool]:
    """Whether the cells of a kind have room for its letter, at so many units a second; all of them alike."""
    fits: dict[str, bool] = {}
    for kind in KINDS:
        cells = [cell for own in step.values() for cell in own if cell.kind == kind]
        widths = [scale * (cell.end - cell.start) for cell in cells if cell.end is not None]
        longest = max((text_width(f"{kind}{cell.micro_batch}", size=_LABEL) for cell in cells), default=0.0)
        fits[kind] = bool(widths) and longest + 2 < median(widths)
    return fits


def _cell(sheet: Sheet, cell: Cell, label: str, x: float, y: float, width: float) -> None:
    gap = 1.0 if width > 5 else 0.0
    sheet.swatch(cell.kind, x, y, width - gap, _CELL)
    if cell.chunk:
        chunk_marks(sheet, cell.chunk, x, y, width - gap, _CELL)
    if text_width(label, size=_LABEL) < width:
        middle = x + (width - gap) / 2
        sheet.text(middle, y + _CELL / 2 + 4, label, at="middle", size=_LABEL, weight=600, ltr=True, ink=INK)


def chunk_marks(sheet: Sheet, chunk: int, x: float, y: float, width: float, height: float) -> None:
    """As many lines at the foot of the cell as there are chunks before this one."""
    for line in range(chunk):
        sheet.bar(x, y + height - _MARK * (1 + 1.7 * line), width, _MARK, colour=INK)


def _idle(cells: Sequence[Cell], length: float) -> float:
    return 1 - sum((cell.end or cell.start) - cell.start for cell in cells) / length


def _message(step: Step, words: Words, *, expected: float | None, under_way: bool) -> str:
    if not any(step.values()):
        return words("slot-nothing")
    if under_way:
        return words("slot-under-way")
    measured = words.percent(bubble(step))
    if expected is None:
        return words("slot-bubble", measured=measured)
    return words("slot-bubble-formula", measured=measured, expected=words.percent(expected))


def _rows(step: Step, words: Words, length: float) -> list[tuple[int, str, str]]:
    return [
        (rank, " ".join(cell.name for cell in cells), words.percent(_idle(cells, length)))
        for rank, cells in sorted(step.items())
        if cells
    ]
