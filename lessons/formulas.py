"""Formulas as MathML, which every browser draws by itself: no script, no font, no network."""

from __future__ import annotations

import re

_FORMULA = re.compile(
    r"(?P<code>^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[^\n]*$|(?P<tick>`+).+?(?P=tick)|\\\$)"
    r"|\$\$(?P<block>.+?)\$\$|\$(?=\S)(?P<inline>[^$\n]+?)(?<=\S)\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)


def formulas(text: str) -> str:
    """Markdown with its $formulas$ as MathML, which browsers draw by themselves; code stays as it is."""
    return _FORMULA.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    if found["code"] is not None:
        return found[0]
    block = found["block"] is not None
    drawn = convert(found["block"] if block else found["inline"], display="block" if block else "inline")
    for sign in "*_`":  # Markdown would read them as its own
        drawn = drawn.replace(sign, f"&#{ord(sign)};")
    return drawn.replace("<math ", '<math dir="ltr" ', 1)
