"""Figures of judgement: copies that wait for the longest, a benchmark beside real lengths, and waiting against load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from labs.planner.queueing import mean_seconds, quantile_seconds
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    gridline,
    line_entry,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

ROW, BAR, TALL = 34.0, 17.0, 220.0
POINTS, MOST_LOAD = 60, 0.95


def waits_for_the_longest(copies: Sequence[Sequence[float]], *, title: str) -> Figure:
    """A lane for each copy of the model with its sequences one after the other, as wide as they take, and its waiting
    until the slowest copy is done.
    """

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        names = [said("judged-copy", number=place + 1) for place in range(len(copies))]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names) + 14
        entries = [
            swatch_entry(said("judged-sequence"), "training"),
            swatch_entry(said("judged-waiting"), "slack"),
        ]
        sheet, top = titled_sheet(title, entries, gap=14, height=ROW * len(copies) + 14, language=language)
        ends = [sum(times) for times in copies]
        x = scale(0, max(ends), start=left, end=WIDTH - MARGIN)
        for place, (name, times) in enumerate(zip(names, copies, strict=True)):
            y, at = top + ROW * place, 0.0
            for time in times:
                sheet.swatch("training", x(at), y, x(at + time) - x(at) - 2, ROW - 10)
                at += time
            if max(ends) - at > 1e-9:
                sheet.swatch("slack", x(at), y, x(max(ends)) - x(at), ROW - 10)
            sheet.text(left - 12, y + 16, name, at="right", size=LABEL_SIZE)
        waiting = 1 - sum(ends) / len(ends) / max(ends)
        alt = said("judged-copies-alt", share=words.percent(waiting))
        rows = [
            [name, len(times), number(end, language), words.percent(1 - end / max(ends))]
            for name, times, end in zip(names, copies, ends, strict=True)
        ]
        header = [
            said(f"judged-{column}") for column in ("copy-column", "sequences-column", "seconds-column", "waiting")
        ]
        return sheet.svg(alt=f"{words.sentence(title)} {alt}").beside(
            Table(rows, header=header, language=language).html
        )

    return draw


def benchmark_and_reality(layouts: Mapping[str, tuple[float, float]], *, title: str, unit: str) -> Figure:
    """Two bars for each layout by its name: what it does in the benchmark, and with real lengths."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        kinds = (("judged-benchmark", "slack"), ("judged-reality", "training"))
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in layouts) + 14
        right = WIDTH - MARGIN - 62
        entries = [swatch_entry(said(name), look) for name, look in kinds]
        height = len(layouts) * (2 * BAR + 14) + 30
        sheet, top = titled_sheet(title, entries, gap=14, height=height, language=language)
        x = scale(0, max(max(pair) for pair in layouts.values()), start=left, end=right)
        y = top
        for name, pair in layouts.items():
            sheet.text(left - 12, y + BAR + 4, name, at="right", size=LABEL_SIZE, ltr=True)
            for (_, look), value in zip(kinds, pair, strict=True):
                sheet.swatch(look, left, y, x(value) - left, BAR - 2)
                label = number(value, language)
                sheet.text(x(value) + 8, y + 12, label, at="left", size=SMALL_SIZE, ltr=True)
                y += BAR
            y += 14
        sheet.text((left + right) / 2, y + 12, unit, at="middle", size=SMALL_SIZE, quiet=True)
        rows = [[name, *(number(value, language) for value in pair)] for name, pair in layouts.items()]
        told = [
            said("judged-row", name=name, benchmark=benchmark, reality=reality) for name, benchmark, reality in rows
        ]
        header = [said("judged-layout-column"), *(said(name) for name, _ in kinds)]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw


def waiting_by_load(*, title: str, shown: Sequence[float] = (0.5, 0.8, 0.9, 0.95)) -> Figure:
    """Mean and 99th percentile of the time at one server, in times of its service, against the load."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        curves: dict[str, Callable[..., float]] = {
            "judged-p99": partial(quantile_seconds, service=1.0, share=0.99),
            "judged-mean": partial(mean_seconds, service=1.0),
        }
        dashes = {"judged-p99": "", "judged-mean": "6 3"}
        entries = [line_entry(said(name), dash=dashes[name]) for name in curves]
        sheet, top = titled_sheet(title, entries, gap=34, height=TALL + 46, language=language)
        left, right = MARGIN + 44, WIDTH - MARGIN - 44
        highest = curves["judged-p99"](load=MOST_LOAD)
        x, y = scale(0, 1, start=left, end=right), scale(0, highest, start=top + TALL, end=top)
        sheet.opening(left, right, top - 10, said("judged-times"), size=SMALL_SIZE)
        for tick in range(0, int(highest) + 1, 20):
            gridline(sheet, left, right, y(tick), str(tick))
        for tick in range(0, 11, 2):
            sheet.text(x(tick / 10), top + TALL + 18, percent(tick / 10, language, 2), at="middle", size=SMALL_SIZE)
        sheet.text((left + right) / 2, top + TALL + 38, said("judged-load"), at="middle", size=SMALL_SIZE, quiet=True)
        loads = [MOST_LOAD * point / POINTS for point in range(POINTS + 1)]
        for name, curve in curves.items():
            points = [(x(load), y(curve(load=load))) for load in loads]
            for (x1, y1), (x2, y2) in pairwise(points):
                sheet.line(x1, y1, x2, y2, width=2, dash=dashes[name])
            label = number(curve(load=MOST_LOAD), language)
            sheet.text(points[-1][0] + 8, points[-1][1] + 4, label, at="left", size=LABEL_SIZE, ltr=True)
        rows = [
            [percent(load, language, 2), *(number(curve(load=load), language) for curve in curves.values())]
            for load in shown
        ]
        told = [said("judged-load-row", load=load, p99=p99, mean=mean) for load, p99, mean in rows]
        header = [said("judged-load-column"), *(said(name) for name in curves)]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw
