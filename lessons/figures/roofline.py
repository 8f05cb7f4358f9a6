"""The roofline of a planned run: operations for each byte that an axis sends, against what the links can carry."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labs.planner import links, throughput
from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    gridline,
    line_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import log_scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import NARROW_SPACE, number

TALL = 260.0
DASHES = {"memory": "1.5 3", "node": "", "host": "9 3 2 3", "network": "5 3"}
"""How the roof of each link is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An axis of the layout: operations for each byte that it sends, and those a second that its link allows."""

    axis: str
    link: str
    intensity: float
    reached: float
    needed: float

    @property
    def keeps_up(self) -> bool:
        """Whether the link could carry the bytes while the rank computes at its peak."""
        return self.intensity >= self.needed


def rates(gpu: Accelerator) -> dict[str, float]:
    """Bytes a second of what an accelerator reads and sends over, the fastest first; without those unknown."""
    every = {"memory": gpu.bandwidth, "node": gpu.link, "host": gpu.host, "network": gpu.network}
    return dict(sorted(((name, rate) for name, rate in every.items() if rate), key=lambda each: -each[1]))


def points(plan: Configuration, *, gpu: Accelerator) -> list[Point]:
    """The axes that send anything, the one that needs most of its link first."""
    operations, rate = throughput.step_flops(plan) / plan.gpus, rates(gpu)
    found = []
    for axis in links.axes(plan, gpu=gpu):
        if axis.bytes and axis.link in rate:
            intensity = operations / axis.bytes
            found.append(
                Point(
                    axis=axis.name,
                    link=axis.link,
                    intensity=intensity,
                    reached=min(gpu.peak, intensity * rate[axis.link]),
                    needed=gpu.peak / rate[axis.link],
                )
            )
    return sorted(found, key=lambda point: point.intensity / point.needed)


def roofline(plan: Configuration, *, gpu: Accelerator) -> Figure:
    """A roof for each link: bytes a second times operations a byte, up to the accelerator's peak; on them the axes.

    Raises CourseError for a configuration that cannot run.
    """
    plan.checked()
    found, rate = points(plan, gpu=gpu), rates(gpu)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = _title(found, said, words)
        entries = [
            line_entry(
                said("roof-link", link=_link(name, gpu, said), size=words.bytes(speed)), dash=DASHES[name], width=1.6
            )
            for name, speed in rate.items()
        ]
        sheet, top = titled_sheet(title, entries, gap=44, height=TALL + 46, language=language)
        left, right, bottom = MARGIN + 78, WIDTH - MARGIN - 20, top + TALL

        # The axes are logarithmic, in whole powers of ten around all that is drawn.
        sides = [gpu.peak / each for each in rate.values()] + [point.intensity for point in found]
        low, high = math.floor(math.log10(min(sides)) - 0.3), math.ceil(math.log10(max(sides)) + 0.3)
        ceiling = math.log10(gpu.peak) + 0.15
        floor = math.floor(min([ceiling - 2.5, *(math.log10(point.reached) - 0.3 for point in found)]))

        x = log_scale(10.0**low, 10.0**high, start=left, end=right)
        y = log_scale(10.0**floor, 10.0**ceiling, start=bottom, end=top)
        for power in range(low, high + 1):
            sheet.line(x(10.0**power), top, x(10.0**power), bottom, opacity=0.13)
            label = number(10**power, language) if power >= 0 else number(10.0**power, language, digits=1)
            sheet.text(x(10.0**power), bottom + 17, label, at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        for power in range(floor, math.floor(ceiling) + 1):
            label = _operations(10.0**power, language)
            gridline(sheet, left, right, y(10.0**power), label, opacity=0.13)
        sheet.text((left + right) / 2, bottom + 36, said("roof-x"), at="middle", size=SMALL_SIZE, quiet=True)
        sheet.opening(left, right, top - 24, said("roof-y"), size=SMALL_SIZE)

        sheet.line(left, y(gpu.peak), right, y(gpu.peak), width=1.8)
        peak = said("roof-peak", gpu=gpu.title, rate=_operations(gpu.peak, language))
        sheet.text(right, y(gpu.peak) - 6, peak, at="right", size=SMALL_SIZE, weight=600)
        for name, speed in rate.items():
            begin = max(10.0**low, 10.0**floor / speed)
            ridge = gpu.peak / speed
            sheet.line(x(begin), y(begin * speed), x(ridge), y(gpu.peak), width=1.6, dash=DASHES[name])

        taken: list[tuple[float, float]] = []
        for point in found:
            at, up = x(point.intensity), y(point.reached)
            sheet.line(at, up, at, bottom, opacity=0.5, dash="2 3")
            sheet.dot(at, up, radius=5)
            name = words(f"axis-{point.axis}")
            wide = text_width(name, size=LABEL_SIZE)
            end = at + 9 + wide < right
            place = up + 18
            while any(abs(place - other) < 15 and abs(at - beside) < wide + 20 for beside, other in taken):
                place += 15
            taken.append((at, place))
            sheet.text(at + (9 if end else -9), place, name, at="left" if end else "right", size=LABEL_SIZE, weight=600)

        header = [said(f"roof-{name}-column") for name in ("axis", "link", "intensity", "needed", "verdict")]
        lines = [
            (
                words(f"axis-{point.axis}"), said(f"link-{point.link}"), number(point.intensity, language),
                number(point.needed, language), said("roof-keeps-up" if point.keeps_up else "roof-full"),
            )
            for point in found
        ]  # fmt: skip
        told = [
            said("roof-row", axis=axis, link=link, intensity=intensity, needed=needed, verdict=verdict)
            for axis, link, intensity, needed, verdict in lines
        ]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(lines, header=header, language=language).html) if lines else figure

    return draw


def _link(name: str, gpu: Accelerator, said: Said) -> str:
    """A link by what it is; of NVIDIA's accelerators also by its name."""
    named = gpu.title.startswith("NVIDIA") and name in ("node", "network")
    return said(f"roof-{name}-named" if named else f"roof-{name}")


def _title(found: list[Point], said: Said, words: Words) -> str:
    """Which links keep up, in a sentence."""
    full = [words(f"axis-{point.axis}") for point in found if not point.keeps_up]
    if not found:
        return said("roof-alone")
    if not full:
        return said("roof-all", axis=words(f"axis-{found[0].axis}"))
    return said("roof-some", axes=words.listed(full))


def _operations(rate: float, language: Language) -> str:
    """Floating-point operations a second: 312 TFLOP/s."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9)):
        if rate >= size or unit == "G":
            shown = rate / size
            digits = number(round(shown), language) if abs(shown - round(shown)) < 1e-9 else number(shown, language)
            return f"{digits}{NARROW_SPACE}{unit}FLOP/s"
    raise AssertionError("every rate has a unit")
