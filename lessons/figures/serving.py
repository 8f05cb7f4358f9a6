"""Figures of generation: who has which slot of a server, and how fast BLOOM was beside what its memory allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from labs.cases.scheduling import Account, Iteration, account
from labs.planner.inference import Published, bloom_table
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
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.series import log_scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

LOOKS = {"prompt": "starting", "token": "training", "held": "lost"}
"""How the cells of a slot look."""
ROW, GAP, TALL = 20.0, 40.0, 270.0
LINES = {("ds_inference", "fp16"): "", ("accelerate", "bf16"): "6 3"}
"""The rows of the published table that are drawn, and the dashes of their lines."""
BOUND = "1.5 3"


def slots(schedules: Mapping[str, Sequence[Iteration]]) -> Figure:
    """A row for each slot, a column for each iteration, for each way of batching by its name, one under the other."""
    told = {name: account(schedule) for name, schedule in schedules.items()}

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        named = {name: said(f"slots-{name}") for name in schedules}
        shares = {name: percent(each.share_used, language, 2) for name, each in told.items()}
        title = said("slots-title", **shares)
        entries = [
            (said(f"slots-{kind}"), lambda sheet, x, y, look=look: sheet.swatch(look, x, y - 9, 18, 12))
            for kind, look in LOOKS.items()
        ]
        rows = sum(len(schedule[0].slots) for schedule in schedules.values())
        sheet, top = titled_sheet(
            title, entries, gap=0, height=rows * ROW + len(schedules) * GAP + 22, language=language
        )
        columns = max(schedule[-1].time + 1 for schedule in schedules.values())
        left, y = MARGIN + 4, top
        wide = (WIDTH - MARGIN - left) / columns
        for name, schedule in schedules.items():
            y += GAP
            sheet.opening(left, WIDTH - MARGIN, y - 10, named[name], size=LABEL_SIZE, weight=600)
            count = len(schedule[0].slots)
            for slot in range(count):
                sheet.shade(left, y + slot * ROW, wide * columns, ROW - 3, strength=0.06)
            for each in schedule:
                for slot, request, written in each.pairs():
                    kind = "held" if written >= request.new else "token" if written else "prompt"
                    x, up = left + each.time * wide, y + slot * ROW
                    sheet.swatch(LOOKS[kind], x, up, wide - 0.8, ROW - 3)
                    label = str(request.number + 1)
                    if kind == "prompt" and text_width(label, size=SMALL_SIZE) < wide * min(request.new, 3):
                        middle = x + max(wide, text_width(label, size=SMALL_SIZE)) / 2
                        sheet.text(middle, up + 13, label, at="middle", size=SMALL_SIZE, weight=600, ltr=True, ink=INK)
            y += count * ROW
        sheet.text((left + WIDTH - MARGIN) / 2, y + 18, said("slots-time"), at="middle", size=SMALL_SIZE, quiet=True)
        header = ["", *(said(f"slots-{column}-column") for column in COLUMNS)]
        lines = [(named[name], *(_value(each, column, language) for column in COLUMNS)) for name, each in told.items()]
        sentences = [said("slots-row", name=line[0], **dict(zip(COLUMNS, line[1:], strict=True))) for line in lines]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def reading_in_turn(*, gpus: int) -> Figure:
    """Which GPU reads weights at which moment of one token: all a part of every layer, or each its layers in turn."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title, row = said("turn-title", count=gpus), 26.0
        entries = [swatch_entry(said("turn-reads"), "parameters")]
        height = 2 * (gpus * row + GAP) + 24
        sheet, top = titled_sheet(title, entries, gap=0, height=height, language=language)
        names = MARGIN + 66
        unit = (WIDTH - names - MARGIN) / gpus
        y = top
        for way in ("tensor", "layers"):
            y += GAP
            sheet.opening(MARGIN, WIDTH - MARGIN, y - 12, said(f"turn-{way}"), size=LABEL_SIZE, weight=600)
            for gpu in range(gpus):
                up = y + gpu * row
                sheet.text(names - 12, up + 14, f"GPU {gpu}", at="right", size=SMALL_SIZE, ltr=True)
                sheet.shade(names, up, unit * gpus, row - 7, strength=0.06)
                begin = gpu if way == "layers" else 0
                sheet.swatch("parameters", names + begin * unit, up, unit - 2, row - 7)
            y += gpus * row
        sheet.text((names + WIDTH - MARGIN) / 2, y + 14, said("turn-time"), at="middle", size=SMALL_SIZE, quiet=True)
        return sheet.svg(alt=said("turn-alt", count=gpus))

    return draw


COLUMNS = ("iterations", "used", "held", "empty", "latency", "worst")


def _value(told: Account, column: str, language: Language) -> str:
    values = {"latency": told.mean_latency, "worst": told.worst_latency}
    return number(values.get(column, getattr(told, column, 0)), language)


def token_times() -> Figure:
    """Milliseconds a token against the batch: the published measurements, and under each its bound."""
    cells = [cell for cell in bloom_table() if (cell.stack, cell.precision) in LINES and cell.gpus == 8]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        tensor = [cell for cell in cells if cell.stack == "ds_inference"]
        first, last = tensor[0], tensor[-1]
        title = said(
            "tokens-title",
            batch=last.sequences,
            slower=number(last.measured * last.sequences / first.measured, language, digits=2),
        )
        entries = [line_entry(_name(stack, said), dash=dash) for (stack, _), dash in LINES.items()]
        entries.append(line_entry(said("tokens-bound"), dash=BOUND, width=1))
        sheet, top = titled_sheet(title, entries, gap=44, height=TALL + 46, language=language)
        left, right, bottom = MARGIN + 60, WIDTH - MARGIN - 60, top + TALL
        most = max(cell.sequences for cell in cells)

        x = log_scale(1, most, start=left, end=right)
        y = log_scale(1e-4, 10**-0.4, start=bottom, end=top)
        for power in range(-1, 3):
            label = number(10**power, language) if power >= 0 else number(10.0**power, language, digits=1)
            gridline(sheet, left, right, y(10.0**power / 1000), label, opacity=0.13)
        for sequences in sorted({cell.sequences for cell in cells}):
            sheet.line(x(sequences), top, x(sequences), bottom, opacity=0.1)
            sheet.text(x(sequences), bottom + 17, str(sequences), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, bottom + 36, said("tokens-x"), at="middle", size=SMALL_SIZE, quiet=True)
        sheet.opening(left, right, top - 24, said("tokens-y"), size=SMALL_SIZE)
        for (stack, precision), dash in LINES.items():
            own = [cell for cell in cells if (cell.stack, cell.precision) == (stack, precision)]
            for before, after in pairwise(own):
                near, far = x(before.sequences), x(after.sequences)
                sheet.line(near, y(before.measured), far, y(after.measured), width=2, dash=dash)
                sheet.line(near, y(before.bound), far, y(after.bound), opacity=0.6, dash=BOUND)
            for cell in own:
                sheet.dot(x(cell.sequences), y(cell.measured), radius=4)
            end = own[-1]
            label = number(1000 * end.measured, language)
            sheet.text(x(end.sequences) + 9, y(end.measured) + 4, label, size=LABEL_SIZE, weight=600, ltr=True)
        lines = [_line(cell, said, language) for cell in cells]
        header = [said(f"tokens-{column}-column") for column in ("stack", "batch", "measured", "bound", "reached")]
        sentences = [
            said("tokens-row", stack=stack, batch=batch, measured=measured, bound=bound, reached=reached)
            for stack, batch, measured, bound, reached in lines
        ]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def _name(stack: str, said: Said) -> str:
    return said(f"tokens-{stack.replace('_', '-')}")


def _line(cell: Published, said: Said, language: Language) -> tuple[str, ...]:
    return (
        _name(cell.stack, said),
        str(cell.sequences),
        number(1000 * cell.measured, language),
        number(1000 * cell.bound, language),
        percent(cell.reached, language, 2),
    )
