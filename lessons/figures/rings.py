"""Figures of context parallelism: which rank weighs which part of the scores and when, and who waits meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from labs.planner.context import idle, waits, work
from labs.strategies.context import Places
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.svg import Sheet, text_width
from lessons.figures.base import Figure, Said
from translations import Language

ORDERS = ("naive", "zigzag")
SHADES = ("activations", "parameters", "gradients", "optimizer_states", "temporary", "communication")
"""The look of a rank, for as many as a figure of this kind has."""


def scores_by_rank(*, ranks: int, order: str, title: str) -> Figure:
    """The scores of a causal sequence in chunks: whose queries, whose keys, and in which turn they meet."""
    places = Places(length=2 * ranks, ranks=ranks, order=order)
    owner = {chunk: rank for rank in range(ranks) for chunk in places.chunks(rank)}
    turns = {
        (places.chunks(rank)[i], places.chunks(source)[j]): (rank - source) % ranks
        for rank in range(ranks)
        for source in range(ranks)
        for i, j, _ in places.blocks(rank, source)
    }

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        count = len(owner)
        side = 264.0 / count
        names = {rank: words("rank", rank=rank) for rank in range(ranks)}
        left = MARGIN + text_width(max(names.values(), key=len), size=LABEL_SIZE) + 40
        sheet, top = titled_sheet(title, gap=38, height=side * count + 10, language=language)
        sheet.text(left + side * count / 2, top - 22, said("ring-keys"), at="middle", size=LABEL_SIZE, weight=600)
        sheet.text(left - 10, top - 6, said("ring-queries"), at="right", size=LABEL_SIZE, weight=600)
        for chunk in range(count):
            x, y = left + chunk * side, top + chunk * side
            sheet.text(x + side / 2, top - 6, str(owner[chunk]), at="middle", size=SMALL_SIZE, ltr=True)
            sheet.text(left - 10, y + side / 2 + 4, names[owner[chunk]], at="right", size=LABEL_SIZE)
            for keys in range(count):
                at = left + keys * side
                if (chunk, keys) not in turns:
                    sheet.outline(at + 1, y + 1, side - 2, side - 2, opacity=0.2)
                    continue
                _cell(sheet, SHADES[owner[chunk]], at, y, side, diagonal=chunk == keys)
                _number(sheet, at + side / (3 if chunk == keys else 2), y + side / (1.5 if chunk == keys else 2),
                        str(turns[chunk, keys]))  # fmt: skip
        x = left + side * count + 34
        for row, name in enumerate(names.values()):
            y = top + 22 + row * 56
            pairs = work(sequence=2**20, ranks=ranks, order=order)[row]
            blocks = said("ring-blocks", blocks=_blocks(sum(pairs), ranks=ranks))
            sheet.swatch(SHADES[row], x, y - 13, 20, 16)
            sheet.text(x + 30, y, name, size=LABEL_SIZE, weight=600)
            sheet.text(x + 30, y + 18, blocks, size=SMALL_SIZE)
        told = [
            said("ring-scores-alt", rank=rank, turns=words.listed(_turns(turns, owner, rank)),
                 blocks=_blocks(sum(work(sequence=2**20, ranks=ranks, order=order)[rank]), ranks=ranks))
            for rank in range(ranks)
        ]  # fmt: skip
        return sheet.svg(alt=" ".join([words.sentence(title), *told]))

    return draw


def _turns(turns: dict[tuple[int, int], int], owner: dict[int, int], rank: int) -> list[str]:
    return [str(turn) for turn in sorted({turn for (queries, _), turn in turns.items() if owner[queries] == rank})]


def _blocks(pairs: int, *, ranks: int) -> str:
    """Pairs as multiples of the pairs of one rank's queries with one rank's keys."""
    return f"{round(2 * pairs / (2**20 / ranks) ** 2) / 2:g}"


def _cell(sheet: Sheet, look: str, x: float, y: float, side: float, *, diagonal: bool) -> None:
    low, far = side - 1, 1.0
    path = f"M{x + far:.1f} {y + far:.1f}L{x + low:.1f} {y + low:.1f}L{x + far:.1f} {y + low:.1f}Z"
    if diagonal:
        sheet.category(look, path=path)
        sheet.outline(x + 1, y + 1, side - 2, side - 2, opacity=0.2)
    else:
        sheet.swatch(look, x + 1, y + 1, side - 2, side - 2)


def _number(sheet: Sheet, x: float, y: float, told: str) -> None:
    sheet.bar(x - 7, y - 7, 14, 14, colour="#fff")
    sheet.text(x, y + 4, told, at="middle", size=SMALL_SIZE, weight=600, ltr=True, ink=INK)


def ring_turns(counted: dict[str, Sequence[Sequence[int]]], *, title: str) -> Figure:
    """When each rank weighs and when it waits, turn by turn, for each order by its name: the pairs of each rank and
    turn, as a lab counts them. A turn lasts until the busiest rank is done.
    """

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        ranks = len(next(iter(counted.values())))
        row, thick = 26.0, 18.0
        names = [words("rank", rank=rank) for rank in range(ranks)]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names) + 14
        right = WIDTH - MARGIN - 96
        entries = [
            (said("ring-weighs"), entry("category", "activations", words)[1]),
            (said("ring-waits"), lambda sheet, x, y: sheet.outline(x, y - 10, 18, 12, opacity=0.6, dash="3 2")),
        ]
        each = row * ranks + 44
        sheet, top = titled_sheet(title, entries, gap=30, height=each * len(counted) - 14, language=language)
        longest = max(sum(max(turn) for turn in zip(*found, strict=True)) for found in counted.values())
        scale = (right - left) / longest
        lines = []
        for place, (order, found) in enumerate(counted.items()):
            first = top + place * each
            sheet.opening(MARGIN, WIDTH - MARGIN, first - 8, said(f"ring-{order}"), size=LABEL_SIZE, weight=600)
            shares, turns = waits(found), [max(turn) for turn in zip(*found, strict=True)]
            for rank, own in enumerate(found):
                y, x = first + 4 + rank * row, left
                sheet.text(left - 12, y + thick / 2 + 4, names[rank], at="right", size=LABEL_SIZE)
                for pairs, lasts in zip(own, turns, strict=True):
                    if pairs:
                        sheet.swatch("activations", x, y, pairs * scale, thick)
                    if pairs < lasts:
                        sheet.outline(x + pairs * scale, y, (lasts - pairs) * scale, thick, opacity=0.6, dash="3 2")
                    x += lasts * scale
                    sheet.line(x, y - 3, x, y + thick + 3, opacity=0.6)
                told = said("ring-share", share=words.percent(shares[rank]))
                sheet.text(right + 10, y + thick / 2 + 4, told, size=SMALL_SIZE)
            lines += [(said(f"ring-{order}"), rank, words.percent(share)) for rank, share in enumerate(shares)]
        sentences = [
            said("ring-turns-alt", order=said(f"ring-{order}"), share=words.percent(idle(found)),
                 waits=words.listed([words.percent(share) for share in waits(found)]))
            for order, found in counted.items()
        ]  # fmt: skip
        header = [said("ring-order-column"), words("table-rank"), said("ring-waits")]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw
