"""Figures of checkpoints: who writes and reads what of a parameter, when a save is written, and where time goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from labs.planner.goodput import Account, lost_share, young
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
from labs.telemetry.drawing.series import log_scale, round_step, scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import duration, number, percent

POINTS = 48
SPAN = 8.0
"""The curves reach from the best interval divided by this to the best interval times this."""


def cuts(sizes: Mapping[str, int], *, saved: int, loaded: int) -> Figure:
    """A flat buffer with the parameters in it, and where `saved` and `loaded` ranks cut it, padding included."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("cuts-title", saved=saved, loaded=loaded)
        left, right, tall = MARGIN + 66, WIDTH - MARGIN, 34.0
        sheet, top = titled_sheet(title, gap=40, height=3 * tall + 62, language=language)
        total = sum(sizes.values())
        longest = max(-(-total // ranks) * ranks for ranks in (saved, loaded))

        x = scale(0, longest, start=left, end=right)
        middle = top + tall + 26
        begin = 0
        for place, (name, size) in enumerate(sizes.items()):
            sheet.shade(x(begin), middle, x(begin + size) - x(begin), tall, strength=0.05 if place % 2 else 0.14)
            sheet.outline(x(begin), middle, x(begin + size) - x(begin), tall)
            sheet.text((x(begin) + x(begin + size)) / 2, middle + 22, name, at="middle", size=LABEL_SIZE, ltr=True)
            begin += size
        for ranks, y in ((saved, top), (loaded, middle + tall + 26)):
            width = -(-total // ranks)
            for rank in range(ranks):
                edge = x(min((rank + 1) * width, total))
                sheet.swatch("optimizer_states", x(rank * width) + 1, y, max(0, edge - x(rank * width) - 2), tall - 12)
                if x((rank + 1) * width) - edge > 2:
                    sheet.outline(edge, y, x((rank + 1) * width) - edge - 1, tall - 12, opacity=0.5)
                at = (x(rank * width) + x((rank + 1) * width)) / 2
                label = y - 8 if y < middle else y + tall + 4
                sheet.text(at, label, words("rank", rank=rank), at="middle", size=SMALL_SIZE)
            for rank in range(1, ranks):
                at = x(rank * width)
                ends = (y, middle + 7) if y < middle else (middle + tall - 7, y + tall - 12)
                sheet.line(at, *ends[:1], at, *ends[1:], dash="3 3")
        rows = ((top, "cuts-writes"), (middle, "cuts-buffer"), (middle + tall + 26, "cuts-reads"))
        for y, told in rows:
            sheet.text(left - 12, y + 15, said(told), at="right", size=SMALL_SIZE, quiet=True)
        padded = [-(-total // ranks) * ranks - total for ranks in (saved, loaded)]
        return sheet.svg(
            alt=said("cuts-alt", names=words.listed(list(sizes)), saved=saved, loaded=loaded, padded=sum(padded))
        )

    return draw


def saves(*, asynchronous: bool) -> Figure:
    """Training and two saves of a run, over time: the write in training's way, or beside it after a short copy."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        kind = "beside" if asynchronous else "blocking"
        title = said(f"saves-{kind}-title")
        rows = ("training", "writer") if asynchronous else ("training",)
        names = {name: said(f"saves-{name}") for name in rows}
        row = 32.0
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names.values()) + 14
        entries = [
            swatch_entry(said("saves-step"), "training"),
            swatch_entry(said(f"saves-{kind}-save"), "saving"),
        ]
        sheet, top = titled_sheet(title, entries, gap=14, height=row * len(rows), language=language)
        unit = (WIDTH - MARGIN - left) / 24
        copy, write = 0.5, 4.0
        x = left
        for _save in range(2):
            for _step in range(4):
                sheet.swatch("training", x, top, unit * 1.25 - 2, row - 10)
                x += unit * 1.25
            waits = copy if asynchronous else write
            sheet.swatch("saving", x, top, waits * unit - 2, row - 10)
            if asynchronous:
                sheet.swatch("saving", x + copy * unit, top + row, write * unit, row - 10)
            x += waits * unit
        while x + unit * 1.25 <= WIDTH - MARGIN + 1:
            sheet.swatch("training", x, top, unit * 1.25 - 2, row - 10)
            x += unit * 1.25
        for place, name in enumerate(rows):
            sheet.text(left - 12, top + row * place + 15, names[name], at="right", size=LABEL_SIZE)
        return sheet.svg(alt=f"{words.sentence(title)} {said(f'saves-{kind}-alt')}")

    return draw


LOOK_OF = {
    "progress": "training",
    "saving": "saving",
    "lost": "lost",
    "restarting": "starting",
    "waiting": "slack",
    "missing": "logits",
}
"""What the time of a cluster goes to, and its look."""


def where_time_goes(accounts: Mapping[int, Account], *, title: str) -> Figure:
    """A bar for each number of GPUs, cut by what the time goes to; `title` may name {share}, progress of the last."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        bars = {said("time-gpus", gpus=number(gpus, language)): each for gpus, each in accounts.items()}
        last = list(bars.values())[-1].progress
        head = title.replace("{share}", percent(last, language, digits=2))
        shown = [part for part in LOOK_OF if any(each.as_dict()[part] > 5e-4 for each in bars.values())]
        names = {part: said(f"time-{part}") for part in shown}
        row = 30.0
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in bars) + 14
        right = WIDTH - MARGIN - 60
        entries = [swatch_entry(names[part], LOOK_OF[part]) for part in shown]
        sheet, top = titled_sheet(head, entries, gap=14, height=row * len(bars), language=language)
        lines = []
        for place, (name, each) in enumerate(bars.items()):
            y, x = top + row * place, left
            for part in shown:
                wide = (right - left) * max(0.0, each.as_dict()[part])
                if wide > 0.4:
                    sheet.swatch(LOOK_OF[part], x, y, wide, row - 9)
                x += wide
            sheet.outline(left, y, right - left, row - 9, opacity=0.35)
            sheet.text(left - 12, y + 15, name, at="right", size=LABEL_SIZE)
            sheet.text(
                right + 8, y + 15, percent(each.progress, language, digits=2), at="left", size=LABEL_SIZE, ltr=True
            )
            lines.append([name, *(percent(max(0.0, each.as_dict()[part]), language, digits=2) for part in shown)])
        told = [
            words("part", name=f"{line[0]}, {names[part]}", size=value)
            for line in lines
            for part, value in zip(shown, line[1:], strict=True)
        ]
        figure = sheet.svg(alt=f"{words.sentence(head)} {words.sentence(words.listed(told))}")
        return figure.beside(Table(lines, header=["", *names.values()], language=language).html)

    return draw


def lost(*, cost: float, mtbf: float) -> Figure:
    """The share of the time that is lost against the interval between two saves: to saving, to failures, together."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        best = young(cost=cost, mtbf=mtbf)
        least = lost_share(interval=best, cost=cost, mtbf=mtbf)
        told = {
            "interval": duration(60 * round(best / 60) if best > 600 else best, language),
            "share": percent(least, language, digits=2),
        }
        title = said("lost-title", **told)
        tall = 220.0
        left, right = MARGIN + 58, WIDTH - 176
        sheet, top = titled_sheet(title, gap=16, height=tall + 48, language=language)
        intervals = [best / SPAN * SPAN ** (2 * point / POINTS) for point in range(POINTS + 1)]
        curves = {
            "lost-both": [lost_share(interval=each, cost=cost, mtbf=mtbf) for each in intervals],
            "lost-saving": [cost / each for each in intervals],
            "lost-failures": [each / 2 / mtbf for each in intervals],
        }
        step = round_step((SPAN + 1 / SPAN) / 2 * least / 4)
        highest = step * math.ceil((SPAN + 1 / SPAN) / 2 * least / step)

        x = log_scale(intervals[0], intervals[-1], start=left, end=right)
        y = scale(0, highest, start=top + tall, end=top)
        for tick in range(round(highest / step) + 1):
            share = step * tick
            label = percent(share, language, digits=2)
            gridline(sheet, left, right, y(share), label)
        for interval in _round(intervals[0], intervals[-1]):
            sheet.line(x(interval), top + tall, x(interval), top + tall + 4, opacity=0.5)
            label = duration(interval, language)
            sheet.text(x(interval), top + tall + 18, label, at="middle", size=SMALL_SIZE, quiet=True)
        sheet.text((left + right) / 2, top + tall + 38, said("lost-axis"), at="middle", size=SMALL_SIZE, quiet=True)
        for name, curve in curves.items():
            dash = "" if name == "lost-both" else FORMULA_DASH
            points = [(x(interval), y(share)) for interval, share in zip(intervals, curve, strict=True)]
            for (x1, y1), (x2, y2) in pairwise(points):
                sheet.line(x1, y1, x2, y2, width=1.6 if dash else 2.2, dash=dash)
        sheet.dot(x(best), y(least), radius=5)
        for name in ("lost-failures", "lost-saving"):
            sheet.text(right + 10, y(curves[name][-1]) + 4, said(name), at="left", size=LABEL_SIZE)
        sheet.text(x(best), y(least) - 12, said("lost-both"), at="middle", size=LABEL_SIZE, weight=600)
        lines = [
            [
                duration(each, language),
                *(
                    percent(share, language, digits=2)
                    for share in (cost / each, each / 2 / mtbf, lost_share(interval=each, cost=cost, mtbf=mtbf))
                ),
            ]
            for each in sorted([*_round(intervals[0], intervals[-1]), best])
        ]
        header = [said(f"lost-{name}") for name in ("axis", "saving", "failures", "both")]
        figure = sheet.svg(alt=f"{title}. {said('lost-alt', **told)}")
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def _round(low: float, high: float) -> list[float]:
    """Times that people say, between the two."""
    said = [1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400]
    return [float(each) for each in said if low * 1.05 <= each <= high / 1.05]
