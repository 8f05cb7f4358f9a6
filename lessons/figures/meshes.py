"""Figures of a device mesh: what each rank has of a model and a batch, and where its groups lie on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import ceil

from labs.planner import pipeline
from labs.strategies.layout import Layout
from labs.strategies.schedules import layers_of
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Entry,
    Words,
    gridline,
    line_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import log_scale, scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import percent

Degrees = Mapping[str, int]
"""Ranks of each axis, from the outermost, which counts slowest, to the innermost."""
_LANE = 16.0


def on_ranks(layout: Layout, *, layers: int, title: str) -> Figure:
    """Which rank has which part of which layer, in each copy of the model; the copies have other parts of the batch."""
    stages = layers_of(layers=layers, stages=layout.pp)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        row, between = 34.0, 14.0
        names = [said("layer", layer=layer) for layer in range(layers)]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names) + 12
        gap = 26.0
        panel = (WIDTH - MARGIN - left - gap * (layout.dp - 1)) / layout.dp
        wide = panel / layout.tp
        sheet, top = titled_sheet(title, gap=46, height=row * layers + between * (layout.pp - 1) + 6, language=language)
        for data in range(layout.dp):
            x = left + data * (panel + gap)
            told = said("mesh-copy", data=data)
            sheet.text(x + panel / 2, top - 26, told, at="middle", size=LABEL_SIZE, weight=600)
            for tensor in range(layout.tp):
                told = said("mesh-part", tensor=tensor)
                sheet.text(x + (tensor + 0.5) * wide, top - 8, told, at="middle", size=SMALL_SIZE, quiet=True)
            y, layer = top, 0
            for stage, count in enumerate(stages):
                for _ in range(count):
                    if data == 0:
                        sheet.text(left - 12, y + row / 2 + 2, names[layer], at="right", size=LABEL_SIZE)
                    for tensor in range(layout.tp):
                        rank = layout.rank_at(pipeline=stage, data=data, tensor=tensor)
                        box = (x + tensor * wide + 2, y, wide - 4, row - 6)
                        sheet.shade(*box, strength=0.06 + 0.08 * ((stage + tensor) % 2))
                        sheet.outline(*box, radius=3)
                        middle = x + (tensor + 0.5) * wide
                        sheet.text(middle, y + row / 2 + 1, words("rank", rank=rank), at="middle", size=SMALL_SIZE)
                    y, layer = y + row, layer + 1
                y += between
        lines = [_line(rank, layout.coordinates(rank)) for rank in range(layout.ranks())]
        alt = " ".join([words.sentence(title), said("mesh-alt", copies=layout.dp, stages=layout.pp, parts=layout.tp)])
        return sheet.svg(alt=alt).beside(
            Table(lines, header=_header(words, ("pipeline", "data", "tensor")), language=language).html
        )

    return draw


def on_machines(degrees: Degrees, *, node: int, title: str) -> Figure:
    """The ranks in their nodes, and under them the groups of each axis: solid within a node, dashed between nodes."""
    order = tuple(degrees)
    ranks = list(product(*(range(degree) for degree in degrees.values())))

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        entries: list[Entry] = [
            line_entry(said("mesh-inside")),
            line_entry(said("mesh-between"), dash="4 3"),
        ]
        lanes = {axis: _lanes(groups_of(ranks, place)) for place, axis in enumerate(order)}
        named = {axis: words(f"axis-{axis}") for axis in order}
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in named.values()) + 16
        below = sum(_LANE * (max(lane for lane, _ in found) + 1) + 12 for found in lanes.values())
        sheet, top = titled_sheet(title, entries, gap=30, height=74 + below, language=language)
        nodes, gap = -(-len(ranks) // node), 22.0
        each = (WIDTH - MARGIN - left - gap * (nodes - 1)) / len(ranks)

        def x(rank: int) -> float:
            return left + (rank + 0.5) * each + gap * (rank // node)

        for number in range(nodes):
            first, last = number * node, min(len(ranks), (number + 1) * node) - 1
            start, wide = x(first) - each / 2, (last - first + 1) * each
            sheet.text(
                start + wide / 2, top - 10, said("mesh-node", node=number), at="middle", size=LABEL_SIZE, weight=600
            )
            sheet.outline(start, top, wide, 58, radius=6, opacity=0.6)
        for rank, places in enumerate(ranks):
            box = (x(rank) - each / 2 + 4, top + 6, each - 8, 46)
            sheet.shade(*box, strength=0.08)
            sheet.text(x(rank), top + 24, str(rank), at="middle", size=LABEL_SIZE, weight=600, ltr=True)
            digits = " ".join(map(str, places))
            sheet.text(x(rank), top + 42, digits, at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        y = top + 78
        for axis in order[::-1]:
            count = max(lane for lane, _ in lanes[axis]) + 1
            sheet.text(left - 14, y + _LANE * (count - 1) / 2 + 4, named[axis], at="right", size=LABEL_SIZE, weight=600)
            for lane, group in lanes[axis]:
                crosses = group[0] // node != group[-1] // node
                height = y + lane * _LANE
                sheet.line(
                    x(group[0]), height, x(group[-1]), height, width=2, opacity=0.8, dash="4 3" if crosses else ""
                )
                for rank in group:
                    sheet.dot(x(rank), height, radius=4)
            y += _LANE * count + 12
        told = [
            said(
                "mesh-groups",
                axis=named[axis],
                groups="; ".join(", ".join(map(str, group)) for _, group in lanes[axis]),
            )
            for axis in order[::-1]
        ]
        lines = [_line(rank, dict(zip(order, places, strict=True))) for rank, places in enumerate(ranks)]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(lines, header=_header(words, order), language=language).html)

    return draw


def bubble_by_copies(*, batch: int, stages: int, copies: Sequence[int], at: int, title: str) -> Figure:
    """The bubble against the copies of a model, under 1F1B: on the same GPUs, where more copies leave each fewer of
    `stages`, and where GPUs are added to the layout with `at` copies. `batch` is in micro-batches; `copies` double.
    """

    def bubbles(kept: int | None) -> list[tuple[int, float]]:
        return [
            (each, pipeline.bubble(schedule="1f1b", stages=kept or stages // each, micro_batches=batch // each))
            for each in copies
        ]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        lines = {
            said("mesh-same-gpus"): bubbles(None),
            said("mesh-more-gpus", stages=stages // at): bubbles(stages // at),
        }
        tall, step = 190.0, 0.05
        side = max(text_width(name, size=LABEL_SIZE) for name in lines) + 16
        left, right = MARGIN + 44, WIDTH - MARGIN - side
        sheet, top = titled_sheet(title, gap=18, height=tall + 46, language=language)
        high = step * ceil(max(share for found in lines.values() for _, share in found) / step)

        x = log_scale(copies[0], copies[-1], start=left, end=right)
        y = scale(0, high, start=top + tall, end=top)
        for tick in range(round(high / step) + 1):
            label = percent(tick * step, language, 1 if tick * step < 0.1 else 2)
            gridline(sheet, left, right, y(tick * step), label)
        for count in copies:
            sheet.text(x(count), top + tall + 18, str(count), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
        sheet.text((left + right) / 2, top + tall + 38, said("mesh-copies"), at="middle", size=SMALL_SIZE, quiet=True)
        for place, (name, found) in enumerate(lines.items()):
            for (a, before), (b, after) in pairwise(found):
                sheet.line(x(a), y(before), x(b), y(after), width=2, dash="5 3" if place else "")
            for count, share in found:
                sheet.dot(x(count), y(share))
            sheet.text(right + 12, y(found[-1][1]) + 4, name, at="left", size=LABEL_SIZE, weight=600)
        told = [
            said("mesh-bubble-alt", name=name, first=words.percent(found[0][1]), last=words.percent(found[-1][1]))
            for name, found in lines.items()
        ]
        rows = [[count, *(words.percent(dict(found)[count]) for found in lines.values())] for count in copies]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(rows, header=[said("mesh-copies"), *lines], language=language).html)

    return draw


def groups_of(ranks: Sequence[tuple[int, ...]], place: int) -> list[list[int]]:
    """The groups along the axis at this place: ranks whose other coordinates are equal."""
    found: dict[tuple[int, ...], list[int]] = {}
    for rank, places in enumerate(ranks):
        found.setdefault((*places[:place], *places[place + 1 :]), []).append(rank)
    return list(found.values())


def _lanes(groups: Sequence[list[int]]) -> list[tuple[int, list[int]]]:
    """Each group with the first lane that is free from its first rank to its last."""
    ends: list[int] = []
    found = []
    for group in groups:
        lane = next((number for number, end in enumerate(ends) if end < group[0]), len(ends))
        ends[lane : lane + 1] = [group[-1]]
        found.append((lane, group))
    return found


def _line(rank: int, places: Mapping[str, int]) -> list[object]:
    return [rank, *(place for axis, place in places.items() if axis != "context")]


def _header(words: Words, axes: Sequence[str]) -> list[str]:
    return [Said(words.language)("mesh-rank-column"), *(words(f"axis-{axis}") for axis in axes)]
