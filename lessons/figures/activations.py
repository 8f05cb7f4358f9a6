"""Figures of activations: what blocks keep and run again, and how it grows with the sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from labs.planner import activations
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
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import apart, scale, ticks
from labs.telemetry.drawing.svg import Sheet, text_width, wrapped
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

INPUT = 2 / 34
"""The share of a block's activations that is its input, in Korthikanti's count."""


def kept_in_backward(*, blocks: int, recompute: str) -> Figure:
    """What each block keeps at three moments of a step, without recomputation or with all of it (none, full)."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said(f"kept-{recompute}-title")
        row, left = 30.0, MARGIN + 90
        sheet, top = titled_sheet(title, gap=40, height=row * blocks + 8, language=language)
        column = (WIDTH - MARGIN - left - 40) / 3
        whole = column - 24
        for place, moment in enumerate((blocks, blocks - 1, 1)):
            x = left + place * (column + 20)
            told = said("kept-after-forward") if moment == blocks else said("kept-backward", block=moment)
            sheet.text(x + whole / 2, top - 14, told, at="middle", size=LABEL_SIZE, weight=600)
            for block in range(blocks):
                y, tall = top + (blocks - 1 - block) * row, row - 10
                if block <= moment:
                    share = 1.0 if recompute == "none" or block == moment else INPUT
                    sheet.swatch("activations", x, y, whole * share, tall)
                sheet.outline(x, y, whole, tall, opacity=0.35)
        for block in range(blocks):
            y = top + (blocks - 1 - block) * row + 15
            sheet.text(left - 16, y, said("layer", layer=block), at="right", size=LABEL_SIZE)
        return sheet.svg(alt=said(f"kept-{recompute}-alt", blocks=blocks))

    return draw


