"""Figures of a plan: from a layout to its costs, the steps of several layouts side by side, and when compiling pays."""

from __future__ import annotations

import math
from collections.abc import Mapping

from labs.planner import throughput
from labs.planner.compiling import steps_until_paid
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
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import round_step, scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from lessons.figures.planned import SPENT, spent
from translations import Language
from translations.formats import duration, number, percent

CHAIN = ("counts", "step", "days", "cost")
"""What a plan computes, each from the one before and from what is brought in."""


def from_layout_to_cost() -> Figure:
    """Four things that a plan computes one after the other, and what each takes from outside."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("chain-title")
        tall, between = 46.0, 26.0
        sheet, top = titled_sheet(title, gap=16, height=len(CHAIN) * (tall + between) - between + 8, language=language)
        wide, middle = 290.0, WIDTH / 2
        left = WIDTH - MARGIN - wide if sheet.rtl else MARGIN
        told = []
        for place, name in enumerate(CHAIN):
            y = top + place * (tall + between)
            sheet.shade(left, y, wide, tall, strength=0.1)
            sheet.outline(left, y, wide, tall, opacity=0.6)
            what, brought = said(f"chain-{name}"), said(f"chain-{name}-from")
            sheet.text(left + wide / 2, y + tall / 2 + 4, what, at="middle", size=LABEL_SIZE, weight=600)
            if place:
                x = left + wide / 2
                sheet.arrow([(x, y - between + 2), (x, y - 2)], width=1.6)
            near, far = (left, middle - 15) if sheet.rtl else (left + wide, middle + 15)
            side = -1 if sheet.rtl else 1
            sheet.arrow([(far, y + tall / 2), (near + side * 2, y + tall / 2)], opacity=0.5)
            beyond = far + side * 8
            sheet.text(beyond, y + tall / 2 + 4, brought, at="right" if sheet.rtl else "left", size=SMALL_SIZE)
            told.append(said("chain-alt", what=what, brought=brought))
        return sheet.svg(alt=" ".join([words.sentence(title), *told]))

    return draw


def steps_side_by_side(plans: Mapping[str, Configuration], *, gpu: Accelerator, title: str) -> Figure:
    """What the seconds of a step are spent on, a bar for each layout.

    Raises CourseError for a configuration that cannot run.
    """
    parts = {name: spent(plan.checked(), gpu=gpu) for name, plan in plans.items()}
    found = {name: throughput.throughput(plan, gpu=gpu) for name, plan in plans.items()}

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        used = [each for each in SPENT if any(own[each] > 0 for own in parts.values())]
        names = {each: said(f"spent-{each}") for each in used}
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in plans) + 14
        right = WIDTH - MARGIN - text_width(duration(888.8, language), size=LABEL_SIZE) - 12
        across = scale(0, max(sum(own.values()) for own in parts.values()), start=left, end=right)
        tall = 40.0
        entries = [swatch_entry(names[each], each) for each in used]
        sheet, top = titled_sheet(title, entries, gap=18, height=tall * len(plans) + 2, language=language)
        told, lines = [], []
        for place, (name, own) in enumerate(parts.items()):
            y, x = top + place * tall, left
            sheet.text(left - 12, y + 16, name, at="right", size=LABEL_SIZE, weight=600)
            for each in used:
                if own[each] > 0:
                    end = x + across(own[each]) - left
                    sheet.swatch(each, x, y, max(end - x, 0.6), 24)
                    x = end
            whole = duration(sum(own.values()), language)
            sheet.text(x + 8, y + 16, whole, size=LABEL_SIZE, weight=600)
            shares = words.listed(
                [words("part", name=names[each], size=duration(own[each], language)) for each in used]
            )
            told.append(said("steps-alt", name=name, time=whole, parts=shares))
            mfu, hfu = (percent(share, language) for share in (found[name].mfu, found[name].hfu))
            lines.append([name, *(duration(own[each], language) for each in used), whole, mfu, hfu])
        header = [said("steps-layout"), *names.values(), said("spent-all"), "MFU", "HFU"]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def compiling_pays(*, first: float, eager: float, times: float, title: str) -> Figure:
    """Seconds of a training against its steps, eager and compiled, whose first call takes so long; they meet where it
    has been won back. `title` may name {steps}.
    """
    paid = steps_until_paid(first=first, eager=eager, times=times)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        steps = 2 * paid
        later = eager / times
        lines = {
            said("pays-eager"): ((0.0, 0.0), (steps, steps * eager)),
            said("pays-compiled"): ((0.0, first), (steps, first + steps * later)),
        }
        tall = 190.0
        side = max(text_width(name, size=LABEL_SIZE) for name in lines) + 16
        left, right = MARGIN + 66, WIDTH - MARGIN - side
        told = words.sentence(title.format(steps=number(math.ceil(round(paid, 6)), language)))
        sheet, top = titled_sheet(told.rstrip("."), gap=18, height=tall + 46, language=language)
        most = max(end for _, (_, end) in lines.values())
        unit = 60 if most > 240 else 1
        each, along = unit * round_step(most / 5 / unit), round_step(steps / 6)
        x = scale(0, steps, start=left, end=right)
        y = scale(0, math.ceil(most / each) * each, start=top + tall, end=top)
        for tick in range(math.ceil(most / each) + 1):
            gridline(sheet, left, right, y(tick * each), duration(tick * each, language) if tick else "0")
        for tick in range(int(steps / along) + 1):
            at = x(tick * along)
            sheet.text(at, top + tall + 18, number(tick * along, language), at="middle", size=SMALL_SIZE, quiet=True)
        sheet.text((left + right) / 2, top + tall + 38, said("losses-steps"), at="middle", size=SMALL_SIZE, quiet=True)
        for place, (name, ((a, begin), (b, end))) in enumerate(lines.items()):
            sheet.line(x(a), y(begin), x(b), y(end), width=2, dash="" if place else "5 3")
            sheet.text(right + 10, y(end) + 4, name, size=LABEL_SIZE, weight=600)
        sheet.dot(x(paid), y(paid * eager), radius=5)
        rows = [
            [
                number(count, language),
                *(duration(own, language) for own in (count * eager, first + (count - 1) * later)),
            ]
            for count in (1, math.ceil(round(paid, 6)), math.ceil(round(steps, 6)))
        ]
        figure = sheet.svg(alt=f"{told} {said('pays-alt', time=duration(first, language))}")
        return figure.beside(Table(rows, header=[said("losses-steps"), *lines], language=language).html)

    return draw
