"""Goodput against the interval between saves, and against the size of a cluster: the formula as a curve, what was drawn
at random as points on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, gridline, titled_sheet
from labs.telemetry.drawing.series import log_scale, scale
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.drawing.table import Table
from translations import Language
from translations.formats import duration, number

ROUND_TIMES = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place on the curve; `drawn` is the mean of what was drawn there, if anything was, and `error` its standard
    error.
    """

    at: float
    goodput: float
    drawn: float | None = None
    error: float = 0.0


def goodput_by_interval(points: Sequence[Point], *, language: Language | str) -> Svg:
    """`at` is seconds of training between saves, rising."""
    words = Words.of(language)
    best = max(points, key=lambda point: point.goodput)
    values = {"interval": duration(best.at, words.language), "share": words.percent(best.goodput)}
    ticks = [each for each in ROUND_TIMES if points[0].at <= each <= points[-1].at]
    return _figure(
        points, words, message=words("goodput-interval", **values), axis=words("goodput-interval-axis"),
        ticks=ticks, told=lambda seconds: duration(seconds, words.language), marked=best,
    )  # fmt: skip


def goodput_by_size(points: Sequence[Point], *, language: Language | str) -> Svg:
    """`at` is how many accelerators the cluster has, rising; each at its own best interval."""
    words = Words.of(language)
    first, last = points[0], points[-1]
    values = {
        "less": number(int(first.at), words.language),
        "more": number(int(last.at), words.language),
        "from_share": words.percent(first.goodput),
        "to_share": words.percent(last.goodput),
    }
    ticks = [10**power for power in range(9) if first.at <= 10**power <= last.at]
    return _figure(
        points, words, message=words("goodput-size", **values), axis=words("goodput-size-axis"),
        ticks=ticks, told=lambda devices: number(int(devices), words.language), marked=None,
    )  # fmt: skip


def _figure(
    points: Sequence[Point],
    words: Words,
    *,
    message: str,
    axis: str,
    ticks: Sequence[float],
    told: Callable[[float], str],
    marked: Point | None,
) -> Svg:
    tall = 230.0
    left, right = MARGIN + 48, WIDTH - MARGIN - 20
    sheet, top = titled_sheet(message, gap=18, height=tall + 52, language=words.language)
    x = log_scale(points[0].at, points[-1].at, start=left, end=right)
    y = scale(0, 1, start=top + tall, end=top)
    for quarter in range(5):
        label = words.percent(quarter / 4) if quarter else "0"
        gridline(sheet, left, right, y(quarter / 4), label)
    for tick in ticks:
        sheet.line(x(tick), top + tall, x(tick), top + tall + 4, opacity=0.5)
        sheet.text(x(tick), top + tall + 18, told(tick), at="middle", size=SMALL_SIZE, quiet=True)
    sheet.text((left + right) / 2, top + tall + 40, axis, at="middle", size=SMALL_SIZE, quiet=True)
    for before, after in pairwise(points):
        sheet.line(x(before.at), y(before.goodput), x(after.at), y(after.goodput), width=2)
    for point in points:
        if point.drawn is not None:
            sheet.line(x(point.at), y(point.drawn - 2 * point.error), x(point.at), y(point.drawn + 2 * point.error))
            sheet.dot(x(point.at), y(point.drawn), radius=3.5)
    if marked is not None:
        sheet.line(x(marked.at), y(marked.goodput), x(marked.at), top + tall, dash="3 3", opacity=0.6)
        at, label = x(marked.at), f"{told(marked.at)}: {words.percent(marked.goodput)}"
        sheet.text(at, y(marked.goodput) - 12, label, at="middle", size=LABEL_SIZE, weight=600)
    if any(point.drawn is not None for point in points):
        sheet.text(left + 8, top + tall - 10, words("goodput-points"), at="left", size=SMALL_SIZE, quiet=True)
    rows = [
        (told(point.at), words.percent(point.goodput), "" if point.drawn is None else words.percent(point.drawn))
        for point in points
    ]
    header = [axis, words("goodput-formula"), words("goodput-drawn")]
    numbers = words("goodput-alt", points=words.listed([f"{at} {share}" for at, share, _ in rows]))
    return sheet.svg(alt=f"{words.sentence(message)} {numbers}").beside(
        Table(rows, header=header, language=words.language).html
    )
