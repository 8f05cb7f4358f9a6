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
from labs.telemetry.drawing.series import scale
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


def losses(runs: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Loss against optimizer steps, a line for each run, its name at its end."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        bottom, left, right = 44.0, MARGIN + 44, WIDTH - 130
        sheet, top = titled_sheet(title, gap=16, height=200 + bottom, language=language)
        values = [value for own in runs.values() for value in own]
        low, high = math.floor(min(values)), math.ceil(max(values))
        steps = max(len(own) for own in runs.values())

        x = scale(0, max(steps - 1, 1), start=left, end=right)
        y = scale(low, max(high, low + 1), start=top + 200, end=top)
        for tick in range(low, high + 1):
            gridline(sheet, left, right, y(tick), str(tick))
        for step in range(0, steps, max(1, steps // 6)):
            sheet.text(x(step), top + 218, str(step), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + 236, said("losses-steps"), at="middle", size=SMALL_SIZE, quiet=True)
        for index, (name, own) in enumerate(runs.items()):
            for step, (before, after) in enumerate(pairwise(own)):
                sheet.line(x(step), y(before), x(step + 1), y(after), width=2, dash="" if index == 0 else "5 3")
            sheet.text(x(len(own) - 1) + 10, y(own[-1]) + 4, name, at="left", size=LABEL_SIZE, weight=600)
        told = [
            said(
                "losses-alt", name=name, first=number(own[0], language), last=number(own[-1], language), count=len(own)
            )
            for name, own in runs.items()
        ]
        header = [said("losses-step"), *runs]
        lines = [
            [step, *(number(own[step], language, digits=4) if step < len(own) else "" for own in runs.values())]
            for step in range(steps)
        ]
        figure = sheet.svg(alt=" ".join([f"{title}.", *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


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
        dashes, beneath = ("", "5 3", "2 3", "9 3 2 3"), math.inf
        for index, (_, own) in enumerate(powers.items()):
            for step, (before, after) in enumerate(pairwise(own)):
                sheet.line(x(step), y(before), x(step + 1), y(after), width=2, dash=dashes[index % len(dashes)])
        for name, own in sorted(powers.items(), key=lambda each: each[1][-1]):
            beneath = min(y(own[-1]) + 4, beneath - 16)
            sheet.text(x(len(own) - 1) + 10, beneath, name, at="left", size=LABEL_SIZE, weight=600)
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
