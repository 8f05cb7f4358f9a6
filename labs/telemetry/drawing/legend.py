"""What figures have in common: a title, a legend of categories and phases, the lines of an axis, and numbers with their
units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labs.telemetry.drawing.palette import FORMULA_DASH, PHASE_HEIGHT, PHASE_STRENGTH
from labs.telemetry.drawing.svg import Sheet, text_width, wrapped
from translations import Language, Translator, translator
from translations import language as find
from translations.formats import NARROW_SPACE, bytes_, number, percent

TITLE_SIZE, LABEL_SIZE, SMALL_SIZE = 16.0, 12.0, 11.0
WIDTH, MARGIN = 760.0, 16.0


@dataclass(frozen=True, slots=True)
class Words:
    """The words of figures in one language."""

    language: Language
    text: Translator

    @classmethod
    def of(cls, language: Language | str) -> Words:
        return cls(find(language), translator(language))

    def __call__(self, name: str, /, **values: object) -> str:
        return self.text(f"labs.telemetry-{name}", **values)

    def category(self, category: str) -> str:
        return self("category-" + category.replace("_", "-"))

    def phase(self, phase: str) -> str:
        return self("phase-" + phase)

    def bytes(self, count: float) -> str:
        return bytes_(count, self.language)

    def seconds(self, seconds: float) -> str:
        shown = number(seconds, self.language, digits=2) if seconds < 9.95 else number(round(seconds), self.language)
        return f"{shown}{NARROW_SPACE}s"

    def time(self, seconds: float) -> str:
        """Milliseconds below a second, as short as a label needs."""
        if seconds >= 1:
            return self.seconds(seconds)
        return f"{number(seconds * 1000, self.language, digits=2)}{NARROW_SPACE}ms"

    def percent(self, share: float) -> str:
        return percent(share, self.language, digits=2)

    def sentence(self, words: str) -> str:
        """With a full stop, where a title has none."""
        return words if words.endswith((".", "!", "?", "؟")) else f"{words}."

    def listed(self, items: Sequence[str]) -> str:
        """The items with the language's comma between them."""
        *before, listed = items
        for item in reversed(before):
            listed = self("list", first=item, rest=listed)
        return listed

    def axis(self, highest: float) -> Callable[[float], str]:
        """Tick labels in the one unit that suits the highest value: 0, 2 MB, 4 MB."""
        powers = ("B", "kB", "MB", "GB", "TB", "PB")
        power = 0
        while highest >= 1000 ** (power + 1) and power < len(powers) - 1:
            power += 1

        def label(value: float) -> str:
            if not value:
                return "0"
            scaled = value / 1000**power
            shown = round(scaled) if abs(scaled - round(scaled)) < 1e-9 else scaled
            return f"{number(shown, self.language, digits=2)}{NARROW_SPACE}{powers[power]}"

        return label


def heading(sheet: Sheet, words: str, *, top: float = MARGIN) -> float:
    """Writes a title; returns the y under it."""
    y = top
    for line in wrapped(words, size=TITLE_SIZE, width=sheet.width - 2 * MARGIN):
        y += TITLE_SIZE + 5
        sheet.opening(MARGIN, sheet.width - MARGIN, y - 5, line, size=TITLE_SIZE, weight=600)
    return y


Entry = tuple[str, Callable[[Sheet, float, float], None]]


def entry(kind: str, name: str, words: Words) -> Entry:
    """A legend's entry: `kind` is category, slot, stretch, phase or formula, whose `name` is the message that says of
    what.
    """
    if kind == "category":
        return swatch_entry(words.category(name), name)
    if kind in ("slot", "stretch"):
        return swatch_entry(words(f"{kind}-{name.lower()}"), name)
    if kind == "phase":
        return words.phase(name), lambda sheet, x, y: sheet.shade(
            x, y - 4 - PHASE_HEIGHT[name] / 2, 18, PHASE_HEIGHT[name], strength=PHASE_STRENGTH[name]
        )
    return line_entry(words(name), dash=FORMULA_DASH, width=1.8)


def swatch_entry(told: str, look: str) -> Entry:
    """An entry for what is filled in a look of the palette."""
    return told, lambda sheet, x, y: sheet.swatch(look, x, y - 10, 18, 12)


def line_entry(told: str, *, dash: str = "", width: float = 2) -> Entry:
    """An entry for a line."""
    return told, lambda sheet, x, y: sheet.line(x, y - 4, x + 18, y - 4, width=width, dash=dash)


def legend(sheet: Sheet, entries: Sequence[Entry], *, top: float) -> float:
    """Writes entries from where reading begins, in as many lines as they need; returns the y under them."""
    gap, sign, line = 20.0, 25.0, 21.0
    used, y = 0.0, top + 14
    room = sheet.width - 2 * MARGIN
    for words, draw in entries:
        width = sign + text_width(words, size=LABEL_SIZE)
        if used and used + width > room:
            used, y = 0.0, y + line
        if sheet.rtl:
            x = sheet.width - MARGIN - used
            draw(sheet, x - 18, y)
            sheet.text(x - sign, y, words, at="right", size=LABEL_SIZE)
        else:
            x = MARGIN + used
            draw(sheet, x, y)
            sheet.text(x + sign, y, words, at="left", size=LABEL_SIZE)
        used += width + gap
    return y + 7


def legend_height(entries: Sequence[Entry], *, width: float) -> float:
    """What `legend` will take, for a sheet of that width."""
    used, lines = 0.0, 1
    for words, _ in entries:
        own = 25.0 + text_width(words, size=LABEL_SIZE)
        if used and used + own > width - 2 * MARGIN:
            used, lines = 0.0, lines + 1
        used += own + 20.0
    return 21.0 * lines


def titled_sheet(
    title: str, entries: Sequence[Entry] | None = None, *, gap: float, height: float, language: Language
) -> tuple[Sheet, float]:
    """A sheet with its title and, where entries are given, its legend, which keeps its line while there are none yet;
    and the y where the drawing begins: `gap` under these, with `height` left to the foot.
    """
    above = heading_height(title, width=WIDTH)
    top = above + gap + (0 if entries is None else 4 + legend_height(entries, width=WIDTH))
    sheet = Sheet(width=WIDTH, height=top + height, language=language)
    heading(sheet, title)
    legend(sheet, entries or (), top=above + 4)
    return sheet, top


def gridline(sheet: Sheet, left: float, right: float, y: float, told: str, *, opacity: float = 0.18) -> None:
    """A faint line across, with the value that it stands for on its left."""
    sheet.line(left, y, right, y, opacity=opacity)
    sheet.text(left - 8, y + 4, told, at="right", size=SMALL_SIZE, quiet=True, ltr=True)


def heading_height(words: str, *, width: float) -> float:
    return MARGIN + (TITLE_SIZE + 5) * len(wrapped(words, size=TITLE_SIZE, width=width - 2 * MARGIN))


def listed_ranks(ranks: Sequence[int], words: Words) -> str:
    """0, 1, 2, 5 as 0-2 and 5."""
    found: list[list[int]] = []
    for rank in ranks:
        if found and found[-1][-1] == rank - 1:
            found[-1].append(rank)
        else:
            found.append([rank])
    return words.listed([str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in found])
