"""An item's texts as a learner sees them: values filled in, marks turned into HTML or plain text.

The marks of a text are few: `code`, $formula$ and a blank line between paragraphs. Code and formulas run left to right
in every language. A formula knows letters, `_` and `^`, with braces around more than one sign; every other sign stands
for itself (√, ·, ≤): it is no TeX.
"""

from __future__ import annotations

import html as markup
import re
from collections.abc import Mapping

from quiz.expressions import Value
from translations import Language, formats
from translations import language as find

PLACEHOLDER = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
_MARKS = re.compile(r"`([^`]+)`|\$([^$]+)\$")
_FORMULA = re.compile(r"\^(?:\{([^{}]+)\}|(-?\w+))|_(?:\{([^{}]+)\}|(\w))|([A-Za-zΨψ]+)|([^A-Za-z^_Ψψ]+|.)")


def fill(text: str, values: Mapping[str, Value], show: Mapping[str, str], language: Language | str) -> str:
    """The text with each {name} as the reader's language writes it. Raises KeyError for a name without value."""
    reader = find(language)

    def written(match: re.Match[str]) -> str:
        name = match[1]
        shown = _shown(values[name], show.get(name, "number"), reader)
        return formats.isolate_latin(shown) if reader.direction == "rtl" else shown

    return PLACEHOLDER.sub(written, text)


def fill_code(code: str, values: Mapping[str, Value]) -> str:
    """Code with the {names} of parameters replaced by their bare values; other braces are code and stay."""
    return PLACEHOLDER.sub(lambda match: str(values[match[1]]) if match[1] in values else match[0], code)


def html(text: str) -> str:
    """A text as HTML: paragraphs, `code` and formulas, everything else escaped."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{inline(paragraph)}</p>" for paragraph in paragraphs)


def inline(text: str) -> str:
    """A text of one paragraph as HTML without the paragraph around it."""
    pieces: list[str] = []
    end = 0
    for mark in _MARKS.finditer(text):
        pieces.append(markup.escape(text[end : mark.start()]))
        if mark[1] is not None:
            code = mark[1].replace(formats.ISOLATE, "").replace(formats.POP, "")  # so that copying it gives code
            pieces.append(f'<code dir="ltr">{markup.escape(code)}</code>')
        else:
            pieces.append(f'<bdi class="formula" dir="ltr">{_formula(mark[2])}</bdi>')
        end = mark.end()
    pieces.append(markup.escape(text[end:]))
    return "".join(pieces)


def formulas(text: str) -> list[str]:
    """What stands between the dollar signs of a text."""
    return [mark[2] for mark in _MARKS.finditer(text) if mark[2] is not None]


def plain(text: str, language: Language | str) -> str:
    """A text for a terminal: marks dropped; in a right-to-left language code and formulas are isolated."""
    reader = find(language)

    def bare(mark: re.Match[str]) -> str:
        inner = mark[1] if mark[1] is not None else mark[2]
        return formats.isolate(inner) if reader.direction == "rtl" else inner

    return _MARKS.sub(bare, text)


def _shown(value: Value, how: str, language: Language) -> str:
    if isinstance(value, str):
        return value
    match how:
        case "bytes":
            return formats.bytes_(value, language)
        case "binary":
            return formats.bytes_(value, language, binary=True)
        case "percent":
            return formats.percent(value, language)
        case "duration":
            return formats.duration(value, language)
        case "exact":
            return formats.number(round(value), language)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return formats.number(int(value), language)
    return tidy(value, language)


def tidy(value: float, language: Language | str) -> str:
    """Three significant digits without trailing zeros: 1.3, not 1.30; whole numbers exactly."""
    shown = formats.number(value, language)
    return re.sub(r"[.,]?0+$", "", shown) if 0 < abs(value) < 99.9 and re.search(r"[.,]\d*0$", shown) else shown


def _formula(text: str) -> str:
    pieces = []
    for long_power, power, long_index, index, letters, rest in _FORMULA.findall(text):
        if power or long_power:
            pieces.append(f"<sup>{markup.escape(power) or _formula(long_power)}</sup>")
        elif index or long_index:
            pieces.append(f"<sub>{markup.escape(index) or _formula(long_index)}</sub>")
        elif letters:
            pieces.append(f"<var>{letters}</var>" if len(letters) == 1 else letters)
        else:
            pieces.append(markup.escape(rest))
    return "".join(pieces)
