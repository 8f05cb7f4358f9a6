"""Figures of the stages of ZeRO: when each communicates, and how whole gradients pile up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
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
    gridline,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import scale, ticks
from lessons.figures.base import Figure, Said
from translations import Language

_ROW, _TALL, _STRENGTH = 54.0, 22.0, 0.07


def collectives_in_a_step(*, micro_batches: int, stages: Sequence[int] = (1, 2, 3)) -> Figure:
    """A step of several micro-batches from left to right, a line for each stage: where it gathers, where it reduces."""
    moved = {1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}

    def sent(stage: int, column: int) -> list[str]:
        """The collectives of one column: of each micro-batch forward, then backward; at the end the update."""
        backward, last = column % 2 == 1, column == 2 * micro_batches
        if last:
            return {1: ["reduce-scatter", "all-gather"], 2: ["all-gather"]}.get(stage, [])
        if stage == 1:
            return []
        if stage == 2:
            return ["reduce-scatter"] if backward else []
        return ["all-gather", "reduce-scatter"] if backward else ["all-gather"]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("step-title", count=micro_batches)
        entries: list[Entry] = [
            swatch_entry(said("step-gather"), "communication"),
            swatch_entry(said("step-reduce"), "gradients"),
        ]
        sheet, top = titled_sheet(title, entries, gap=56, height=_ROW * len(stages), language=language)
        left, right, columns = MARGIN + 78, WIDTH - MARGIN - 54, 2 * micro_batches + 1
        wide = (right - left) / columns
        for column in range(columns):
            middle = left + (column + 0.5) * wide
            name = words.phase("optimizer" if column == columns - 1 else "backward" if column % 2 else "forward")
            sheet.text(middle, top - 10, name, at="middle", size=SMALL_SIZE)
        for number in range(micro_batches):
            told = said("step-micro-batch", number=number)
            sheet.text(left + (2 * number + 1) * wide, top - 30, told, at="middle", size=LABEL_SIZE, weight=600)
        for place, stage in enumerate(stages):
            y = top + place * _ROW
            sheet.text(left - 14, y + 26, f"ZeRO-{stage}", at="right", size=LABEL_SIZE, weight=600, ltr=True)
            for column in range(columns):
                x, found = left + column * wide, sent(stage, column)
                sheet.shade(x + 2, y, wide - 4, _ROW - 14, strength=_STRENGTH)
                for line, name in enumerate(found):
                    tall = (_ROW - 22) / len(found)
                    kind = "communication" if name == "all-gather" else "gradients"
                    sheet.swatch(kind, x + 6, y + 4 + line * tall, wide - 12, tall - 2)
            sheet.text(right + 14, y + 26, f"{moved[stage]} P", at="left", size=LABEL_SIZE, weight=600, ltr=True)
        lines = [
            said("step-alt-row", stage=stage, gathers=gathers, reduces=reduces, moved=moved[stage])
            for stage, gathers, reduces in (
                (stage, *(_count(sent, stage, columns, name) for name in ("all-gather", "reduce-scatter")))
                for stage in stages
            )
        ]
        header = [said("step-stage"), "all-gather", "reduce-scatter", said("step-moved")]
        rows = [
            [f"ZeRO-{stage}", *(_count(sent, stage, columns, name) for name in header[1:3]), f"{moved[stage]} P"]
            for stage in stages
        ]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *lines]))
        return figure.beside(Table(rows, header=header, language=language).html)

    return draw


def _count(sent: Any, stage: int, columns: int, name: str) -> int:
    return sum(name in sent(stage, column) for column in range(columns))


def gradients_through_backward(sizes: Sequence[int], *, ranks: int) -> Figure:
    """Bytes of gradients as backward goes through pieces of these sizes (bytes of their gradients), from the last to
    the first: reduced at its end, and piece by piece.
    """
    order = list(reversed(sizes))
    late = [0, *accumulate(order)]
    shards = [size / ranks for size in late]
    early = [kept + size for kept, size in zip(shards, order, strict=False)]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("pile-title", late=words.bytes(late[-1]), early=words.bytes(max(early)))
        entries: list[Entry] = [
            (said("pile-late"), lambda sheet, x, y: sheet.outline(x, y - 10, 18, 12)),
            entry("category", "communication", words),
            swatch_entry(said("pile-shards"), "gradients"),
        ]
        sheet, top = titled_sheet(title, entries, gap=12, height=246, language=language)
        left, right, bottom = MARGIN + 62, WIDTH - MARGIN - 6, top + 200
        up, label = scale(0, late[-1], start=bottom, end=top), words.axis(late[-1])
        for value in ticks(late[-1]):
            gridline(sheet, left, right, up(value), label(value))
        wide = (right - left) / len(order)
        for index, size in enumerate(order):
            x, piece = left + index * wide, len(order) - 1 - index
            base = up(shards[index])
            sheet.swatch("gradients", x + 3, base, wide - 6, bottom - base)
            sheet.swatch("communication", x + 3, up(shards[index] + size), wide - 6, base - up(shards[index] + size))
            sheet.outline(x + 3, up(late[index + 1]), wide - 6, bottom - up(late[index + 1]), opacity=0.6)
            told = said("piece", piece=piece)
            sheet.text(x + wide / 2, bottom + 18, told, at="middle", size=SMALL_SIZE)
        sheet.text((left + right) / 2, bottom + 38, said("pile-moment"), at="middle", size=SMALL_SIZE, quiet=True)
        header = [said("pile-at"), said("pile-late"), said("pile-early")]
        rows = [
            [said("piece", piece=len(order) - 1 - index), words.bytes(late[index + 1]), words.bytes(early[index])]
            for index in range(len(order))
        ]
        alt = said(
            "pile-alt",
            pieces=len(order),
            ranks=ranks,
            late=words.bytes(late[-1]),
            early=words.bytes(max(early)),
            kept=words.bytes(shards[-1]),
        )
        return sheet.svg(alt=alt).beside(Table(rows, header=header, language=language).html)

    return draw
