"""Figures of the labs on Accelerate and on the precision gap: what fits into one budget, and what bf16 loses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Entry,
    Words,
    entry,
    line_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.rewards import lines_over_steps
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import rectangle, text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

KEPT = ("parameters", "gradients", "optimizer_states", "communication")
_ROW, _THICK, _STRENGTH = 46.0, 18.0, 0.16


def largest_batches(data: Mapping[str, Any]) -> Figure:
    """The JSON of `accelerated`: for each way what a rank keeps between steps, what a step with the largest micro-batch
    takes beside it, and the budget.
    """
    ways, budget = data["ways"], round(data["layout"]["budget"] * 10**6)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        batches = {name: each["micro_batch"] for name, each in ways.items()}
        title = said("fitting-title", ddp=batches["ddp"], zero=batches["trainer-zero-2"], ours=batches["zero-2"])
        entries: list[Entry] = [entry("category", name, words) for name in KEPT]
        entries.append((said("fitting-step"), lambda sheet, x, y: sheet.shade(x, y - 10, 18, 12, strength=_STRENGTH)))
        entries.append(line_entry(said("fitting-budget"), dash=FORMULA_DASH, width=1))
        sheet, top = titled_sheet(title, entries, gap=24, height=_ROW * len(ways) + 8, language=language)
        counts = {name: said("fitting-sequences", count=count) for name, count in batches.items()}
        left = MARGIN
        right = WIDTH - MARGIN - max(text_width(each, size=LABEL_SIZE) for each in counts.values()) - 14
        held = scale(0, budget, start=left, end=right)
        for index, (name, each) in enumerate(ways.items()):
            y = top + _ROW * index
            sheet.text(left, y, name, size=LABEL_SIZE, weight=600, ltr=True)
            if each["ran"] != "as-asked":
                sheet.text(right, y, said(f"fitting-{each['ran']}"), at="right", size=SMALL_SIZE)
            x, y = left, y + 7
            for category in KEPT:
                width = held(each["kept"][category]) - left
                sheet.category(category, path=rectangle(x, y, width, _THICK))
                x += width
            most = held(each["peaks"].get(str(each["micro_batch"]), 0))
            sheet.shade(x, y, max(most - x, 0), _THICK, strength=_STRENGTH)
            sheet.line(right, y - 3, right, y + _THICK + 3, width=1.8, dash=FORMULA_DASH)
            sheet.text(right + 10, y + _THICK / 2 + 4, counts[name], size=LABEL_SIZE, weight=600)
        header = [said("fitting-way"), said("fitting-wrapped"), *map(words.category, KEPT)]
        header += [said("fitting-most"), said("fitting-batch")]
        rows = [
            [
                name,
                each["wrapped"],
                *(words.bytes(each["kept"][category]) for category in KEPT),
                words.bytes(each["peaks"].get(str(each["micro_batch"]), 0)),
                str(each["micro_batch"]),
            ]
            for name, each in ways.items()
        ]
        sentences = [said("fitting-alt", way=row[0], wrapped=row[1], count=row[-1]) for row in rows]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw


def behind_fp32(data: Mapping[str, Any]) -> Figure:
    """The JSON of `precision-gap`: by how much the loss of each way lies above that of fp32, against steps."""
    alone = data["reference_losses"]

    def draw(language: Language) -> Svg:
        said = Said(language)
        apart = {
            said(f"gap-{name}"): [loss - right for loss, right in zip(each["losses"], alone, strict=True)]
            for name, each in data["ways"].items()
        }
        of = {(row["name"], row["of"]): row["value"] for row in data["results"]}
        gap = of["gap-loss", "fsdp2-bf16"] - of["gap-loss", "fp32"]
        lost = percent(of["gap-lost", "fsdp2-bf16"], language, 2)
        title = said("gap-title", gap=number(gap, language, digits=2), lost=lost)
        highest = max(max(values) for values in apart.values())
        return lines_over_steps(apart, language=language, message=title, highest=highest)

    return draw
