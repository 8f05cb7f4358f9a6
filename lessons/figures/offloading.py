"""Figures of offload: what rests where and what crosses, the ways through a step, and how much bandwidth it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from labs.planner.offload import Step, efficiency
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    entry,
    gridline,
    line_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import PHASE_STRENGTH
from labs.telemetry.drawing.series import log_scale, scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

LANE, THICK = 30.0, 20.0
DASHES = ("", "7 4", "2 3", "10 4 2 4", "1 4")
"""How up to five lines are told apart."""
Bar = tuple[str, float, float]
"""What it is, when it begins, and how long it takes."""


def across_the_link() -> Figure:
    """Device and host: what each keeps of a parameter, in bytes, and what crosses between them in a step."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("offload-title")
        unit, tall = 13.0, 26.0
        sheet, top = titled_sheet(title, gap=34, height=166, language=language)
        wide = 216.0
        sides = (MARGIN, WIDTH - MARGIN - wide)
        held = (
            [(name, words.category(name), 2) for name in ("parameters", "gradients", "activations")],
            [("optimizer_states", said(f"offload-{name}"), 4) for name in ("master", "momentum", "variance")],
        )

        def row_of(x: float, y: float, category: str, each: int, told: str) -> None:
            """A swatch as wide as its bytes, and its words, from where reading begins."""
            if sheet.rtl:
                sheet.swatch(category, x + wide - 16 - each * unit, y, each * unit, tall)
                sheet.text(x + wide - 28 - 4 * unit, y + tall / 2 + 4, told, at="right", size=LABEL_SIZE)
            else:
                sheet.swatch(category, x + 16, y, each * unit, tall)
                sheet.text(x + 28 + 4 * unit, y + tall / 2 + 4, told, size=LABEL_SIZE)

        for x, name, rows in zip(sides, ("device", "host"), held, strict=True):
            sheet.text(x + wide / 2, top - 10, said(f"offload-{name}"), at="middle", size=LABEL_SIZE, weight=600)
            sheet.outline(x, top, wide, 150, radius=6)
            for row, (category, told, each) in enumerate(rows):
                row_of(x, top + 18 + row * 43, category, each, told)
        left, right = sides[0] + wide + 12, sides[1] - 12
        for y, points, name in ((top + 74, (left, right), "out"), (top + 31, (right, left), "back")):
            sheet.arrow([(points[0], y), (points[1], y)], width=1.8)
            sheet.text((left + right) / 2, y - 8, said(f"offload-{name}"), at="middle", size=SMALL_SIZE)
        sheet.text((left + right) / 2, top + 120, said("offload-link"), at="middle", size=SMALL_SIZE, quiet=True)
        return sheet.svg(alt=said("offload-alt"))

    return draw


