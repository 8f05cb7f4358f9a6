"""What a formula gives beside what was printed: a dot for each quantity, around a line of 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, titled_sheet
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.drawing.table import Table
from translations import Language
from translations.formats import number

ROW, NAMES = 26.0, 280.0
LEAST, MOST = 0.5, 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity in words: its name, what was printed, what was computed, and computed / published."""

    name: str
    published: str
    computed: str
    ratio: float


def beside_published(rows: Sequence[Compared], *, message: str, language: Language | str) -> Svg:
    """A ratio outside of 0.5 to 1.5 is drawn at the border."""
    words = Words.of(language)
    sheet, top = titled_sheet(message, gap=26, height=ROW * len(rows) + 44, language=words.language)
    left, right, bottom = MARGIN + NAMES, WIDTH - MARGIN - 96, top + ROW * len(rows)

    across = scale(LEAST, MOST, start=left, end=right)

    def x(ratio: float) -> float:
        return across(min(max(ratio, LEAST), MOST))

    for tick in (0.6, 0.8, 1.0, 1.2, 1.4):
        sheet.line(x(tick), top, x(tick), bottom, opacity=0.7 if tick == 1 else 0.18, width=1.5 if tick == 1 else 1)
        label = number(tick, words.language, digits=2)
        sheet.text(x(tick), bottom + 16, label, at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
    sheet.text((left + right) / 2, bottom + 34, words("published-axis"), at="middle", size=SMALL_SIZE, quiet=True)
    for index, row in enumerate(rows):
        y = top + ROW * (index + 0.5)
        sheet.opening(MARGIN, left - 12, y + 4, row.name, size=LABEL_SIZE)
        sheet.line(x(1), y, x(row.ratio), y, width=3, opacity=0.55)
        sheet.dot(x(row.ratio), y, radius=5)
        sheet.text(right + 12, y + 4, number(row.ratio, words.language), at="left", size=LABEL_SIZE, ltr=True)
    told = [f"{row.name}: {number(row.ratio, words.language)}" for row in rows]
    alt = f"{words.sentence(message)} {words('published-alt', rows=words.listed(told))}"
    header = [words(f"published-{name}") for name in ("quantity", "printed", "computed", "ratio")]
    cells = [(row.name, row.published, row.computed, number(row.ratio, words.language)) for row in rows]
    return sheet.svg(alt=alt).beside(Table(cells, header=header, language=words.language).html)
