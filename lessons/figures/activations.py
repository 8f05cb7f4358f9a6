"""Figures of activations: what blocks keep and run again, and how it grows with the sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from labs.planner import activations
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, Words, heading, heading_height
from labs.telemetry.drawing.memory import WIDTH
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.svg import Sheet
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
        top, row, left = heading_height(title, width=WIDTH) + 40, 30.0, MARGIN + 90
        sheet = Sheet(width=WIDTH, height=top + row * blocks + 8, language=language)
        heading(sheet, title)
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
        top, row, left = heading_height(title, width=WIDTH) + 34, 34.0, MARGIN + 80
        sheet = Sheet(width=WIDTH, height=top + row * len(sequences), language=language)
        heading(sheet, title)
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


Curve = Sequence[tuple[int, float]]


def nice(step: float) -> float:
    """The next step from 1, 2, 5, 10, 20, ... that is not smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)


def against_sequence(measured: Mapping[str, Curve], formula: Mapping[str, Curve], *, title: str) -> Figure:
    """Bytes against the length of the sequence: a dot for each measurement, a dashed line for the formula."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        tall, top = 240.0, heading_height(title, width=WIDTH) + 16
        left, right = MARGIN + 64, WIDTH - 170
        sheet = Sheet(width=WIDTH, height=top + tall + 44, language=language)
        heading(sheet, title)
        longest = max(length for curve in measured.values() for length, _ in curve)
        highest = max(bytes_ for curve in measured.values() for _, bytes_ in curve)

        def x(length: float) -> float:
            return left + (right - left) * length / longest

        def y(bytes_: float) -> float:
            return top + tall * (1 - bytes_ / highest)

        label = words.axis(highest)
        step = nice(highest / 6)
        for value in (step * tick for tick in range(int(highest / step) + 1)):
            sheet.line(left, y(value), right, y(value), opacity=0.18)
            sheet.text(left - 8, y(value) + 4, label(value), at="right", size=SMALL_SIZE, quiet=True, ltr=True)
        for length in sorted({length for curve in measured.values() for length, _ in curve}):
            at = x(length)
            sheet.text(
                at, top + tall + 18, number(length, language), at="middle", size=SMALL_SIZE, quiet=True, ltr=True
            )
        sheet.text((left + right) / 2, top + tall + 36, said("sequence-axis"), at="middle", size=SMALL_SIZE, quiet=True)
        used: list[float] = []
        told = []
        for name, curve in sorted(measured.items(), key=lambda each: -each[1][-1][1]):
            for (before, low), (after, high) in pairwise(formula[name]):
                sheet.line(x(before), y(low), x(after), y(high), width=1.8, dash=FORMULA_DASH)
            for length, bytes_ in curve:
                sheet.dot(x(length), y(bytes_), radius=4)
            place = max([y(curve[-1][1]) + 4, *(each + 16 for each in used[-1:])])
            used.append(place)
            sheet.text(right + 12, place, name, at="left", size=LABEL_SIZE, weight=600)
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
