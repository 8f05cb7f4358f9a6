"""Figures of tensor and sequence parallelism: how two products are cut, and what a rank has where."""

from __future__ import annotations

from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, heading, heading_height
from labs.telemetry.drawing.memory import WIDTH
from labs.telemetry.drawing.svg import Sheet
from lessons.figures.base import Figure, Said
from translations import Language


def split_products(*, ranks: int) -> Figure:
    """X A = H by columns, gelu(H) B = Y by rows: which part of each matrix a rank has."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("products-title")
        top = heading_height(title, width=WIDTH) + 30
        tall, narrow, wide, step = 84.0, 52.0, 128.0, 30.0
        sheet = Sheet(width=WIDTH, height=top + wide + 44, language=language)
        heading(sheet, title)
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
                sheet.swatch(look, left + 1, upper + 1, across - 2, down - 2)
                if cut:
                    sheet.bar(left + across / 2 - 9, upper + down / 2 - 9, 18, 18, colour="#fff")
                    sheet.text(left + across / 2, upper + down / 2 + 5, str(rank), at="middle", size=LABEL_SIZE,
                               weight=600, ltr=True, ink="#1f2328")  # fmt: skip
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


def regions(*, ranks: int) -> Figure:
    """What a rank has of an activation along a layer, with tensor parallelism and with sequence parallelism on top."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        title = said("regions-title")
        top, row, names = heading_height(title, width=WIDTH) + 40, 112.0, 116.0
        sheet = Sheet(width=WIDTH, height=top + 2 * row + 6, language=language)
        heading(sheet, title)
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
