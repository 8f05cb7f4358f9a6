"""Bytes that collectives move, by the axis of the device mesh on which they move them, and by rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.telemetry.categories import Count
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, listed_ranks, titled_sheet
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import Svg, text_width
from labs.telemetry.drawing.table import Table
from translations import Language

AXES = ("data", "pipeline", "tensor", "context", "expert", "world")

Moved = Mapping[str, Mapping[int, int]]
"""Bytes of unsharded buffers by axis and rank."""
Step = Mapping[int, Mapping[str, Mapping[str, Count]]]
"""One optimizer step: counts by rank, axis and collective."""


def traffic_of_step(step: Step, *, language: Language | str) -> Svg:
    """What each rank moved in one optimizer step; the table tells the collectives."""
    words = Words.of(language)
    moved = {
        axis: {rank: sum(count.bytes for count in axes.get(axis, {}).values()) for rank, axes in step.items()}
        for axis in {axis for axes in step.values() for axis in axes}
    }
    message = _message(moved, words)
    rows = [
        (axis_name(axis, words), collective, listed_ranks(ranks, words), count, words.bytes(size))
        for axis, collective, ranks, count, size in collectives(step)
    ]
    header = [words(f"table-{name}") for name in ("axis", "collective", "ranks", "calls", "bytes")]
    figure = _drawn(moved, words, message)
    return figure.beside(Table(rows, header=header, language=words.language).html)


def traffic_so_far(moved: Moved, *, language: Language | str) -> Svg:
    """What each rank has moved since it began."""
    words = Words.of(language)
    message = words("axis-so-far") if any(any(own.values()) for own in moved.values()) else words("axis-nothing")
    return _drawn(moved, words, message)


def collectives(step: Step) -> list[tuple[str, str, list[int], int, int]]:
    """Axis, collective, the ranks for which it is the same, calls and bytes; axes in their order."""
    alike: dict[tuple[str, str, int, int], list[int]] = {}
    for rank, axes in sorted(step.items()):
        for axis, counts in axes.items():
            for name, count in counts.items():
                alike.setdefault((axis, name, count.count, count.bytes), []).append(rank)
    found = [(axis, name, ranks, count, size) for (axis, name, count, size), ranks in alike.items()]
    return sorted(found, key=lambda each: (_place(each[0]), each[1], each[2]))


def axis_name(axis: str, words: Words) -> str:
    """In words; as it is, where it is no axis of the course's."""
    return words(f"axis-{axis}") if axis in AXES else axis


def sorted_axes(axes: Iterable[str]) -> list[str]:
    """In the order of a mesh."""
    return sorted(axes, key=_place)


def _place(axis: str) -> tuple[int, str]:
    return (AXES.index(axis) if axis in AXES else len(AXES), axis)


def _message(moved: Moved, words: Words) -> str:
    totals = {axis: max(own.values(), default=0) for axis, own in moved.items()}
    whole = sum(totals.values())
    if not whole:
        return words("axis-nothing")
    most = max(totals, key=lambda axis: totals[axis])
    values = {"axis": axis_name(most, words), "size": words.bytes(totals[most])}
    if len([axis for axis in totals if totals[axis]]) == 1:
        return words("axis-only", **values)
    return words("axis-most", **values, share=words.percent(totals[most] / whole))


def _drawn(moved: Moved, words: Words, message: str) -> Svg:
    """A group of bars for each axis, one a rank, all to one scale."""
    axes = sorted_axes(moved)
    ranks = sorted({rank for own in moved.values() for rank in own})
    thick, each, above = 10.0, 16.0, 26.0
    height = len(axes) * (above + each * len(ranks)) + 8
    sheet, top = titled_sheet(message, gap=6, height=height, language=words.language)
    left = MARGIN + max((text_width(words("rank", rank=rank), size=SMALL_SIZE) for rank in ranks), default=0) + 14
    right = WIDTH - MARGIN - text_width(words.bytes(888e6), size=SMALL_SIZE) - 10
    across = scale(0, max([1, *(size for own in moved.values() for size in own.values())]), start=left, end=right)
    y = top
    for axis in axes:
        sheet.opening(MARGIN, WIDTH - MARGIN, y + 17, axis_name(axis, words), size=LABEL_SIZE, weight=600)
        y += above
        for rank in ranks:
            size = moved[axis].get(rank, 0)
            sheet.text(left - 10, y + 9, words("rank", rank=rank), at="right", size=SMALL_SIZE, quiet=True)
            sheet.shade(left, y, right - left, thick, strength=0.06)
            if size:
                sheet.swatch("communication", left, y, max(across(size) - left, 0.8), thick)
            sheet.text(max(across(size), left) + 8, y + 9, words.bytes(size), size=SMALL_SIZE, ltr=True)
            y += each
    numbers = [words("axis-numbers", axis=axis_name(axis, words), parts=_parts(moved[axis], words)) for axis in axes]
    lines = [[rank, *(words.bytes(moved[axis].get(rank, 0)) for axis in axes)] for rank in ranks]
    header = [words("table-rank"), *(axis_name(axis, words) for axis in axes)]
    figure = sheet.svg(alt=" ".join([words.sentence(message), *numbers]))
    return figure.beside(Table(lines, header=header, language=words.language).html) if lines else figure


def _parts(own: Mapping[int, int], words: Words) -> str:
    sizes = set(own.values())
    if len(sizes) == 1 and len(own) > 1:
        return words("axis-each", size=words.bytes(sizes.pop()))
    return words.listed(
        [words("part", name=words("rank", rank=rank), size=words.bytes(size)) for rank, size in sorted(own.items())]
    )
