"""Figures of what a lab measured or a formula says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from labs.catalogue import LabRun
from labs.planner.zero import PRECISIONS
from labs.telemetry import Bytes
from labs.telemetry.drawing import Svg, Table, stacked_bars
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, gridline, titled_sheet
from labs.telemetry.drawing.series import apart, round_step, scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number


def measured_states(runs: Mapping[str, LabRun], *, title: str) -> Figure:
    """Model states at rest on rank 0, a bar for each run, with the formula's mark."""
    return _stacked(runs, title=title, when="rest", states_only=True)


def measured_peak(runs: Mapping[str, LabRun], *, title: str) -> Figure:
    """Each category's own peak on rank 0, a bar for each run."""
    return _stacked(runs, title=title, when="peak", states_only=False)


def _stacked(runs: Mapping[str, LabRun], *, title: str, when: str, states_only: bool) -> Figure:
    groups, formula = [], []
    for name, run in runs.items():
        measured = dict(run.data["ranks"][0]["bytes"][when])
        if states_only:
            measured = {key: measured[key] for key in ("parameters", "gradients", "optimizer_states")}
        groups.append((name, Bytes(**measured)))
        formula.append(sum(run.data["predicted"]["states"].values()))
    return lambda language: stacked_bars(
        groups, language=language, title=title, formula=formula if states_only else None
    )


def bytes_per_parameter() -> Figure:
    """What one parameter costs in each precision."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        groups = [
            (name, Bytes(parameters=cost.parameter, gradients=cost.gradient, optimizer_states=cost.optimizer_states))
            for name, cost in PRECISIONS.items()
            if name != "fp64"
        ]
        return stacked_bars(groups, language=language, title=said("bytes-per-parameter-title"))

    return draw


def over_steps(
    curves: Mapping[str, Sequence[float]], *, title: str, marks: Sequence[int] = (), note: str = ""
) -> Figure:
    """Values against steps, a line for each name, which stands at its end. At the steps of `marks`, which `note` names,
    is a dot on the first line.
    """

    def draw(language: Language) -> Svg:
        said = Said(language)
        tall = 200.0
        room = max(text_width(name, size=LABEL_SIZE) for name in curves) + 18
        values = [value for own in curves.values() for value in own]
        step = round_step(max((max(values) - min(values)) / 5, 1e-12))
        if all(float(value).is_integer() for value in values):
            step = max(step, 1.0)
        low, high = (
            math.floor(min(values) / step),
            max(math.ceil(max(values) / step), math.floor(min(values) / step) + 1),
        )
        digits = max(0, -math.floor(math.log10(step)))
        labels = {
            each: number(round(each * step, digits), language, digits=_significant(each * step, digits))
            for each in range(low, high + 1)
        }
        left, right = (
            MARGIN + 12 + max(text_width(each, size=SMALL_SIZE) for each in labels.values()),
            WIDTH - MARGIN - room,
        )
        sheet, top = titled_sheet(title, gap=36 if marks else 16, height=tall + 44, language=language)
        last = max(len(own) for own in curves.values()) - 1

        x = scale(0, max(last, 1), start=left, end=right)
        y = scale(low * step, high * step, start=top + tall, end=top)
        for each, label in labels.items():
            gridline(sheet, left, right, y(each * step), label)
        for at in range(0, last + 1, max(1, round(round_step((last + 1) / 7)))):
            sheet.text(x(at), top + tall + 18, str(at), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + tall + 36, said("losses-steps"), at="middle", size=SMALL_SIZE, quiet=True)
        dashes = ("", "6 4", "2 3", "9 3 2 3")
        told = []
        for index, (name, own) in enumerate(curves.items()):
            points = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in enumerate(own))
            sheet.shape(f"M{points}", stroke=2, dash=dashes[index % len(dashes)])
            told.append(
                said(
                    "losses-alt", name=name, first=number(own[0], language), last=number(own[-1], language),
                    count=len(own),
                )
            )  # fmt: skip
        for name, end in apart({name: y(own[-1]) for name, own in curves.items()}, most=top + tall).items():
            sheet.text(right + 10, end + 4, name, size=LABEL_SIZE, weight=600)
        if marks:
            first = next(iter(curves.values()))
            for at in marks:
                sheet.dot(x(at), y(first[at]), radius=5)
            sheet.dot(left + 5, top - 18, radius=5)
            sheet.text(left + 16, top - 14, note, size=SMALL_SIZE)
            told.append(said("marks-alt", note=note, steps=", ".join(map(str, marks))))
        header = [said("losses-step"), *curves]
        lines = [
            [at, *(number(own[at], language, digits=5) if at < len(own) else "" for own in curves.values())]
            for at in range(last + 1)
        ]
        figure = sheet.svg(alt=" ".join([f"{title}.", *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def _significant(value: float, decimals: int) -> int:
    """How many significant digits show so many decimals."""
    return max(1, decimals + (math.floor(math.log10(abs(value))) + 1 if value else 1))


EXACT = -17
"""Where a difference of nothing is drawn, as a power of ten: below what fp64 can show of a number near 1."""


def differences(runs: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """How far each run's losses lie from those of one process, step by step, in powers of ten; the name at its end."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        tall, left, right = 230.0, MARGIN + 52, WIDTH - 200
        sheet, top = titled_sheet(title, gap=16, height=tall + 44, language=language)
        powers = {name: [math.log10(each) if each > 10**EXACT else EXACT for each in own] for name, own in runs.items()}
        low = math.floor(min(map(min, powers.values())))
        high = math.ceil(max(map(max, powers.values())))
        steps = max(map(len, runs.values()))

        x = scale(0, max(steps - 1, 1), start=left, end=right)
        y = scale(low, max(high, low + 1), start=top + tall, end=top)
        for tick in range(low, high + 1, max(1, (high - low) // 8)):
            label = "0" if tick == EXACT else f"1e{tick}"
            gridline(sheet, left, right, y(tick), label)
        for step in range(0, steps, max(1, steps // 6)):
            sheet.text(x(step), top + tall + 18, str(step), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + tall + 36, said("losses-steps"), at="middle", size=SMALL_SIZE, quiet=True)
        dashes = ("", "5 3", "2 3", "9 3 2 3")
        for index, (_, own) in enumerate(powers.items()):
            for step, (before, after) in enumerate(pairwise(own)):
                sheet.line(x(step), y(before), x(step + 1), y(after), width=2, dash=dashes[index % len(dashes)])
        ends = apart({name: y(own[-1]) for name, own in powers.items()}, most=top + tall)
        for name, own in powers.items():
            sheet.text(x(len(own) - 1) + 10, ends[name] + 4, name, at="left", size=LABEL_SIZE, weight=600)
        told = [
            said("differences-alt", name=name, first=f"{own[0]:.0e}", last=f"{own[-1]:.0e}", count=len(own))
            for name, own in runs.items()
        ]
        lines = [
            [step, *(f"{own[step]:.1e}" if step < len(own) else "" for own in runs.values())] for step in range(steps)
        ]
        table = Table(lines, header=[said("losses-step"), *runs], language=language)
        return sheet.svg(alt=" ".join([f"{title}.", *told])).beside(table.html)

    return draw
