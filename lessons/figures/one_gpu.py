"""Figures of the first unit: what three counters of memory say, and four ways to share out a model."""

from __future__ import annotations

from collections.abc import Sequence

from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    gridline,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import Sheet, wrapped
from lessons.figures.base import Figure, Said
from translations import Language

WAYS = ("data", "zero", "tensor", "pipeline")


def ways_to_share(*, ranks: int = 4, layers: int = 4) -> Figure:
    """What each rank holds of every layer, what it gathers for a moment, and whose examples it works on: data
    parallelism, ZeRO-3, tensor and pipeline parallelism.
    """

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("ways-title")
        gap, rank_gap, row = 26.0, 5.0, 20.0
        wide = (WIDTH - 2 * MARGIN - (len(WAYS) - 1) * gap) / len(WAYS)
        box = (wide - (ranks - 1) * rank_gap) / ranks
        told = [wrapped(said(f"ways-{way}"), size=SMALL_SIZE, width=wide) for way in WAYS]
        entries = [swatch_entry(said("ways-held"), "parameters"), swatch_entry(said("ways-gathered"), "communication")]
        sheet, top = titled_sheet(
            title, entries, gap=44, height=layers * row + 30 + 14 * max(map(len, told)), language=language
        )
        order = reversed(WAYS) if sheet.rtl else WAYS
        for place, way in enumerate(order):
            left = MARGIN + place * (wide + gap)
            sheet.text(left + wide / 2, top - 22, said(f"ways-{way}-name"), at="middle", size=LABEL_SIZE, weight=600)
            for rank in range(ranks):
                x = left + rank * (box + rank_gap)
                sheet.text(x + box / 2, top - 6, str(rank), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
                for layer in range(layers):
                    y = top + layer * row
                    _layer(sheet, way, x, y, box, row - 4, layer=layer, rank=rank, ranks=ranks, layers=layers)
                example = "ABCDEFGH"[rank] if way in ("data", "zero") else "A"
                sheet.text(x + box / 2, top + layers * row + 12, example, at="middle", size=SMALL_SIZE, ltr=True)
            for number, line in enumerate(told[WAYS.index(way)]):
                y = top + layers * row + 32 + 14 * number
                sheet.text(left + wide / 2, y, line, at="middle", size=SMALL_SIZE)
        alt = " ".join([words.sentence(title), said("ways-alt", ranks=ranks, layers=layers)])
        return sheet.svg(alt=alt)

    return draw


def _layer(
    sheet: Sheet,
    way: str,
    x: float,
    y: float,
    wide: float,
    tall: float,
    *,
    layer: int,
    rank: int,
    ranks: int,
    layers: int,
) -> None:
    """One layer on one rank: an outline of the whole, filled as far as the rank has it."""
    part = wide / ranks
    if way == "data" or (way == "pipeline" and layer * ranks // layers == rank):
        sheet.swatch("parameters", x, y, wide, tall)
    elif way == "zero" and layer == 1:
        sheet.swatch("communication", x, y, wide, tall)
        sheet.swatch("parameters", x + rank * part, y, part, tall)
    elif way in ("zero", "tensor"):
        sheet.swatch("parameters", x + rank * part, y, part, tall)
    sheet.outline(x, y, wide, tall, opacity=0.35)


def counters(told: Sequence[tuple[str, int, int]], *, process: int, title: str) -> Figure:
    """Bytes of tensors, bytes that the allocator holds, and the whole process (`process` more), action by action."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        curves = {
            said("counters-process"): [reserved + process for _, _, reserved in told],
            said("counters-reserved"): [reserved for _, _, reserved in told],
            said("counters-allocated"): [allocated for _, allocated, _ in told],
        }
        bottom, left, right = 58.0, MARGIN + 52, WIDTH - 130
        tall, highest = 190.0, max(max(own) for own in curves.values())
        sheet, top = titled_sheet(title, gap=16, height=tall + bottom, language=language)
        step = (right - left) / len(told)
        label = words.axis(highest)

        y = scale(0, highest, start=top + tall, end=top)
        for tick in range(5):
            value = highest * tick / 4
            gridline(sheet, left, right, y(value), label(value))
        for place, (name, _, _) in enumerate(told):
            for number, line in enumerate(wrapped(name, size=SMALL_SIZE, width=step - 6)):
                middle = left + (place + 0.5) * step
                sheet.text(middle, top + tall + 18 + 13 * number, line, at="middle", size=SMALL_SIZE, quiet=True)
        for (name, own), dash in zip(curves.items(), ("", "7 3", "2 3"), strict=True):
            before = own[0]
            for place, value in enumerate(own):
                x = left + place * step
                sheet.line(x, y(before), x, y(value), width=2, dash=dash)
                sheet.line(x, y(value), x + step, y(value), width=2, dash=dash)
                before = value
            for number, line in enumerate(wrapped(name, size=LABEL_SIZE, width=118)):
                sheet.text(right + 10, y(own[-1]) + 4 + 14 * number, line, at="left", size=LABEL_SIZE, weight=600)
        lines = [
            [name, *(words.bytes(own[place]) for own in curves.values())] for place, (name, _, _) in enumerate(told)
        ]
        alt = [
            said("counters-alt", name=name, most=words.bytes(max(own)), last=words.bytes(own[-1]))
            for name, own in curves.items()
        ]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *alt]))
        return figure.beside(Table(lines, header=[said("counters-action"), *curves], language=language).html)

    return draw
