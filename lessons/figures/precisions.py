"""Figures of number formats: their bits, what gradients they have room for, and what happens to updates and scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labs.planner import rounding
from labs.telemetry import Bytes
from labs.telemetry.drawing import Svg, Table, stacked_bars
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, gridline, titled_sheet
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import log_scale, scale
from labs.telemetry.drawing.svg import Sheet
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

SIGN, EXPONENT, FRACTION = 0.75, 0.4, 0.12
"""How strongly each kind of bit is shaded in the text's own colour."""


def power(value: float) -> str:
    """A power of two as 2⁻²⁴."""
    return "2" + str(round(math.log2(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def decimal(value: float, language: Language) -> str:
    """65,504 or 6.0 × 10⁻⁸."""
    if 1e-3 <= value < 1e6:
        return number(round(value) if value >= 10 else value, language)
    exponent = math.floor(math.log10(value))
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{number(value / 10.0**exponent, language, digits=2)} × 10{raised}"


def number_formats() -> Figure:
    """The bits of each format, the largest and smallest number, and the next number after 1."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("formats-title")
        row, left, bit = 40.0, MARGIN + 74, 11.4
        kinds = {"sign": SIGN, "exponent": EXPONENT, "fraction": FRACTION}
        entries = [
            (said(f"formats-{name}"), lambda sheet, x, y, strength=strength: _bit(sheet, x, y - 11, 14, 14, strength))
            for name, strength in kinds.items()
        ]
        sheet, top = titled_sheet(title, entries, gap=37, height=row * len(rounding.FRACTION), language=language)
        columns = (left + 32 * bit + 44, left + 32 * bit + 138, left + 32 * bit + 236)
        for at, name in zip(columns, ("largest", "smallest", "after-one"), strict=True):
            sheet.text(at, top - 14, said(f"formats-{name}"), at="middle", size=SMALL_SIZE, quiet=True)
        lines, told = [], []
        for place, name in enumerate(rounding.FRACTION):
            y, tall = top + place * row, 22.0
            sheet.text(left - 12, y + 15, name, at="right", size=LABEL_SIZE, weight=600, ltr=True)
            exponent, fraction = rounding.EXPONENT[name], rounding.FRACTION[name]
            bits = [SIGN] + [EXPONENT] * exponent + [FRACTION] * fraction
            for index, strength in enumerate(bits):
                _bit(sheet, left + index * bit, y, bit, tall, strength)
            for start, count in ((1, exponent), (1 + exponent, fraction)):
                sheet.text(left + (start + count / 2) * bit, y + 36, str(count), at="middle", size=10, ltr=True)
            numbers = [decimal(each(name), language) for each in (rounding.largest, rounding.smallest)]
            numbers.append(f"1 + {power(rounding.spacing(1.0, name))}")
            for at, value in zip(columns, numbers, strict=True):
                sheet.text(at, y + 15, value, at="middle", size=LABEL_SIZE, ltr=True)
            lines.append([name, exponent, fraction, *numbers])
            values = dict(zip(("largest", "smallest", "after"), numbers, strict=True))
            told.append(said("formats-row", name=name, exponent=exponent, fraction=fraction, **values))
        columns_named = ("exponent", "fraction", "largest", "smallest", "after-one")
        header = ["", *(said(f"formats-{name}") for name in columns_named)]
        figure = sheet.svg(alt=" ".join([f"{title}.", *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def _bit(sheet: Sheet, x: float, y: float, width: float, height: float, strength: float) -> None:
    sheet.shade(x, y, width, height, strength=strength)
    sheet.outline(x, y, width, height, opacity=0.4)


def magnitudes(
    counts: Mapping[int, int], *, formats: Sequence[str], title: str, scale: float = 1.0, low: int = -46, high: int = 18
) -> Figure:
    """How many values lie between each power of two and the next, once multiplied by `scale`; under them the range of
    each format: dark with all bits of the fraction, light with fewer of them. What is left of a range becomes zero.
    """

    def draw(language: Language) -> Svg:
        said = Said(language)
        shift = round(math.log2(scale))
        moved = {exponent + shift: count for exponent, count in counts.items()}
        tall, row = 150.0, 26.0
        left, right = MARGIN + 84, WIDTH - MARGIN - 70
        sheet, top = titled_sheet(title, gap=20, height=tall + 50 + row * len(formats), language=language)
        most, total = max(moved.values()), sum(moved.values())

        def x(exponent: float) -> float:
            return left + (right - left) * (min(max(exponent, low), high) - low) / (high - low)

        wide = (right - left) / (high - low)
        for exponent, count in moved.items():
            if low <= exponent < high:
                height = tall * count / most
                sheet.swatch("gradients", x(exponent) + 0.6, top + tall - height, wide - 1.2, height)
        sheet.line(left, top + tall, right, top + tall, opacity=0.6)
        for exponent in range(low - low % 8 + 8, high + 1, 8):
            sheet.line(x(exponent), top + tall, x(exponent), top + tall + 5, opacity=0.6)
            sheet.text(
                x(exponent), top + tall + 19, power(2.0**exponent), at="middle", size=SMALL_SIZE, quiet=True, ltr=True
            )
        lines, told = [], []
        for place, name in enumerate(formats):
            y = top + tall + 36 + place * row
            normal = math.log2(rounding.smallest_normal(name))
            zero, end = math.log2(rounding.smallest(name)) - 1, math.log2(rounding.largest(name))
            sheet.text(left - 12, y + 12, name, at="right", size=LABEL_SIZE, weight=600, ltr=True)
            sheet.shade(x(zero), y, x(normal) - x(zero), 15, strength=FRACTION)
            sheet.shade(x(normal), y, x(end) - x(normal), 15, strength=EXPONENT)
            sheet.outline(x(zero), y, x(end) - x(zero), 15, opacity=0.4)
            if zero > low:
                sheet.line(x(zero), top + 6, x(zero), top + tall, dash=FORMULA_DASH, opacity=0.8)
            lost = sum(count for exponent, count in moved.items() if exponent < zero) / total
            share = percent(lost, language, digits=2)
            sheet.text(right + 10, y + 12, share, size=LABEL_SIZE, ltr=True)
            told.append(said("magnitudes-row", name=name, share=share))
            lines.append([name, share])
        sheet.text(right + 10, top + tall + 19, said("magnitudes-zero"), size=SMALL_SIZE, quiet=True)
        figure = sheet.svg(alt=" ".join([f"{title}.", *told]))
        header = ["", said("magnitudes-zero")]
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def half_spacing(
    update: float, *, formats: Sequence[str] = ("bf16", "fp16", "fp32"), low: int = -12, high: int = 1
) -> Figure:
    """What an update must exceed to move a weight, for weights of each size; and one update beside it."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("spacing-title", update=decimal(update, language), weight=power(rounding.first_unmoved(update)))
        tall = 220.0
        left, right = MARGIN + 54, WIDTH - MARGIN - 150
        sheet, top = titled_sheet(title, gap=40, height=tall + 44, language=language)
        bottom = math.floor(math.log2(rounding.least_update(2.0**low, formats[-1]))) - 1
        ceiling = math.ceil(math.log2(rounding.least_update(2.0 ** (high - 1), formats[0]))) + 1

        x = scale(low, high, start=left, end=right)
        y = log_scale(2.0**bottom, 2.0**ceiling, start=top + tall, end=top)
        sheet.opening(MARGIN, WIDTH - MARGIN, top - 16, said("spacing-half"), size=SMALL_SIZE)
        for exponent in range(bottom + bottom % 4, ceiling + 1, 4):
            gridline(sheet, left, right, y(2.0**exponent), power(2.0**exponent), opacity=0.15)
        for exponent in range(low, high + 1, 2):
            sheet.text(
                x(exponent), top + tall + 18, power(2.0**exponent), at="middle", size=SMALL_SIZE, quiet=True, ltr=True
            )
        sheet.text(
            (left + right) / 2, top + tall + 36, said("spacing-weight"), at="middle", size=SMALL_SIZE, quiet=True
        )
        for name in formats:
            path = []
            for exponent in range(low, high):
                half = y(rounding.least_update(2.0**exponent, name))
                path += [f"{x(exponent):.1f} {half:.1f}", f"{x(exponent + 1):.1f} {half:.1f}"]
            sheet.shape("M" + "L".join(path), stroke=2)
            sheet.text(
                right + 10,
                y(rounding.least_update(2.0 ** (high - 1), name)) + 4,
                name,
                size=LABEL_SIZE,
                weight=600,
                ltr=True,
            )
        sheet.line(left, y(update), right, y(update), width=1.8, dash=FORMULA_DASH)
        sheet.text(right + 10, y(update) + 4, said("spacing-update"), size=LABEL_SIZE, weight=600)
        rows = [
            [power(2.0**exponent), *(decimal(rounding.least_update(2.0**exponent, name), language) for name in formats)]
            for exponent in range(low, high)
        ]
        figure = sheet.svg(alt=f"{title}. {said('spacing-alt')}")
        return figure.beside(Table(rows, header=[said("spacing-weight"), *formats], language=language).html)

    return draw


def bytes_by_recipe(recipes: Mapping[str, tuple[int, int, int]], *, title: str) -> Figure:
    """What one parameter, its gradient and its optimizer states take, a bar for each recipe."""
    groups = [
        (name, Bytes(parameters=parameter, gradients=gradient, optimizer_states=states))
        for name, (parameter, gradient, states) in recipes.items()
    ]
    return lambda language: stacked_bars(groups, language=language, title=title)
