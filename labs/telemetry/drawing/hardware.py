"""Accelerators beside each other: what they multiply a second, and what their memory holds and gives a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, swatch_entry, titled_sheet
from labs.telemetry.drawing.svg import Svg, text_width
from labs.telemetry.drawing.table import Table
from translations import Language
from translations.formats import NARROW_SPACE, number

if TYPE_CHECKING:
    from labs.planner.hardware import Accelerator

ROW, BAR, GAP = 26.0, 13.0, 16.0
PRODUCTS = {"bf16": "parameters", "fp8": "activations", "fp4": "gradients"}
"""The look of each format's bar."""
MEMORY, RATE = "optimizer_states", "communication"


def accelerators_compared(cards: Sequence[Accelerator], *, language: Language | str) -> Svg:
    """A row for each: dense products in bf16, and in the narrower formats it has; memory; bytes a second of memory. The
    title compares the first with the last.
    """
    words = Words.of(language)
    first, last = cards[0], cards[-1]
    values = {
        "first": first.name,
        "last": last.name,
        "products": number(last.peak / first.peak, words.language, 2),
        "rate": number(last.bandwidth / first.bandwidth, words.language, 2),
    }
    message = words("hardware-title", **values)
    entries = [
        *(swatch_entry(name.upper() if name != "bf16" else name, look) for name, look in PRODUCTS.items()),
        swatch_entry(words("hardware-memory"), MEMORY),
        swatch_entry(words("hardware-rate"), RATE),
    ]
    sheet, top = titled_sheet(message, entries, gap=30, height=ROW * len(cards) + MARGIN, language=words.language)
    names = max(text_width(card.name, size=LABEL_SIZE) for card in cards) + 10
    wide = (WIDTH - 2 * MARGIN - names - 2 * GAP) / 3

    def panel(place: int, title: str, rows: Sequence[dict[str, float]], label: Callable[[float], str]) -> None:
        """Bars from the panel's left, the widest first, so that narrower ones lie on it; of equals the first."""
        left = MARGIN + names + place * (wide + GAP)
        sheet.text(left, top - 12, title, at="left", size=SMALL_SIZE, quiet=True)
        highest = max(max(row.values()) for row in rows)
        room = wide - max(text_width(label(max(row.values())), size=SMALL_SIZE) for row in rows) - 6
        for index, row in enumerate(rows):
            y = top + index * ROW
            for look, value in sorted(row.items(), key=lambda each: each[1])[::-1]:
                sheet.swatch(look, left, y, room * value / highest, BAR)
            most = max(row.values())
            at = left + room * most / highest + 5
            sheet.text(at, y + BAR - 2, label(most), at="left", size=SMALL_SIZE, ltr=True)

    for index, card in enumerate(cards):
        sheet.text(MARGIN + names - 10, top + index * ROW + BAR - 2, card.name, at="right", size=LABEL_SIZE, ltr=True)
    peaks = [{PRODUCTS[name]: card.peak_of(name) for name in ("bf16", *card.narrow)} for card in cards]
    panel(0, "PFLOP/s", peaks, lambda value: number(value / 1e15, words.language, 3))
    panel(1, words("hardware-memory"), [{MEMORY: float(card.memory)} for card in cards], words.bytes)
    panel(2, words("hardware-rate"), [{RATE: card.bandwidth} for card in cards], _rate(words))

    def told(value: float | None) -> str:
        return number(value / 1e15, words.language, 3) if value else "–"

    table = [
        (
            card.name,
            *(told(card.peak if name == "bf16" else card.narrow.get(name)) for name in PRODUCTS),
            words.bytes(card.memory),
            _rate(words)(card.bandwidth),
        )
        for card in cards
    ]
    header = ["", *(f"{'bf16' if name == 'bf16' else name.upper()} PFLOP/s" for name in PRODUCTS)]
    header += [words("hardware-memory"), words("hardware-rate")]
    parts = [words("hardware-alt-row", name=row[0], products=row[1], memory=row[4], rate=row[5]) for row in table]
    return sheet.svg(alt=f"{words.sentence(message)} {' '.join(parts)}").beside(
        Table(table, header=header, language=words.language).html
    )


def _rate(words: Words) -> Callable[[float], str]:
    return lambda value: f"{number(value / 1e12, words.language, 3)}{NARROW_SPACE}TB/s"