def layer_by_sequence(sequences: Sequence[int], *, hidden: int, heads: int) -> Figure:
    """A layer's activations for several lengths: the share that grows with the sequence, and that with its square."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("layer-title")
        row, left = 34.0, MARGIN + 80
        sheet, top = titled_sheet(title, gap=34, height=row * len(sequences), language=language)
        right = WIDTH - MARGIN - 76
        parts, lines = [], []
        for place, sequence in enumerate(sequences):
            y, tall = top + place * row, row - 12
            linear, total = (
                activations.layer(sequence=sequence, batch=1, hidden=hidden, heads=heads, recompute=mode)
                for mode in ("selective", "none")
            )
            edge = left + (right - left) * linear / total
            sheet.swatch("activations", left, y, edge - left, tall)
            sheet.shade(edge, y, right - edge, tall, strength=0.18)
            sheet.outline(left, y, right - left, tall, opacity=0.35)
            sheet.text(left - 12, y + 15, number(sequence, language), at="right", size=LABEL_SIZE, ltr=True)
            share = percent(1 - linear / total, language, digits=2)
            if right - edge > 60:
                sheet.text((edge + right) / 2, y + 15, share, at="middle", size=LABEL_SIZE, ltr=True)
            sheet.text(right + 10, y + 15, words.bytes(total), at="left", size=SMALL_SIZE, ltr=True)
            parts.append(said("layer-row", sequence=number(sequence, language), share=share, total=words.bytes(total)))
            lines.append((number(sequence, language), *map(words.bytes, (linear, total - linear, total)), share))
        sheet.text(left, top - 10, said("layer-linear"), at="left", size=SMALL_SIZE)
        sheet.text(right, top - 10, said("layer-square"), at="right", size=SMALL_SIZE)
        header = [
            said("sequence-axis"),
            said("layer-linear"),
            said("layer-square"),
            said("planned-all"),
            said("layer-share"),
        ]
        figure = sheet.svg(alt=" ".join([f"{title}.", *parts]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


ATTENTION = ("scores", "softmax", "weights_dropout", "mix")
"""The operations that selective recomputation runs again."""


def kept_by_operation(*, sequence: int, hidden: int, heads: int) -> Figure:
    """What each operation of a layer keeps, in the order of forward, and which run again; one sequence, in 16 bits."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        sizes: dict[str, Any] = {"sequence": sequence, "batch": 1, "hidden": hidden, "heads": heads}
        kept = activations.by_operation(**sizes)
        names = {name: said(f"operation-{name.replace('_', '-')}") for name in kept}
        quadratic = activations.layer(**sizes) - activations.layer(**sizes, recompute="selective")
        share = percent(quadratic / sum(kept.values()), language, digits=2)
        title = said("operations-title", sequence=number(sequence, language), share=share)
        row = 23.0
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names.values()) + 14
        right = WIDTH - 230
        entries = [
            swatch_entry(said("operations-linear"), "activations"),
            (said("operations-square"), lambda sheet, x, y: _quadratic(sheet, x, y - 10, 18, 12)),
        ]
        sheet, top = titled_sheet(title, entries, gap=14, height=row * len(kept), language=language)
        widest, stream = max(kept.values()), 2 * sequence * hidden
        parts = []
        for place, (name, bytes_) in enumerate(kept.items()):
            y, tall = top + place * row, row - 8
            width = (right - left) * bytes_ / widest
            linear = {"softmax": 0, "weights_dropout": 0, "mix": stream}.get(name, bytes_)
            edge = left + (right - left) * linear / widest
            sheet.swatch("activations", left, y, edge - left, tall)
            sheet.shade(edge, y, left + width - edge, tall, strength=0.18)
            sheet.outline(left, y, width, tall, opacity=0.35)
            sheet.text(left - 10, y + 12, names[name], at="right", size=LABEL_SIZE)
            sheet.text(left + width + 8, y + 12, words.bytes(bytes_), at="left", size=SMALL_SIZE, ltr=True)
            parts.append(words("part", name=names[name], size=words.bytes(bytes_)))
        order = list(kept)
        for said_of, first, last, x in (
            ("operations-selective", ATTENTION[0], ATTENTION[-1], right + 72),
            ("operations-full", order[0], order[-1], right + 156),
        ):
            high, low = top + order.index(first) * row, top + (order.index(last) + 1) * row - 8
            sheet.shape(f"M{x - 6} {high}H{x}V{low}H{x - 6}", stroke=1.2)
            for number_of, line in enumerate(wrapped(said(said_of), size=SMALL_SIZE, width=70)):
                sheet.text(x + 6, (high + low) / 2 + 4 + 14 * number_of, line, at="left", size=SMALL_SIZE)
        lines = [(names[name], words.bytes(bytes_)) for name, bytes_ in kept.items()]
        figure = sheet.svg(
            alt=f"{words.sentence(title)} {words.sentence(words.listed(parts))} {said('operations-alt')}"
        )
        return figure.beside(
            Table(lines, header=[said("operations-axis"), words("table-value")], language=language).html
        )

    return draw


def _quadratic(sheet: Sheet, x: float, y: float, width: float, height: float) -> None:
    sheet.shade(x, y, width, height, strength=0.18)
    sheet.outline(x, y, width, height, opacity=0.35)


