"""Figures of what fits into one budget of memory, and of what bf16 loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.rewards import lines_over_steps
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import Sheet, text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number, percent

KEPT = ("parameters", "gradients", "optimizer_states", "communication")
_ROW, _THICK, _STRENGTH = 46.0, 18.0, 0.16


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to train: bytes kept between steps by their look, and the largest micro-batch with the peak of its step.
    `note` says what was unlike what was asked for.
    """

    kept: Mapping[str, int]
    peak: int
    batch: int
    note: str = ""


def _peak(each: Mapping[str, Any]) -> int:
    """Of the step with the largest micro-batch; 0 where not even one sequence fits."""
    return int(each["peaks"].get(str(each["micro_batch"]), 0))


def _budget(data: Mapping[str, Any]) -> int:
    return round(float(data["layout"]["budget"]) * 10**6)


def _within(ways: Mapping[str, Way], *, budget: int, title: str, kept: Sequence[Entry], language: Language) -> Sheet:
    """A bar for each way by its name, up to the budget: what is kept, what the largest micro-batch takes beside it, and
    how many sequences that is.
    """
    said = Said(language)
    entries = [
        *kept,
        (said("fitting-step"), lambda sheet, x, y: sheet.shade(x, y - 10, 18, 12, strength=_STRENGTH)),
        line_entry(said("fitting-budget"), dash=FORMULA_DASH, width=1),
    ]
    sheet, top = titled_sheet(title, entries, gap=24, height=_ROW * len(ways) + 8, language=language)
    counts = {name: said("fitting-sequences", count=way.batch) for name, way in ways.items()}
    left = MARGIN
    right = WIDTH - MARGIN - max(text_width(each, size=LABEL_SIZE) for each in counts.values()) - 14
    held = scale(0, budget, start=left, end=right)
    for index, (name, way) in enumerate(ways.items()):
        y = top + _ROW * index
        sheet.text(left, y, name, size=LABEL_SIZE, weight=600, ltr=True)
        if way.note:
            sheet.text(right, y, way.note, at="right", size=SMALL_SIZE)
        x, y = left, y + 7
        for look, size in way.kept.items():
            width = held(size) - left
            sheet.swatch(look, x, y, width, _THICK)
            x += width
        sheet.shade(x, y, max(held(way.peak) - x, 0), _THICK, strength=_STRENGTH)
        sheet.line(right, y - 3, right, y + _THICK + 3, width=1.8, dash=FORMULA_DASH)
        sheet.text(right + 10, y + _THICK / 2 + 4, counts[name], size=LABEL_SIZE, weight=600)
    return sheet


def largest_batches(data: Mapping[str, Any]) -> Figure:
    """The JSON of `accelerated`: for each way what a rank keeps between steps, what a step with the largest micro-batch
    takes beside it, and the budget.
    """

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        ways = {
            name: Way(
                kept={category: each["kept"][category] for category in KEPT}, peak=_peak(each),
                batch=each["micro_batch"], note="" if each["ran"] == "as-asked" else said(f"fitting-{each['ran']}"),
            )
            for name, each in data["ways"].items()
        }  # fmt: skip
        values = {"ddp": ways["ddp"].batch, "zero": ways["trainer-zero-2"].batch, "ours": ways["zero-2"].batch}
        title = said("fitting-title", **values)
        kept = [entry("category", name, words) for name in KEPT]
        sheet = _within(ways, budget=_budget(data), title=title, kept=kept, language=language)
        header = [said("fitting-way"), said("fitting-wrapped"), *map(words.category, KEPT)]
        header += [said("fitting-most"), said("fitting-batch")]
        rows = [
            [name, data["ways"][name]["wrapped"], *map(words.bytes, (*way.kept.values(), way.peak)), str(way.batch)]
            for name, way in ways.items()
        ]
        sentences = [said("fitting-alt", way=row[0], wrapped=row[1], count=row[-1]) for row in rows]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw


def batches_within(data: Mapping[str, Any]) -> Figure:
    """The JSON of `largest-batch`: for each strategy the model states, what a step with the largest batch that fits
    takes beside them, and the budget.
    """
    called = {"ddp": "DDP", "zero-1": "ZeRO-1", "zero-2": "ZeRO-2", "zero-3": "ZeRO-3", "fsdp2": "FSDP2"}
    ways = {
        called[name]: Way(kept={"optimizer_states": each["states"]}, peak=_peak(each), batch=each["micro_batch"])
        for name, each in data["found"].items()
    }

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        budget, most = _budget(data), max(ways, key=lambda name: ways[name].batch)
        values = {"ddp": ways["DDP"].batch, "most": ways[most].batch, "name": most}
        title = said("within-title", budget=words.bytes(budget), **values)
        kept = [swatch_entry(said("within-states"), "optimizer_states")]
        sheet = _within(ways, budget=budget, title=title, kept=kept, language=language)
        header = [said(name) for name in ("within-strategy", "within-states", "fitting-step", "within-batch")]
        rows = [[name, *map(words.bytes, (*way.kept.values(), way.peak)), str(way.batch)] for name, way in ways.items()]
        lines = [said("within-alt", name=row[0], states=row[1], batch=row[-1]) for row in rows]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *lines]))
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
