"""Figures of tensor and sequence parallelism: how two products are cut, and what a rank has where."""

from __future__ import annotations

from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, titled_sheet
from labs.telemetry.drawing.palette import INK
from labs.telemetry.drawing.svg import Sheet
from lessons.figures.base import Figure, Said
from translations import Language


def split_products(*, ranks: int) -> Figure:
    """X A = H by columns, gelu(H) B = Y by rows: which part of each matrix a rank has."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("products-title")
        tall, narrow, wide, step = 84.0, 52.0, 128.0, 30.0
        sheet, top = titled_sheet(title, gap=30, height=wide + 44, language=language)
        middle = top + wide / 2
        #        name  category       width   height  cut along  what it is
        matrices = [
            ("X", "activations", narrow, tall, None, "products-whole"),
            ("A", "parameters", wide, narrow, "columns", "products-columns"),
            ("H", "activations", wide, tall, "columns", "products-features"),
            ("B", "parameters", narrow, wide, "rows", "products-rows"),
            ("Y", "activations", narrow, tall, None, "products-sum"),
        ]
        signs = ["·", "=", "·", "="]
        needed = sum(width for _, _, width, *_ in matrices) + step * len(signs) + 46
        x = (WIDTH - needed) / 2
        for place, (name, look, width, height, cut, told) in enumerate(matrices):
            y = middle - height / 2
            parts = ranks if cut else 1
            across, down = (width / parts, height) if cut != "rows" else (width, height / parts)
            for rank in range(parts):
                left, upper = (x + rank * across, y) if cut != "rows" else (x, y + rank * down)
                _part(sheet, look, left, upper, across, down, rank if cut else None)
            sheet.text(x + width / 2, top - 12, name, at="middle", size=LABEL_SIZE + 1, weight=600, ltr=True)
            sheet.text(x + width / 2, top + wide + 20, said(told), at="middle", size=SMALL_SIZE)
            x += width
            if place < len(signs):
                gelu = place == 2
                if gelu:
                    sheet.text(x + 23 + step / 2 - 11, middle + 4, "gelu", at="middle", size=SMALL_SIZE, ltr=True)
                sheet.text(x + step / 2 + (36 if gelu else 0), middle + 5, signs[place], at="middle", size=16, ltr=True)
                x += step + (46 if gelu else 0)
        return sheet.svg(alt=said("products-alt", ranks=ranks))

    return draw


def _part(
    sheet: Sheet, look: str, left: float, upper: float, width: float, height: float, rank: int | None = None
) -> None:
    """A part of a matrix, with the number of the rank that has it; without one, all ranks have it."""
    sheet.swatch(look, left + 1, upper + 1, width - 2, height - 2)
    if rank is not None:
        sheet.bar(left + width / 2 - 8, upper + height / 2 - 8, 16, 16, colour="#fff")
        sheet.text(left + width / 2, upper + height / 2 + 4, str(rank), at="middle", size=SMALL_SIZE, weight=600,
                   ltr=True, ink=INK)  # fmt: skip


def split_heads(*, ranks: int, heads: int) -> Figure:
    """Attention cut by heads: columns of queries, keys and values, heads that attend alone, rows of the last matrix."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("heads-title")
        tall, narrow, third, gap, step = 84.0, 52.0, 84.0, 4.0, 34.0
        sheet, top = titled_sheet(title, gap=14, height=2 * tall + 36, language=language)
        middle, each = top + tall, 2 * tall / heads
        needed = 3 * narrow + 3 * third + 2 * gap + third + 4 * step
        x = (WIDTH - needed) / 2

        def named(left: float, width: float, name: str, told: str, height: float = tall) -> None:
            sheet.text(
                left + width / 2, middle - height / 2 - 10, name, at="middle", size=LABEL_SIZE + 1, weight=600, ltr=True
            )
            sheet.text(left + width / 2, top + 2 * tall + 22, said(told), at="middle", size=SMALL_SIZE)

        _part(sheet, "activations", x, middle - tall / 2, narrow, tall)
        named(x, narrow, "X", "products-whole")
        sheet.text(x + narrow + step / 2, middle + 5, "·", at="middle", size=16, ltr=True)
        x += narrow + step
        for section, name in enumerate(("Q", "K", "V")):
            left = x + section * (third + gap)
            for rank in range(ranks):
                _part(
                    sheet, "parameters", left + rank * third / ranks, middle - narrow / 2, third / ranks, narrow, rank
                )
            sheet.text(
                left + third / 2, middle - narrow / 2 - 10, name, at="middle", size=LABEL_SIZE + 1, weight=600, ltr=True
            )
        width = 3 * third + 2 * gap
        sheet.text(x + width / 2, top + 2 * tall + 22, said("products-columns"), at="middle", size=SMALL_SIZE)
        sheet.arrow([(x + width + 6, middle), (x + width + step - 6, middle)])
        x += width + step
        for head in range(heads):
            _part(sheet, "activations", x, top + head * each, third, each, head * ranks // heads)
        named(x, third, "", "heads-heads")
        sheet.text(x + third + step / 2, middle + 5, "·", at="middle", size=16, ltr=True)
        x += third + step
        for rank in range(ranks):
            _part(sheet, "parameters", x, middle - third / 2 + rank * third / ranks, narrow, third / ranks, rank)
        named(x, narrow, "O", "products-rows", third)
        sheet.text(x + narrow + step / 2, middle + 5, "=", at="middle", size=16, ltr=True)
        x += narrow + step
        _part(sheet, "activations", x, middle - tall / 2, narrow, tall)
        named(x, narrow, "Y", "products-sum")
        return sheet.svg(alt=said("heads-alt", ranks=ranks, heads=heads))

    return draw


def split_loss(*, ranks: int) -> Figure:
    """Logits cut by the vocabulary, and the three numbers a token that all ranks need of them."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("split-loss-title")
        tall, down = 96.0, 66.0
        strip, gap, thin = 104.0, 22.0, 12.0
        whole = MARGIN + ranks * (strip + gap) + 62
        sheet, top = titled_sheet(title, gap=34, height=2 * tall + down + 26, language=language)
        shades = (0.8, 0.45, 0.25)
        below = top + tall + down
        for rank in range(ranks):
            x = MARGIN + rank * (strip + gap)
            sheet.text(x + strip / 2, top - 10, said("split-loss-rank", rank=rank), at="middle", size=LABEL_SIZE,
                       weight=600)  # fmt: skip
            sheet.swatch("activations", x, top, strip, tall)
            sheet.arrow([(x + strip / 2, top + tall + 6), (x + strip / 2, below - 8)])
            for place, strength in enumerate(shades):
                left = x + strip / 2 + (place - 1) * 22 - thin / 2
                sheet.outline(left, below, thin, tall)
                if place < 2:
                    sheet.shade(left, below, thin, tall, strength=strength)
                    continue
                for token in range(rank, 8, ranks):  # whose right token this rank has
                    sheet.shade(left, below + token * tall / 8, thin, tall / 8, strength=strength)
        between = MARGIN + ranks * (strip + gap)
        sheet.arrow([(between - 12, below + tall / 2), (whole - 10, below + tall / 2)])
        sheet.text((between + whole) / 2 - 11, below + tall / 2 - 12, "all-reduce", at="middle", size=SMALL_SIZE,
                   ltr=True)  # fmt: skip
        sheet.text(between + 4, top + tall / 2 + 5, said("split-loss-logits"), at="left", size=LABEL_SIZE)
        for place, (strength, name) in enumerate(zip(shades, ("m", "Σ", "z"), strict=True)):
            left = whole + place * 26
            sheet.outline(left, below, thin, tall)
            sheet.shade(left, below, thin, tall, strength=strength)
            sheet.text(left + thin / 2, below - 10, name, at="middle", size=LABEL_SIZE, weight=600, ltr=True)
        sheet.text(whole + 32, below + tall + 20, said("split-loss-every"), at="middle", size=SMALL_SIZE)
        sheet.text(MARGIN + (ranks * (strip + gap) - gap) / 2, below + tall + 20, said("split-loss-own"), at="middle",
                   size=SMALL_SIZE)  # fmt: skip
        return sheet.svg(alt=said("split-loss-alt", ranks=ranks))

    return draw


def regions(*, ranks: int) -> Figure:
    """What a rank has of an activation along a layer, with tensor parallelism and with sequence parallelism on top."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("regions-title")
        row, names = 112.0, 116.0
        sheet, top = titled_sheet(title, gap=40, height=2 * row + 6, language=language)
        places = ["regions-norm", "regions-attention", "regions-norm", "regions-network", "regions-norm"]
        column = (WIDTH - 2 * MARGIN - names) / len(places)
        side = 62.0
        for line, (name, wires) in enumerate((
            ("regions-tensor", ("f", "all-reduce")),
            ("regions-sequence", ("all-gather", "reduce-scatter")),
        )):  # fmt: skip
            y = top + line * row
            sheet.text(MARGIN, y + side / 2 + 4, said(name), at="left", size=LABEL_SIZE, weight=600)
            for place, told in enumerate(places):
                x = MARGIN + names + place * column
                if line == 0:
                    sheet.text(x + side / 2, top - 14, said(told), at="middle", size=LABEL_SIZE)
                inside = place % 2 == 1
                width = side / ranks if inside else side
                height = side / ranks if line == 1 and not inside else side
                sheet.swatch("activations", x, y, width, height)
                sheet.outline(x, y, side, side, opacity=0.45)
                if place + 1 < len(places):
                    wire = wires[place % 2]
                    sheet.arrow([(x + side + 6, y + side / 2), (x + column - 6, y + side / 2)])
                    sheet.text(x + (side + column) / 2, y + side + 16, wire, at="middle", size=SMALL_SIZE, ltr=True)
        return sheet.svg(alt=said("regions-alt", ranks=ranks))

    return draw