def more_operations(*, hidden: int, layers: int, vocabulary: int, longest: int) -> Figure:
    """How many operations recomputation adds to a step, against the length of the sequence: full and selective."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        equal = 3 * hidden
        title = said("more-title", sequence=number(equal, language))
        tall = 220.0
        left, right = MARGIN + 52, WIDTH - 150
        sheet, top = titled_sheet(title, gap=16, height=tall + 44, language=language)

        def more(sequence: int, mode: str) -> float:
            return activations.more_operations(
                layers=layers, sequence=sequence, hidden=hidden, vocabulary=vocabulary, recompute=mode
            )

        lengths = [longest * place // 48 for place in range(1, 49)]
        highest = 0.1 * math.ceil(max(more(longest, mode) for mode in ("selective", "full")) * 10)

        x = scale(0, longest, start=left, end=right)
        y = scale(0, highest, start=top + tall, end=top)
        for tick in range(round(highest / 0.1) + 1):
            label = percent(tick / 10, language, digits=2)
            gridline(sheet, left, right, y(tick / 10), label)
        marks = [longest // 4, longest // 2, 3 * longest // 4, longest]
        for length in marks:
            shown = number(length, language)
            sheet.text(x(length), top + tall + 18, shown, at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + tall + 36, said("sequence-axis"), at="middle", size=SMALL_SIZE, quiet=True)
        for mode in ("selective", "full"):
            for before, after in pairwise(lengths):
                sheet.line(x(before), y(more(before, mode)), x(after), y(more(after, mode)), width=2)
            end = y(more(longest, mode)) + 4
            sheet.text(right + 10, end, said(f"more-{mode}"), at="left", size=LABEL_SIZE, weight=600)
        sheet.dot(x(equal), y(more(equal, "full")), radius=5)
        lines = [
            [
                number(length, language),
                *(percent(more(length, mode), language, digits=2) for mode in ("selective", "full")),
            ]
            for length in sorted({*marks, equal})
        ]
        rows = [said("more-row", sequence=row[0], selective=row[1], full=row[2]) for row in lines]
        header = [said("sequence-axis"), said("more-selective"), said("more-full")]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *rows]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


Curve = Sequence[tuple[int, float]]


def against_sequence(measured: Mapping[str, Curve], formula: Mapping[str, Curve], *, title: str) -> Figure:
    """Bytes against the length of the sequence: a dot for each measurement, a dashed line for the formula."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        tall = 240.0
        left, right = MARGIN + 64, WIDTH - 170
        sheet, top = titled_sheet(title, gap=16, height=tall + 44, language=language)
        longest = max(length for curve in measured.values() for length, _ in curve)
        highest = max(bytes_ for curve in measured.values() for _, bytes_ in curve)

        x = scale(0, longest, start=left, end=right)
        y = scale(0, highest, start=top + tall, end=top)
        label = words.axis(highest)
        for value in ticks(highest, most=6):
            gridline(sheet, left, right, y(value), label(value))
        for length in sorted({length for curve in measured.values() for length, _ in curve}):
            at = x(length)
            sheet.text(
                at, top + tall + 18, number(length, language), at="middle", size=SMALL_SIZE, quiet=True, ltr=True
            )
        sheet.text((left + right) / 2, top + tall + 36, said("sequence-axis"), at="middle", size=SMALL_SIZE, quiet=True)
        told = []
        ends = apart({name: y(curve[-1][1]) for name, curve in measured.items()}, most=top + tall)
        for name, curve in sorted(measured.items(), key=lambda each: -each[1][-1][1]):
            for (before, low), (after, high) in pairwise(formula[name]):
                sheet.line(x(before), y(low), x(after), y(high), width=1.8, dash=FORMULA_DASH)
            for length, bytes_ in curve:
                sheet.dot(x(length), y(bytes_), radius=4)
            sheet.text(right + 12, ends[name] + 4, name, at="left", size=LABEL_SIZE, weight=600)
            first, last = curve[0], curve[-1]
            told.append(
                said(
                    "sequence-row", name=name, short=number(first[0], language), low=words.bytes(first[1]),
                    long=number(last[0], language), high=words.bytes(last[1]),
                )
            )  # fmt: skip
        header = [said("sequence-axis"), *(each for name in measured for each in (name, words("formula")))]
        lengths = sorted({length for curve in measured.values() for length, _ in curve})
        lines = []
        for length in lengths:
            pairs = [(dict(measured[name]).get(length), dict(formula[name]).get(length)) for name in measured]
            sizes = ["" if size is None else words.bytes(size) for pair in pairs for size in pair]
            lines.append([number(length, language), *sizes])
        figure = sheet.svg(alt=" ".join([f"{title}.", *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw
