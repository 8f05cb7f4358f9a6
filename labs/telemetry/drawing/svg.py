"""A drawing as SVG: the few marks that figures are made of, and the value in which a figure is handed over.

Text knows its own direction, so that Arabic stands right in a drawing whose axes stay left to right. Nothing is loaded
from anywhere: a figure shows in a notebook, in exported HTML and as a file, with the text in the colour of the page
around it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Literal

from labs.telemetry.drawing.palette import ALL_LOOKS
from translations import CourseError, Language, translator

Side = Literal["left", "middle", "right"]

FONT = "var(--jp-ui-font-family, system-ui), 'Noto Sans', 'Noto Sans Arabic', 'Noto Naskh Arabic', sans-serif"
_HASH = "figure-id"  # stands for the figure's own id until all its marks are known


@dataclass(frozen=True, slots=True)
class Svg:
    """A finished figure. `markup` is the SVG element, `alt` says the same in words with the numbers; `table` is an HTML
    table of these.
    """

    markup: str
    alt: str
    language: Language
    table: str = ""

    @property
    def html(self) -> str:
        """The figure as it stands in a page: one image to a screen reader, in the page's own colours. Under it, folded
        up, its numbers in a table or what it shows in words; and what the page needs to offer it as a file.
        """
        text, direction = translator(self.language), self.language.direction
        inside = self.table or f'<p style="max-width:46rem">{escape(self.alt)}</p>'
        summary = escape(text("labs.telemetry-as-table" if self.table else "labs.telemetry-in-words"))
        saving = "".join(
            f' data-save-{kind}="{escape(text("labs.telemetry-save", kind=kind.upper()))}"' for kind in ("svg", "png")
        )
        return (
            f'<figure role="img" aria-label="{escape(self.alt)}" dir="{direction}" lang="{self.language.code}" '
            f'data-name="{escape(self.name)}"{saving} style="margin:1em 0">{self.markup}</figure>'
            f'<details dir="{direction}" lang="{self.language.code}" style="margin:0 16px"><summary>{summary}</summary>'
            f'<div role="group" aria-label="{summary}" tabindex="0" style="overflow-x:auto">{inside}</div></details>'
        )

    @property
    def name(self) -> str:
        """Of a file: the first words of what it shows."""
        first = re.split(r"[.:;!?\u061f](?:\s|$)", self.alt, maxsplit=1)[0]
        letters = "".join(sign for sign in first if not unicodedata.combining(sign))
        return re.sub(r"[^\w%]+", "-", letters)[:60].strip("-") or "figure"

    def beside(self, table: str) -> Svg:
        """The figure with its numbers as an HTML table."""
        return replace(self, table=table)

    @property
    def document(self) -> str:
        """The figure as a file of its own: it brings its background, light or dark as the reader's device asks."""
        look = (
            "<style>:root{background:#fff;color:#1f2328}"
            "@media (prefers-color-scheme:dark){:root{background:#14171a;color:#e6e6e6}}</style>"
        )
        opening, rest = self.markup.split(">", 1)
        opening = opening.replace(' aria-hidden="true"', f' role="img" aria-label="{escape(self.alt)}"')
        return f"{opening}>{look}{rest}\n"

    def save(self, path: Path | str) -> Path:
        """Keeps it as a file, by its name's end as SVG or PNG. Raises CourseError for another end, and for a place that
        takes no file.
        """
        file = Path(path)
        kind = file.suffix.lower()
        if kind not in (".svg", ".png"):
            raise CourseError("labs.figure-file", file=file.name)
        try:
            file.write_bytes(self.document.encode() if kind == ".svg" else self.png)
        except OSError as error:
            raise CourseError("labs.figure-not-written", file=str(file), reason=error.strerror or error) from error
        return file

    @property
    def png(self) -> bytes:
        """The figure on white, two pixels a unit."""
        from labs.telemetry.drawing.raster import png

        return png(self.markup)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "image/svg+xml": self.document, "text/plain": self.alt}


class Sheet:
    """Marks on a sheet of `width` x `height` units, x to the right and y down; a unit is a pixel at full size."""

    def __init__(self, *, width: float, height: float, language: Language) -> None:
        self.width, self.height, self.language = width, height, language
        self.rtl = language.direction == "rtl"
        self._marks: list[str] = []
        self._patterns: set[str] = set()

    # --- marks

    def text(
        self, x: float, y: float, words: str, *, at: Side = "left", size: float = 12, weight: int = 400,
        quiet: bool = False, ltr: bool = False, ink: str = "",
    ) -> None:  # fmt: skip
        """Words whose left end, middle or right end is at `x`. `ltr` is for numbers with units and names in code; `ink`
        is a colour for words on a coloured mark, which must not change with the page's.
        """
        rtl = self.rtl and not ltr
        anchor = {"left": "end" if rtl else "start", "middle": "middle", "right": "start" if rtl else "end"}[at]
        direction = ' direction="rtl" style="unicode-bidi:isolate"' if rtl else ' direction="ltr"'
        attributes = f' font-size="{_n(size)}"' + (f' font-weight="{weight}"' if weight != 400 else "")
        attributes += ' opacity="0.72"' if quiet else ""
        attributes += f' fill="{ink}"' if ink else ""
        self._marks.append(
            f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{direction}{attributes}>{escape(words)}</text>'
        )

    def opening(self, left: float, right: float, y: float, words: str, *, size: float = 12, weight: int = 400) -> None:
        """Words that begin where reading begins: at `left`, or in a right-to-left language at `right`."""
        self.text(right if self.rtl else left, y, words, at="right" if self.rtl else "left", size=size, weight=weight)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, width: float = 1, opacity: float = 1, dash: str = ""
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="currentColor" '
            f'stroke-width="{_n(width)}" stroke-opacity="{_n(opacity, 2)}"{dashes}/>'
        )

    def category(self, category: str, *, path: str) -> None:
        """A filled shape in the look of a category, or of another name that has one."""
        self._marks.append(f'<path d="{path}" fill="{ALL_LOOKS[category].colour}"/>')
        if ALL_LOOKS[category].pattern != "plain":
            self._patterns.add(category)
            self._marks.append(f'<path d="{path}" fill="url(#{_HASH}-{category})"/>')

    def swatch(self, category: str, x: float, y: float, width: float, height: float) -> None:
        self.category(category, path=rectangle(x, y, width, height))

    def shade(self, x: float, y: float, width: float, height: float, *, strength: float) -> None:
        """A rectangle in the text's own colour, mixed in with `strength`."""
        self._marks.append(
            f'<path d="{rectangle(x, y, width, height)}" fill="currentColor" fill-opacity="{_n(strength, 2)}"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, *, colour: str) -> None:
        """A rectangle in a colour of its own, on a coloured mark."""
        self._marks.append(f'<path d="{rectangle(x, y, width, height)}" fill="{colour}"/>')

    def outline(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        radius: float = 0,
        opacity: float = 0.5,
        dash: str = "",
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" fill="none" '
            f'stroke="currentColor" stroke-opacity="{_n(opacity, 2)}"{dashes}/>'
        )

    def dot(self, x: float, y: float, *, radius: float = 3) -> None:
        self._marks.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="currentColor"/>')

    def shape(self, path: str, *, stroke: float = 0, dash: str = "") -> None:
        """A shape in the text's own colour: filled, or drawn with a line of that width."""
        look = f'fill="none" stroke="currentColor" stroke-width="{_n(stroke)}"' if stroke else 'fill="currentColor"'
        look += f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(f'<path d="{path}" {look}/>')

    def arrow(self, points: Sequence[tuple[float, float]], *, width: float = 1.4, opacity: float = 0.8) -> None:
        """A line through the points, a quadratic curve where there are three, with a head at its end."""
        (x1, y1), (x2, y2) = points[0], points[-1]
        bend = f"Q{_n(points[1][0])} {_n(points[1][1])} " if len(points) == 3 else "L"
        fx, fy = points[-2]
        length = ((x2 - fx) ** 2 + (y2 - fy) ** 2) ** 0.5 or 1.0
        ux, uy = (x2 - fx) / length, (y2 - fy) / length
        head = (
            f"M{_n(x2)} {_n(y2)}L{_n(x2 - 8 * ux - 4 * uy)} {_n(y2 - 8 * uy + 4 * ux)}"
            f"L{_n(x2 - 8 * ux + 4 * uy)} {_n(y2 - 8 * uy - 4 * ux)}Z"
        )
        self._marks.append(
            f'<g opacity="{_n(opacity, 2)}"><path d="M{_n(x1)} {_n(y1)}{bend}{_n(x2 - 6 * ux)} {_n(y2 - 6 * uy)}" '
            f'fill="none" stroke="currentColor" stroke-width="{_n(width)}"/><path d="{head}" fill="currentColor"/></g>'
        )

    # --- the finished figure

    def svg(self, *, alt: str) -> Svg:
        body = "".join(self._marks)
        own = "sw" + hashlib.sha256(f"{alt}{body}".encode()).hexdigest()[:8]
        patterns = "".join(_pattern(category) for category in ALL_LOOKS if category in self._patterns)
        definitions = f"<defs>{patterns}</defs>" if patterns else ""
        markup = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            f'aria-hidden="true" width="{_n(self.width)}" style="max-width:100%;height:auto;display:block" '
            f'fill="currentColor" font-family="{FONT}" lang="{self.language.code}">{definitions}{body}</svg>'
        )
        return Svg(markup=markup.replace(_HASH, own), alt=alt, language=self.language)


def rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h{_n(-width)}Z"


def text_width(words: str, *, size: float = 12) -> float:
    """An estimate that errs on the wide side: fonts differ between machines."""
    total = 0.0
    for sign in words:
        if unicodedata.combining(sign) or unicodedata.category(sign) == "Cf":
            continue
        if sign in "ijlt.,:;|!' ()[]\u202f":
            total += 0.33
        elif sign.isupper() or sign in "mw%":
            total += 0.78
        else:
            total += 0.59
    return total * size


def wrapped(words: str, *, size: float, width: float) -> list[str]:
    """The words in as few lines of at most `width` as they need, and those of about one length."""
    lines = _filled(words, size=size, width=width)
    for narrower in range(19, 9, -1):
        even = _filled(words, size=size, width=width * narrower / 20)
        if len(even) > len(lines):
            break
        lines = even
    return lines


def _filled(words: str, *, size: float, width: float) -> list[str]:
    lines: list[str] = []
    for word in words.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", size=size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _n(value: float, digits: int = 1) -> str:
    """A number as short as SVG allows."""
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _pattern(category: str) -> str:
    look = ALL_LOOKS[category]
    marks = {
        "plain": "",
        "rising": '<path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" stroke-width="1.3"/>',
        "dots": '<circle cx="1.5" cy="1.5" r="1" stroke="none"/><circle cx="4.5" cy="4.5" r="1" stroke="none"/>',
        "level": '<path d="M0 3H6" stroke-width="1.2"/>',
        "crossed": '<path d="M0 0L6 6M6 0L0 6" stroke-width="1"/>',
        "upright": '<path d="M3 0V6" stroke-width="1.2"/>',
    }[look.pattern]
    return (
        f'<pattern id="{_HASH}-{category}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<g stroke="{look.ink}" fill="{look.ink}">{marks}</g></pattern>'
    )
