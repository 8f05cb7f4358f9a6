"""The figure of the collectives: what each rank has before, and what it has after."""

from __future__ import annotations

from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, titled_sheet
from labs.telemetry.drawing.palette import INK
from lessons.figures.base import Figure, Said
from translations import Language

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast")


def _has(kind: str, rank: int, part: int, *, after: bool) -> str | None:
    """What a rank has of a part: its own, somebody's, or the sum; None where it has nothing."""
    letter = "abcdefgh"[part]
    if not after:
        if kind == "all-gather":
            return letter if rank == part else None
        return f"{letter}{rank}" if kind != "broadcast" or rank == 0 else None
    if kind == "all-reduce":
        return f"Σ{letter}"
    if kind == "reduce-scatter":
        return f"Σ{letter}" if rank == part else None
    return letter if kind == "all-gather" else f"{letter}0"


def collectives(*, ranks: int) -> Figure:
    """All-reduce, reduce-scatter, all-gather and broadcast over buffers of as many parts as there are ranks."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("collectives-title")
        names, gap, row = 56.0, 34.0, 22.0
        half = (WIDTH - 2 * MARGIN - 28) / 2
        cell = (half - names - gap) / (2 * ranks)
        panel = ranks * row + 66
        sheet, top = titled_sheet(title, gap=44, height=2 * panel - 34, language=language)

        def grid(kind: str, x: float, y: float, *, after: bool) -> None:
            moment = said("collectives-after" if after else "collectives-before")
            sheet.text(x + ranks * cell / 2, y - 6, moment, at="middle", size=SMALL_SIZE, quiet=True)
            for rank in range(ranks):
                for part in range(ranks):
                    left, upper = x + part * cell, y + rank * row
                    held = _has(kind, rank, part, after=after)
                    if held and held.startswith("Σ"):
                        sheet.swatch("gradients", left + 1, upper + 1, cell - 2, row - 4)
                        sheet.bar(left + cell / 2 - 11, upper + 3, 22, row - 8, colour="#fff")
                    elif held:
                        sheet.shade(left + 1, upper + 1, cell - 2, row - 4, strength=0.1)
                    sheet.outline(left + 1, upper + 1, cell - 2, row - 4, opacity=0.35)
                    if held:
                        ink = INK if held.startswith("Σ") else ""
                        middle = upper + row / 2 + 3
                        sheet.text(left + cell / 2, middle, held, at="middle", size=SMALL_SIZE, ltr=True, ink=ink)

        for place, kind in enumerate(KINDS):
            x, y = MARGIN + place % 2 * (half + 28), top + place // 2 * panel
            sheet.text(x + names, y - 26, kind, at="left", size=LABEL_SIZE, weight=600, ltr=True)
            for rank in range(ranks):
                told = words("rank", rank=rank)
                sheet.text(x + names - 8, y + rank * row + 14, told, at="right", size=SMALL_SIZE)
            grid(kind, x + names, y, after=False)
            grid(kind, x + names + ranks * cell + gap, y, after=True)
            middle, edge = y + ranks * row / 2, x + names + ranks * cell
            sheet.arrow([(edge + 5, middle), (edge + gap - 5, middle)])
        return sheet.svg(alt=said("collectives-alt", ranks=ranks))

    return draw
