"""Figures of expert parallelism: the way of a token to its expert and back, and how many tokens want each expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.series import round_step
from labs.telemetry.drawing.svg import Sheet
from lessons.figures.base import Figure, Said
from translations import Language

LOOKS = ("activations", "gradients", "optimizer_states", "temporary")
"""The look of the rank that a token comes from."""
Wanted = Sequence[Sequence[int]]
"""Of each rank, the expert that each of its tokens wants."""


def seats(wanted: Wanted, *, experts: int, places: int) -> list[list[list[int]]]:
    """Of each rank and expert, the tokens that found a place there, in their order."""
    return [[[t for t, e in enumerate(own) if e == expert][:places] for expert in range(experts)] for own in wanted]


def to_the_experts(wanted: Wanted, *, experts: int, places: int) -> Figure:
    """Tokens in the places that each rank keeps for every expert, and the same after the all-to-all, with the experts:
    each has the places of all ranks side by side.
    """
    ranks, found = len(wanted), seats(wanted, experts=experts, places=places)
    here = experts // ranks

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("experts-title")
        cell, row, gap, between = 34.0, 30.0, 26.0, 30.0
        entries = [
            (said("experts-token", rank=rank), entry("category", LOOKS[rank], words)[1]) for rank in range(ranks)
        ]
        entries.append((said("experts-free"), lambda sheet, x, y: sheet.outline(x, y - 10, 18, 12, opacity=0.6)))
        tall = ranks * (row * experts + gap + between)
        sheet, top = titled_sheet(title, entries, gap=26, height=tall - between + 4, language=language)
        label = 86.0
        left = MARGIN + label
        right = WIDTH - MARGIN - label - cell * places * ranks
        for rank, own in enumerate(wanted):
            y = top + rank * (row * experts + gap + between)
            lost = [t for t in range(len(own)) if not any(t in each for each in found[rank])]
            told = said("experts-before", rank=rank)
            sheet.text(left + cell * places / 2, y, told, at="middle", size=LABEL_SIZE, weight=600)
            for expert in range(experts):
                at = y + gap - 12 + expert * row
                sheet.text(left - 10, at + row / 2, said("experts-expert", expert=expert), at="right", size=SMALL_SIZE)
                _places(sheet, left, at, cell, row, rank, found[rank][expert], places)
                goes = expert // here
                end = top + goes * (row * experts + gap + between) + gap - 12 + (expert % here) * row * 1.6 + row / 2
                sheet.arrow([(left + cell * places + 8, at + row / 2 - 3), (right - 10, end)], width=1.1,
                            opacity=0.45 if goes == rank else 0.9)  # fmt: skip
            if lost:
                told = said("experts-dropped", tokens=words.listed([_name(rank, t) for t in lost]))
                sheet.text(left + cell * places / 2, y + gap + experts * row + 4, told, at="middle", size=SMALL_SIZE)
        for rank in range(ranks):
            y = top + rank * (row * experts + gap + between)
            wide = cell * places * ranks
            sheet.text(right + wide / 2, y, said("experts-after", rank=rank), at="middle", size=LABEL_SIZE, weight=600)
            for number in range(here):
                expert = rank * here + number
                at = y + gap - 12 + number * row * 1.6
                name = said("experts-expert", expert=expert)
                sheet.text(right + wide + 10, at + row / 2, name, size=SMALL_SIZE)
                for source in range(ranks):
                    x = right + source * cell * places
                    _places(sheet, x, at, cell, row, source, found[source][expert], places)
        lines = [
            (rank, _name(rank, t), expert, said("experts-yes") if t in found[rank][expert] else said("experts-no"))
            for rank, own in enumerate(wanted)
            for t, expert in enumerate(own)
        ]
        header = [
            words("table-rank"),
            said("experts-token-column"),
            said("experts-wants-column"),
            said("experts-place-column"),
        ]
        alt = said("experts-alt", ranks=ranks, experts=experts, here=here, places=places)
        return sheet.svg(alt=" ".join([words.sentence(title), alt])).beside(
            Table(lines, header=header, language=language).html
        )

    return draw


def _name(rank: int, token: int) -> str:
    """a0, a1 of rank 0, b0 of rank 1."""
    return f"{'abcdefgh'[rank]}{token}"


def _places(
    sheet: Sheet, left: float, y: float, cell: float, row: float, rank: int, taken: Sequence[int], places: int
) -> None:
    for place in range(places):
        x = left + place * cell
        sheet.outline(x + 1, y, cell - 2, row - 8, opacity=0.6)
        if place < len(taken):
            sheet.swatch(LOOKS[rank], x + 1, y, cell - 2, row - 8)
            sheet.bar(x + cell / 2 - 10, y + 3, 20, row - 14, colour="#fff")
            sheet.text(x + cell / 2, y + row / 2, _name(rank, taken[place]), at="middle", size=SMALL_SIZE, weight=600,
                       ltr=True, ink=INK)  # fmt: skip


def tokens_of_experts(wanted: Mapping[str, Sequence[int]], *, places: int, title: str) -> Figure:
    """How many tokens wanted each expert, a panel for each run, and the line of the places that an expert has for all
    ranks together: what stands above it found none for sure.
    """

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        entries = [
            (said("experts-wanted"), entry("category", "activations", words)[1]),
            (
                said("experts-line", places=places),
                lambda sheet, x, y: sheet.line(x, y - 4, x + 18, y - 4, width=1.6, dash="5 3"),
            ),
        ]
        tall, gap = 150.0, 46.0
        sheet, top = titled_sheet(title, entries, gap=40, height=tall + 44, language=language)
        left = MARGIN + 40
        panel = (WIDTH - MARGIN - left - gap * (len(wanted) - 1)) / len(wanted)
        highest = max(max(found) for found in wanted.values())
        step = round_step(highest / 4)

        def y(count: float) -> float:
            return top + tall - tall * count / highest

        for number, (name, found) in enumerate(wanted.items()):
            x, wide = left + number * (panel + gap), panel / len(found)
            sheet.text(x + panel / 2, top - 20, name, at="middle", size=LABEL_SIZE, weight=600)
            tick = 0.0
            while tick <= highest:
                sheet.line(x, y(tick), x + panel, y(tick), opacity=0.18)
                if number == 0:
                    sheet.text(x - 8, y(tick) + 4, f"{tick:g}", at="right", size=SMALL_SIZE, quiet=True, ltr=True)
                tick += step
            for expert, count in enumerate(found):
                if count:
                    sheet.swatch("activations", x + expert * wide + 3, y(count), wide - 6, top + tall - y(count))
                sheet.text(
                    x + (expert + 0.5) * wide, top + tall + 16, str(expert), at="middle", size=SMALL_SIZE, ltr=True
                )
            sheet.line(x, y(places), x + panel, y(places), width=1.6, dash="5 3")
            sheet.text(x + panel / 2, top + tall + 34, said("experts-axis"), at="middle", size=SMALL_SIZE, quiet=True)
        told = [
            said("experts-wanted-alt", name=name, counts=words.listed(list(map(str, found))))
            for name, found in wanted.items()
        ]
        header = [said("experts-axis"), *wanted]
        lines = [(expert, *counts) for expert, counts in enumerate(zip(*wanted.values(), strict=True))]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *told]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw
