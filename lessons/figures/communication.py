"""Figures of communication: what collectives take by their size, in two levels of links, and beside computation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from labs.planner.overlap import backward_with_reduction
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Entry,
    Words,
    entry,
    gridline,
    line_entry,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import INK, PHASE_STRENGTH
from labs.telemetry.drawing.series import log_scale
from labs.telemetry.drawing.svg import Sheet, text_width
from labs.telemetry.drawing.trace import trace_over_time
from labs.telemetry.trace import Lanes
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import NARROW_SPACE, duration, number, percent

Curve = Sequence[tuple[float, float]]
DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 4")
TALL = 250.0


def seconds_by_size(curves: Mapping[str, Curve], *, title: str, x: str, y: str) -> Figure:
    """Seconds against bytes, both in powers of ten: a line for each name, in the order given, all at the same sizes."""
    every = [point for curve in curves.values() for point in curve]
    low, high = (f(math.log10(size) for size, _ in every) for f in (min, max))
    short, long = (f(math.log10(seconds) for _, seconds in every) for f in (min, max))

    def draw(language: Language) -> Svg:
        words = Words.of(language)
        dashes = dict(zip(curves, DASHES, strict=False))
        entries = [line_entry(name, dash=dash) for name, dash in dashes.items()]
        sheet, top = titled_sheet(title, entries, gap=40, height=TALL + 46, language=language)
        left, right, bottom = MARGIN + 70, WIDTH - MARGIN - 20, top + TALL

        across = log_scale(10**low, 10**high, start=left, end=right)
        up = log_scale(10**short, 10**long, start=bottom, end=top)
        for power in range(math.ceil(low), math.floor(high) + 1):
            at = across(10.0**power)
            sheet.line(at, top, at, bottom, opacity=0.13)
            sheet.text(at, bottom + 17, words.bytes(10.0**power), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        few = long - short < 1.2
        for power in range(math.floor(short), math.ceil(long) + 1):
            for factor in (1, 2, 5) if few else (1,):
                seconds = factor * 10.0**power
                if short - 1e-9 <= math.log10(seconds) <= long + 1e-9:
                    told = _time(seconds, words)
                    gridline(sheet, left, right, up(seconds), told, opacity=0.13)
        sheet.text((left + right) / 2, bottom + 36, x, at="middle", size=SMALL_SIZE, quiet=True)
        sheet.opening(left, right, top - 22, y, size=SMALL_SIZE)
        for name, curve in curves.items():
            for (size, seconds), (after, later) in pairwise(curve):
                sheet.line(across(size), up(seconds), across(after), up(later), width=2, dash=dashes[name])
        sizes = [size for size, _ in next(iter(curves.values()))]
        shown = sizes[:: max(1, len(sizes) // 6)]
        lines = [[words.bytes(size), *(_time(dict(curve)[size], words) for curve in curves.values())] for size in shown]
        parts = [
            words("group-numbers", name=line[0], parts=words.listed([f"{name} {value}" for name, value in pairs]))
            for line in lines
            for pairs in [list(zip(curves, line[1:], strict=True))]
        ]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *map(words.sentence, parts)]))
        return figure.beside(Table(lines, header=[x, *curves], language=language).html)

    return draw


def _time(seconds: float, words: Words) -> str:
    """Down to microseconds."""
    if seconds < 1e-3:
        return f"{number(round(seconds * 1e6, 3), words.language, digits=2)}{NARROW_SPACE}µs"
    return words.time(seconds)


PARTS = {"own": 0.1, "node": 0.42, "all": 0.88}
"""How dark a chunk is: a rank's own, the sum over its node, the sum over all."""
CELL, BETWEEN = 13.0, 9.0


def two_levels(*, per_node: int, nodes: int) -> Figure:
    """An all-reduce in three steps: in every node, between the ranks with the same chunk, and in every node again."""
    moments = ("start", "scatter", "across", "gather")

    def state(moment: str, rank: int, chunk: int) -> str:
        if moment == "gather" or (moment == "across" and chunk == rank):
            return "all"
        return "node" if moment == "scatter" and chunk == rank else "own"

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("levels-title", share=number(per_node, language))
        entries = [
            (said(f"levels-{part}"), lambda sheet, x, y, dark=dark: _chunk(sheet, x, y - 11, 18, dark))
            for part, dark in PARTS.items()
        ]
        names = {moment: said(f"levels-{moment}") for moment in moments}
        tall = CELL * per_node + 40
        sheet, top = titled_sheet(title, entries, gap=40, height=tall * len(moments) - 10, language=language)
        left = MARGIN + 10
        node_wide = min(300.0, (WIDTH - 2 * left - 40 * (nodes - 1)) / nodes)
        wide = (node_wide - BETWEEN * (per_node + 1)) / per_node
        gap = (WIDTH - 2 * left - nodes * node_wide) / max(1, nodes - 1)
        for row, moment in enumerate(moments):
            y = top + row * tall
            sheet.opening(left, WIDTH - left, y - 12, names[moment], size=LABEL_SIZE, weight=600)
            for node in range(nodes):
                x = left + node * (node_wide + gap)
                sheet.outline(x, y - 5, node_wide, CELL * per_node + 9, radius=5, opacity=0.45)
                for rank in range(per_node):
                    at = x + BETWEEN + rank * (wide + BETWEEN)
                    for chunk in range(per_node):
                        _chunk(sheet, at, y + chunk * CELL, wide, PARTS[state(moment, rank, chunk)])
            if moment == "across":
                for node in range(nodes - 1):
                    x = left + node * (node_wide + gap) + node_wide
                    middle = y + CELL * per_node / 2
                    sheet.arrow([(x + 4, middle - 4), (x + gap - 4, middle - 4)])
                    sheet.arrow([(x + gap - 4, middle + 6), (x + 4, middle + 6)])
        told = said("levels-alt", per_node=per_node, nodes=nodes)
        return sheet.svg(alt=" ".join([words.sentence(title), told]))

    return draw


def _chunk(sheet: Sheet, x: float, y: float, width: float, dark: float) -> None:
    sheet.shade(x, y, width, CELL - 2, strength=dark)
    sheet.outline(x, y, width, CELL - 2, opacity=0.4)


LANE, LINK = 22.0, 16.0


def beside_backward(computing: Sequence[float], reducing: Sequence[float]) -> Figure:
    """A backward in units and the reduction of each on one link: first one after the other, then side by side."""
    late = backward_with_reduction(computing, reducing, overlapped=False)
    early = backward_with_reduction(computing, reducing)
    exposed = early - sum(computing)
    share = 1 - exposed / sum(reducing)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("beside-title", share=percent(share, language, digits=2))
        rows = {
            "blocking": (list(accumulate(computing)), sum(computing)),
            "overlapped": (list(accumulate(computing)), 0.0),
        }
        entries: list[Entry] = [
            (words.phase("backward"), lambda sheet, x, y: _unit(sheet, x, y - 11, 18)),
            entry("category", "communication", words),
        ]
        each = LANE + LINK + 66
        sheet, top = titled_sheet(title, entries, gap=36, height=each * len(rows) - 20, language=language)
        left, right = MARGIN, WIDTH - MARGIN
        scale = (right - left) / late
        lines = []
        for row, (name, (made, begin)) in enumerate(rows.items()):
            y = top + row * each
            sheet.opening(left, right, y - 10, said(f"beside-{name}"), size=LABEL_SIZE, weight=600)
            start = 0.0
            for unit, end in enumerate(made):
                _unit(sheet, left + scale * start, y, scale * (end - start) - 1, LANE)
                _number(sheet, left + scale * (start + end) / 2, y + 15, len(made) - unit)
                start = end
            free, lower = begin, y + LANE + 4
            for unit, (ready, takes) in enumerate(zip(made, reducing, strict=True)):
                begins = max(ready, free)
                free = begins + takes
                sheet.swatch("communication", left + scale * begins, lower, max(scale * takes - 1, 1), LINK)
                if scale * takes > 14:
                    middle = left + scale * (begins + takes / 2)
                    sheet.text(
                        middle,
                        lower + 12,
                        str(len(made) - unit),
                        at="middle",
                        size=SMALL_SIZE,
                        ltr=True,
                        weight=600,
                        ink=INK,
                    )
            ends = left + scale * free
            alone = left + scale * sum(computing)
            foot = lower + LINK + 8
            sheet.line(alone, foot, ends, foot, width=1.6)
            for at in (alone, ends):
                sheet.line(at, foot - 4, at, foot + 4, width=1.6)
            told = said("beside-open", share=percent(free / sum(computing) - 1, language, digits=2))
            wide = text_width(told, size=SMALL_SIZE)
            middle = min(max((alone + ends) / 2, left + wide / 2), right - wide / 2)
            sheet.text(middle, foot + 17, told, at="middle", size=SMALL_SIZE)
            lines.append((said(f"beside-{name}"), percent(free / late, language, digits=2), told))
        return sheet.svg(alt=" ".join([words.sentence(title), *(f"{name}: {told}." for name, _, told in lines)]))

    return draw


def _unit(sheet: Sheet, x: float, y: float, width: float, height: float = 14.0) -> None:
    sheet.shade(x, y, width, height, strength=PHASE_STRENGTH["backward"])
    sheet.outline(x, y, width, height, opacity=0.4)


def _number(sheet: Sheet, x: float, y: float, unit: int) -> None:
    sheet.text(x, y, str(unit), at="middle", size=SMALL_SIZE, ltr=True)


def two_links(sizes: Mapping[str, tuple[float, float]], *, title: str) -> Figure:
    """For each way to all-reduce, the seconds on the links of a node and on the network, end to end."""
    longest = max(map(sum, sizes.values()))

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        entries: list[Entry] = [
            (said("link-node"), lambda sheet, x, y: _chunk(sheet, x, y - 11, 18, 0.2)),
            swatch_entry(said("link-network"), "communication"),
        ]
        sheet, top = titled_sheet(title, entries, gap=14, height=30 * len(sizes) + 6, language=language)
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in sizes) + 12
        right = WIDTH - MARGIN - text_width(duration(longest, language), size=LABEL_SIZE) - 26
        scale, lines = (right - left) / longest, []
        for row, (name, (node, network)) in enumerate(sizes.items()):
            y = top + 30 * row
            sheet.text(left - 10, y + 14, name, at="right", size=LABEL_SIZE)
            sheet.shade(left, y, max(scale * node, 1.0), 18, strength=0.2)
            sheet.outline(left, y, max(scale * node, 1.0), 18, opacity=0.4)
            sheet.swatch("communication", left + scale * node, y, max(scale * network, 1.0), 18)
            took = _time(node + network, words)
            sheet.text(left + scale * (node + network) + 8, y + 14, took, size=LABEL_SIZE, weight=600, ltr=True)
            lines.append((name, _time(node, words), _time(network, words), took))
        header = ["", said("link-node"), said("link-network"), said("planned-all")]
        told = [words("group-numbers", name=line[0], parts=line[-1]) for line in lines]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *map(words.sentence, told)]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def traced(data: Mapping[str, Any], *, length: float = 0.0) -> Figure:
    """The traced step of a run of the overlap lab, by its JSON; the axis is `length` seconds long, or as the step."""
    lanes = {report["rank"]: Lanes.of(report["trace"]) for report in data["ranks"]}
    return lambda language: trace_over_time(lanes, language=language, length=length)