def ways_through(step: Step) -> Figure:
    """A step in turn, overlapped, and with the update delayed: when device, link and host work."""
    forward, backward, out, update, back = step.forward, step.backward, step.out, step.update, step.back
    end = forward + backward
    sent = forward + max(backward, out)
    ways: dict[str, tuple[float, tuple[list[Bar], list[Bar], list[Bar]]]] = {
        "in-turn": (
            step.in_turn,
            (
                [("forward", 0, forward), ("backward", forward, backward)],
                [("gradients", end, out), ("parameters", end + out + update, back)],
                [("optimizer_states", end + out, update)],
            ),
        ),
        "overlapped": (
            step.overlapped,
            (
                [("forward", 0, forward), ("backward", forward, backward)],
                [("gradients", sent - out, out), ("parameters", sent + step.host - back, back)],
                [("optimizer_states", sent, update)],
            ),
        ),
        "delayed": (
            step.delayed,
            (
                [("forward", 0, forward), ("backward", forward, backward)],
                [("gradients", sent - out, out), ("parameters", step.delayed - back, back)],
                [("optimizer_states", 0, update)],
            ),
        ),
    }

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        times = {name.replace("-", "_"): words.seconds(seconds) for name, (seconds, _) in ways.items()}
        title = said("offload-ways-title", **times)
        entries = [entry("phase", name, words) for name in ("forward", "backward")]
        for name in ("gradients", "parameters", "optimizer_states"):
            told = said(f"offload-crossing-{name.replace('_', '-')}")
            entries.append((told, entry("category", name, words)[1]))
        lanes = [said(f"offload-{name}") for name in ("device", "link", "host")]
        each = 3 * LANE + 40
        sheet, top = titled_sheet(title, entries, gap=34, height=3 * each - 26, language=language)
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in lanes) + 14
        right = WIDTH - MARGIN - 64
        long = (right - left) / step.in_turn
        rows = []
        for place, (name, (seconds, bars)) in enumerate(ways.items()):
            first = top + place * each
            sheet.opening(MARGIN, WIDTH - MARGIN, first - 10, said(f"offload-way-{name}"), size=LABEL_SIZE, weight=600)
            for lane, (told, mine) in enumerate(zip(lanes, bars, strict=True)):
                y = first + lane * LANE
                sheet.text(left - 12, y + THICK / 2 + 4, told, at="right", size=LABEL_SIZE)
                sheet.line(left, y + THICK, right, y + THICK, opacity=0.15)
                for what, begins, lasts in mine:
                    x, width = left + begins * long, lasts * long
                    if what in PHASE_STRENGTH:
                        sheet.shade(x, y, width, THICK, strength=PHASE_STRENGTH[what])
                    else:
                        sheet.swatch(what, x, y, width, THICK)
            stop = left + seconds * long
            sheet.line(stop, first - 4, stop, first + 3 * LANE - 6, width=1.6, dash="4 3")
            sheet.text(stop + 8, first + LANE + THICK / 2 + 4, words.seconds(seconds), weight=600, ltr=True)
            rows.append([said(f"offload-way-{name}"), words.seconds(seconds)])
        parts = {name: words.seconds(getattr(step, name)) for name in ("forward", "backward", "out", "update", "back")}
        told = said("offload-ways-alt", **parts)
        figure = sheet.svg(alt=" ".join([words.sentence(title), told]))
        header = [said("offload-way-column"), said("offload-seconds-column")]
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw


def efficiency_by_bandwidth(
    intensities: Mapping[str, float], *, peak: float, links: Mapping[str, float], title: str
) -> Figure:
    """The share of the time that a device of `peak` FLOP/s computes, against the bandwidth at which its states come: a
    line for each intensity, and an upright one for each link. In bytes a second.
    """
    low, high = 9.0, 12.5

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        ordered = sorted(intensities, key=lambda each: -intensities[each])
        dashes = dict(zip(ordered, DASHES, strict=False))
        entries = [line_entry(name, dash=dashes[name]) for name in ordered]
        left, right, tall = MARGIN + 48, WIDTH - MARGIN - 20, 220.0
        sheet, top = titled_sheet(title, entries, gap=54, height=tall + 46, language=language)

        x = log_scale(10**low, 10**high, start=left, end=right)
        y = scale(0, 1, start=top + tall, end=top)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            told = percent(share, language, digits=2)
            gridline(sheet, left, right, y(share), told)
        for power in range(math.ceil(low), math.floor(high) + 1):
            told = words.axis(10.0**power)(10.0**power) + "/s"
            sheet.text(x(10.0**power), top + tall + 18, told, at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + tall + 38, said("offload-bandwidth-axis"), at="middle", size=SMALL_SIZE)
        sheet.opening(MARGIN, right, top - 26, said("offload-efficiency-axis"), size=SMALL_SIZE)
        for name, bandwidth in links.items():
            sheet.line(x(bandwidth), top, x(bandwidth), top + tall, opacity=0.7, dash="2 3")
            sheet.text(x(bandwidth), top - 6, name, at="middle", size=SMALL_SIZE)
        points = [10 ** (low + (high - low) * place / 60) for place in range(61)]
        rows, told_all = [], []
        for name in ordered:

            def at(bandwidth: float, intensity: float = intensities[name]) -> float:
                return efficiency(intensity=intensity, bandwidth=bandwidth, peak_flops=peak)

            path = " ".join(f"{x(point):.1f} {y(at(point)):.1f}" for point in points)
            sheet.shape(f"M{path}", stroke=2, dash=dashes[name])
            row = [percent(at(each), language, digits=2) for each in links.values()]
            rows.append([name, number(intensities[name], language), *row])
            there = words.listed([f"{link} {share}" for link, share in zip(links, row, strict=True)])
            told_all.append(words.sentence(f"{name}: {there}"))
        header = [said("offload-state-column"), said("offload-intensity-column"), *links]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told_all]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw
