"""The HTML that a lesson shows: tables, code, notices.

Text runs in the reader's direction, code left to right. Every function gives a fragment and does nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Literal
from unicodedata import bidirectional

from quiz import rendering
from translations import Language, Translator, formats

Mood = Literal["good", "bad", "note"]


@cache
def _style() -> str:
    return f"<style>{Path(__file__).with_name('look.css').read_text(encoding='utf-8')}</style>"


def page(body: str, language: Language) -> str:
    """A fragment in the language's direction, with the course's look."""
    return f'{_style()}<div class="shardwise" dir="{language.direction}" lang="{language.code}">{body}</div>'


def ltr(text: str) -> str:
    """A number, a name or a path, isolated from the text around it."""
    return f'<bdi dir="ltr">{escape(text)}</bdi>'


def box(message: str, *, mood: Mood, title: str = "") -> str:
    """A quiet box; its meaning is in its words, the colour only repeats it. `code` in the message is shown as code."""
    heading = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    return f'<div class="box {mood}" role="status">{heading}{rendering.html(message)}</div>'


# --- tables

Cell = str | int | float | None


def table(
    rows: Iterable[Sequence[Cell]],
    *,
    header: Sequence[str],
    units: Sequence[str] = (),
    caption: str = "",
    language: Language,
) -> str:
    """A table of computed values. `units` says per column how: "B" as bytes, "%" as a share, ".6" with six digits,
    "e" as a power of ten; anything else stands behind the number.

    The first column heads its row. Numbers stand left to right at the end of their cell.
    """
    units = [*units, *[""] * (len(header) - len(units))]
    body = [list(row) for row in rows]
    numeric = [
        all(not isinstance(row[at], str) for row in body if at < len(row)) and at > 0 for at in range(len(header))
    ]
    heads = "".join(f'<th scope="col"{_number(numeric[at])}>{escape(name)}</th>' for at, name in enumerate(header))
    lines = []
    for row in body:
        cells = []
        for at, value in enumerate(row):
            shown = written(value, units[at], language)
            inside = escape(shown) if isinstance(value, str) and _reads_along(shown, language) else ltr(shown)
            cells.append(f'<th scope="row">{inside}</th>' if at == 0 else f"<td{_number(numeric[at])}>{inside}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _reads_along(words: str, language: Language) -> bool:
    """Whether a text runs in the language's direction: "4 x 16" among Arabic words would be shown as "x 16 4"."""
    return language.direction == "ltr" or any(bidirectional(each) in ("R", "AL") for each in words)


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def written(value: Cell, unit: str, language: Language) -> str:
    """A cell's value as the reader's language writes it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if unit == "B":
        return formats.bytes_(value, language)
    if unit == "%":
        return formats.percent(value, language)
    if unit == "e":
        return _power(value, language)
    if unit.startswith("."):
        return formats.number(float(value), language, digits=int(unit[1:]))
    shown = formats.number(value, language)
    return f"{shown}{formats.NARROW_SPACE}{unit}" if unit else shown


def _power(value: float, language: Language) -> str:
    """A very large number as 3.15 × 10²³."""
    mantissa, exponent = f"{value:.2e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{formats.number(float(mantissa), language)} × 10{raised}"


# --- code


def code(text: str, *, name: str) -> str:
    """Python, highlighted, left to right whatever the language around it."""
    return _pre("\n".join(_lines(text)), name=name)


def numbered(text: str, *, name: str) -> str:
    """Python with the number of each line before it; copying it copies the code alone."""
    return _pre(
        "".join(
            f'<span class="line"><span class="number">{number}</span>{line}</span>'
            for number, line in enumerate(_lines(text), start=1)
        ),
        name=name,
    )


def printed(text: str, *, name: str) -> str:
    """What a program printed, under its heading."""
    return f"<p>{escape(name)}</p>{_pre(escape(text), name=name)}"


def _pre(inside: str, *, name: str) -> str:
    return f'<pre dir="ltr" tabindex="0" role="region" aria-label="{escape(name)}"><code>{inside}</code></pre>'


def _lines(text: str) -> list[str]:
    """Each line's HTML; a token that runs over several lines is closed and opened again at each."""
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

    formatter = HtmlFormatter(nowrap=True)
    return str(highlight(text, PythonLexer(stripnl=False, ensurenl=False), formatter)).removesuffix("\n").split("\n")


def difference(before: str, after: str, *, name: str, text: Translator, around: int = 4) -> str:
    """What changed from one source to the other, in context. Marks + and − say it without the colours."""
    old, new = before.splitlines(), after.splitlines()
    shown_old, shown_new = _lines(before), _lines(after)
    pieces: list[str] = []
    added = removed = 0
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(around):
        if pieces or group[0][1]:
            pieces.append('<span class="gap"></span>')
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                pieces += [_changed("", "&nbsp;", line) for line in shown_new[j1:j2]]
                continue
            removed, added = removed + i2 - i1, added + j2 - j1
            pieces += [_changed("del", "−", line) for line in shown_old[i1:i2]]
            pieces += [_changed("ins", "+", line) for line in shown_new[j1:j2]]
    counts = text("shardwise.lines-changed", added=added, removed=removed)
    return f"<p>{escape(counts)}</p>{_pre(''.join(pieces), name=name)}"


def _changed(element: str, mark: str, line: str) -> str:
    if not element:
        return f'<span class="line"><span class="mark">{mark}</span>{line}</span>'
    kind = {"ins": "added", "del": "removed"}[element]
    return f'<{element} class="line {kind}"><span class="mark">{mark}</span>{line}</{element}>'


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"
