"""Words as typst's markup: whatever they hold, they stay words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from translations import Language
from translations.formats import ISOLATE, POP

_MARKS = re.compile(r"[\\#$*_`<>@=+/~\[\]:-]")
_NUMBERED = re.compile(r"^(\d+)\.", re.MULTILINE)


def words(text: str) -> str:
    """A text in which nothing is a mark; straight quotes are left for typst to curve."""
    return _NUMBERED.sub(r"\1\\.", _MARKS.sub(r"\\\g<0>", re.sub(r"[ \t\n]+", " ", text)))


def string(text: str) -> str:
    """A text as a string of typst's code."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"{}"'.format(escaped.replace("\n", "\\n").replace("\r", "").replace("\t", "    "))


def array(values: Iterable[str]) -> str:
    """Expressions as an array, also where there is but one, or none."""
    return f"({''.join(f'{each}, ' for each in values)})"


def call(name: str, *contents: str, **arguments: str | None) -> str:
    """A function called with named expressions (those that are None left out) and pieces of content."""
    named = ", ".join(f"{key.replace('_', '-')}: {value}" for key, value in arguments.items() if value is not None)
    return f"#{name}({named})" + "".join(f"[{each}]" for each in contents)


def isolated(content: str, language: Language) -> str:
    """Content that runs left to right, and that a line of Arabic cannot reorder."""
    return f"{ISOLATE}{content}{POP}" if language.direction == "rtl" else content
