"""Figures of how things are arranged: who holds which shard, what follows what, and what travels."""

from __future__ import annotations

from labs.telemetry.drawing import Svg, rank_table
from labs.telemetry.drawing import ring as draw_ring
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.svg import wrapped
from lessons.figures.base import Figure, Said
from translations import Language

SHARDED = {
    0: (),
    1: ("optimizer_states",),
    2: ("optimizer_states", "gradients"),
    3: ("optimizer_states", "gradients", "parameters"),
}


def who_holds_what(*, ranks: int, stage: int) -> Figure:
    """Which part of parameters, gradients and optimizer states each rank keeps in a stage of ZeRO (0: data
    parallelism).
    """

    def draw(language: Language) -> Svg:
        title = Said(language)(f"holds-{stage}")
        return rank_table(ranks=ranks, sharded=SHARDED[stage], language=language, title=title)

    return draw


def ring(*, ranks: int) -> Figure:
    """The second step of a reduce-scatter in a ring: what each rank has so far, and what it sends on."""
    return lambda language: draw_ring(ranks=ranks, step=1, language=language, title=Said(language)("ring-title"))


def two_halves() -> Figure:
    """Data parallelism and ZeRO-1 as the same two collectives with the update in another place."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        rows = [
            (said("halves-data-parallel"), ["reduce-scatter", "all-gather", said("halves-update-all")]),
            ("ZeRO-1", ["reduce-scatter", said("halves-update-shard"), "all-gather"]),
        ]
        return _boxes(said("halves-title"), rows, alt=said("halves-alt"), language=language)

    return draw


def data_parallel_step(*, ranks: int) -> Figure:
    """Each rank: its part of the batch, its own gradients; then the mean, and the same update everywhere."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        steps = [said("dp-forward"), said("dp-backward"), "all-reduce", said("dp-update")]
        rows = [(words("rank", rank=rank), [said("dp-part", part=rank), *steps]) for rank in range(ranks)]
        return _boxes(said("dp-title"), rows, alt=said("dp-alt", ranks=ranks), language=language, joined="all-reduce")

    return draw


