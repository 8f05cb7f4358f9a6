"""Formulas of the lessons as typst's: TeX is read by latex2mathml, as for the pages, and its MathML is written anew.

What the lessons use of MathML is little. Anything else is an error that names the formula, so that none is printed
wrong.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache

from lessons.editions.printed.markup import string

_NAME = re.compile(r"\{[^}]*\}")
_SPACES = {0.167: "thin", 0.222: "med", 0.278: "thick", 1.0: "quad", 2.0: "wide"}
_NAMED_SPACES = {"negativethinmathspace": "-0.167em", "negativemediummathspace": "-0.222em", "thinmathspace": "0.167em"}
_FUNCTIONS = {
    "arccos",
    "arg",
    "cos",
    "cosh",
    "det",
    "dim",
    "exp",
    "inf",
    "ker",
    "lim",
    "ln",
    "log",
    "max",
    "min",
    "sin",
    "sinh",
    "sup",
    "tan",
    "tanh",
}
_ACCENTS = {
    "^": "hat",
    "¯": "macron",
    "‾": "macron",
    "―": "macron",
    "~": "tilde",
    "˜": "tilde",
    "→": "arrow",
    "˙": "dot",
}
_ESCAPED = set("\\#$&\"'()[]{}/_^,;*|`~@<>=-+!?:.%")


class FormulaError(ValueError):
    """A formula that can't be printed, and why."""

    def __init__(self, formula: str, reason: str) -> None:
        super().__init__(f"${formula}$ can't be printed: {reason}")


@cache
def formula(tex: str, *, block: bool = False) -> str:
    """A formula of TeX as an equation. Raises FormulaError for what lies outside the subset that lessons use."""
    from latex2mathml.converter import convert

    braces = re.sub(r"\\[{}]", "", tex)
    if braces.count("{") != braces.count("}"):
        raise FormulaError(tex, "its braces are not closed")
    try:
        tree = ElementTree.fromstring(convert(tex, display="block" if block else "inline"))
    except Exception as error:  # latex2mathml raises errors of many kinds
        raise FormulaError(tex, f"{type(error).__name__} {error}") from error
    written = re.sub(r" +", " ", _Writer(tex).inside(tree)).strip()
    return f"#math.equation(block: {str(block).lower()}, alt: {string(tex.strip())}, ${written}$);"


class _Writer:
    def __init__(self, tex: str) -> None:
        self.tex = tex

    def inside(self, parent: ElementTree.Element) -> str:
        """What an element holds. Upright letters in a row are one word; growing brackets hold what is between them."""
        pieces: list[str] = []
        opened: list[int] = []
        letters: list[str] = []
        for child in [*parent, None]:
            if child is not None and _tag(child) == "mi" and child.get("mathvariant") in ("normal", "italic"):
                letters.append(child.text or "")
                variant = {"normal": "upright", "italic": "italic"}[str(child.get("mathvariant"))]
                continue
            if letters:
                pieces.append(f"{variant}({string(''.join(letters))})")
                letters = []
            if child is None:
                break
            fence = child.get("form") if child.get("fence") == "true" and child.get("stretchy") == "true" else None
            if fence == "prefix":
                opened.append(len(pieces))
            pieces.append(self.one(child))
            if fence == "postfix" and opened:
                begin = opened.pop()
                pieces[begin:] = [f"lr({' '.join(pieces[begin:])})"]
        return " ".join(pieces)

    def one(self, element: ElementTree.Element) -> str:
        tag, children = _tag(element), list(element)
        match tag:
            case "mrow" | "mstyle" | "math" | "mpadded":
                return self.inside(element)
            case "mi":
                return self.letters(element.text or "")
            case "mn":
                return element.text or ""
            case "mo":
                return self.operator(element.text or "")
            case "mtext":
                return string(element.text or "")
            case "mspace":
                return self.space(element.get("width", "0em"))
            case "mfrac":
                return f"frac({self.one(children[0])}, {self.one(children[1])})"
            case "msqrt":
                return f"sqrt({self.inside(element)})"
            case "mroot":
                return f"root({self.one(children[1])}, {self.one(children[0])})"
            case "msub" | "munder":
                return self.attached(children[0], b=children[1])
            case "msup":
                return self.attached(children[0], t=children[1])
            case "msubsup" | "munderover":
                return self.attached(children[0], b=children[1], t=children[2])
            case "mover":
                return self.over(element)
            case "mtable":
                return self.table(element)
        raise FormulaError(self.tex, f"it has the MathML element {tag}")

    def letters(self, text: str) -> str:
        if text.startswith("\\"):
            raise FormulaError(self.tex, f"{text} is not known")
        if len(text) == 1:
            return _sign(text)
        if text in _FUNCTIONS:
            return text
        return f"upright({string(text)})"

    def operator(self, text: str) -> str:
        if text.startswith("\\") and len(text) > 1:
            raise FormulaError(self.tex, f"{text} is not known")
        if text in _FUNCTIONS:
            return text
        if text.isalpha() and len(text) > 1:
            return f"op({string(text)})"
        return " ".join(_sign(each) for each in text)

    def space(self, width: str) -> str:
        width = _NAMED_SPACES.get(width, width)
        if not width.endswith("em"):
            raise FormulaError(self.tex, f"it has a space of {width}")
        size = float(width.removesuffix("em"))
        return _SPACES.get(size, f"#h({size}em)")

    def attached(self, base: ElementTree.Element, **scripts: ElementTree.Element) -> str:
        if "t" in scripts and (scripts["t"].text or "") in ("′", "″", "'"):
            return f"{self.one(base)}'"
        parts = {place: self.one(each) for place, each in scripts.items()}
        written = self.one(base)
        if " " not in written:  # the base's spacing is kept only this way: a little room after log_2
            return written + "".join(f"{'_' if place == 'b' else '^'}({each})" for place, each in parts.items())
        return f"attach({written}, {', '.join(f'{place}: {each}' for place, each in parts.items())})"

    def over(self, element: ElementTree.Element) -> str:
        base, sign = element
        accent = _ACCENTS.get(sign.text or "")
        if accent is None:
            return self.attached(base, t=sign)
        return f"{accent}({self.one(base)})"

    def table(self, element: ElementTree.Element) -> str:
        rows = [", ".join(self.inside(cell) for cell in row) for row in element]
        return f"mat(delim: #none, {'; '.join(rows)})"


def _tag(element: ElementTree.Element) -> str:
    return _NAME.sub("", element.tag)


def _sign(sign: str) -> str:
    """One sign that stands for itself. A bracket that TeX doesn't let grow doesn't grow here."""
    if sign in "|‖":  # TeX doesn't say which of a pair it is, and typst would put room around it
        return f'class("normal", \\{sign})'
    return f"\\{sign}" if sign in _ESCAPED else sign


def of_markdown(text: str) -> Iterator[tuple[str, bool]]:
    """Every formula of a text of Markdown, and whether it stands in a line of its own."""
    from translations.source import markdown

    def walk(tokens: list) -> Iterator[tuple[str, bool]]:  # type: ignore[type-arg]
        for token in tokens:
            if token.type.startswith("math_"):
                yield token.content, token.type in ("math_block", "math_inline_double")
            yield from walk(token.children or [])

    yield from walk(markdown.parse(text))