def gradients_in_backward(*, pieces: int, ranks: int) -> Figure:
    """Backward goes from the last piece to the first: above it shards, at it one bucket of whole gradients, below it
    nothing yet.
    """

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("bucket-title")
        row, left = 30.0, MARGIN + 150
        sheet, top = titled_sheet(title, gap=40, height=row * pieces + 12, language=language)
        moments = [pieces - 1, pieces // 2, 0]
        column = (WIDTH - MARGIN - left - 40) / len(moments)
        whole = column - 24
        for place, moment in enumerate(moments):
            x = left + place * (column + 20)
            told = said("bucket-moment", piece=moment)
            sheet.text(x + whole / 2, top - 14, told, at="middle", size=LABEL_SIZE, weight=600)
            for piece in range(pieces):
                y = top + piece * row
                if piece > moment:
                    sheet.swatch("gradients", x, y, whole / ranks, row - 10)
                elif piece == moment:
                    sheet.swatch("communication", x, y, whole, row - 10)
                sheet.outline(x, y, whole, row - 10, opacity=0.35)
        for piece in range(pieces):
            name = said("piece", piece=piece)
            sheet.text(left - 16, top + piece * row + 15, name, at="right", size=LABEL_SIZE)
        return sheet.svg(alt=said("bucket-alt", pieces=pieces, ranks=ranks))

    return draw


def shards_or_layers(*, ranks: int, layers: int) -> Figure:
    """ZeRO-3 cuts each layer across all ranks; a pipeline gives whole layers to each rank."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("shards-title")
        row = 34.0
        sheet, top = titled_sheet(title, gap=58, height=row * layers + 6, language=language)
        names, owners = 76.0, 64.0
        column = (WIDTH - 2 * MARGIN - 2 * names - owners - 30) / 2
        part = column / ranks
        for side, told in enumerate((said("shards-zero"), said("shards-pipeline"))):
            x = MARGIN + names + side * (column + names + 30)
            sheet.text(x + column / 2, top - 32, told, at="middle", size=LABEL_SIZE, weight=600)
            for layer in range(layers):
                y = top + layer * row
                sheet.text(x - 12, y + 16, said("layer", layer=layer), at="right", size=LABEL_SIZE)
                for rank in range(ranks if side == 0 else 1):
                    width = part if side == 0 else column
                    sheet.swatch("parameters", x + rank * width + 1, y, width - 2, row - 10)
                if side == 1:
                    owner = words("rank", rank=layer * ranks // layers)
                    sheet.text(x + column + 12, y + 16, owner, at="left", size=LABEL_SIZE)
            for rank in range(ranks if side == 0 else 0):
                middle = x + (rank + 0.5) * part
                sheet.text(middle, top - 10, words("rank", rank=rank), at="middle", size=SMALL_SIZE)
        return sheet.svg(alt=said("shards-alt", ranks=ranks, layers=layers))

    return draw


def gathers_in_a_step(*, pieces: int) -> Figure:
    """Which piece is whole at which moment of a ZeRO-3 step: once in forward, once in backward."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("gathers-title")
        entries = [entry("category", "communication", words), entry("category", "parameters", words)]
        row, left = 28.0, MARGIN + 90
        moments = [*range(pieces), *reversed(range(pieces))]
        column = (WIDTH - MARGIN - left) / len(moments)
        sheet, top = titled_sheet(title, entries, gap=41, height=row * pieces + 12, language=language)
        for half, name in enumerate(("forward", "backward")):
            middle = left + (half + 0.5) * pieces * column
            sheet.text(middle, top - 12, words.phase(name), at="middle", size=LABEL_SIZE, weight=600)
        for piece in range(pieces):
            y = top + piece * row
            sheet.text(left - 14, y + 14, said("piece", piece=piece), at="right", size=LABEL_SIZE)
            for moment, used in enumerate(moments):
                x, tall = left + moment * column, row - 8
                if used == piece:
                    sheet.swatch("communication", x + 1, y, column - 2, tall)
                else:
                    sheet.swatch("parameters", x + 1, y + tall * 0.75, column - 2, tall * 0.25)
        sheet.line(left + pieces * column, top - 6, left + pieces * column, top + row * pieces, opacity=0.5, dash="3 3")
        return sheet.svg(alt=said("gathers-alt", pieces=pieces))

    return draw


def _boxes(
    title: str, rows: list[tuple[str, list[str]]], *, alt: str, language: Language, joined: str | None = None
) -> Svg:
    """A line of boxes with arrows for each name; a box named `joined` spans all lines."""
    rtl = language.direction == "rtl"
    row, names = 58.0, 130.0
    sheet, top = titled_sheet(title, gap=14, height=row * len(rows) + 6, language=language)
    count = max(len(boxes) for _, boxes in rows)
    column = (WIDTH - 2 * MARGIN - names) / count
    for index, (name, boxes) in enumerate(rows):
        y = top + index * row
        edge = WIDTH - MARGIN if rtl else MARGIN
        sheet.text(edge, y + 26, name, at="right" if rtl else "left", size=LABEL_SIZE, weight=600)
        for place, told in enumerate(boxes):
            x = (WIDTH - MARGIN - names - (place + 1) * column) if rtl else MARGIN + names + place * column
            wide = column - 22
            spans = told == joined
            if not spans or index == 0:
                tall = row * len(rows) - 18 if spans else row - 18
                sheet.shade(x, y, wide, tall, strength=0.1 if spans else 0.05)
                sheet.outline(x, y, wide, tall, radius=4)
                lines = wrapped(told, size=SMALL_SIZE, width=wide - 10)
                for number, line in enumerate(lines):
                    middle = y + tall / 2 + 4 + (number - (len(lines) - 1) / 2) * 14
                    sheet.text(x + wide / 2, middle, line, at="middle", size=SMALL_SIZE, weight=600 if spans else 400)
            if place + 1 < len(boxes):
                start, end = (x - 3, x - 19) if rtl else (x + wide + 3, x + wide + 19)
                sheet.arrow([(start, y + 20), (end, y + 20)])
    return sheet.svg(alt=alt)
