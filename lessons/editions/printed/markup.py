"""Words as typst's markup: whatever they hold, they stay words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from translations import Language
from translations.formats import ISOLATE, POP

_MARKS = re.compile(r"[\\#$*_`<>@=+/~\[\]:-]")
SHORT = 12
_LONG = re.compile(r"[^\s\u200b]{15,}")
_JOINTS = re.compile(r"[._/(,=:](?=\w)")
_NUMBERED = re.compile(r"^(\d+)\.", re.MULTILINE)


def words(text: str) -> str:
    """A text in which nothing is a mark; straight quotes are left for typst to curve."""
    return _NUMBERED.sub(r"\1\\.", _MARKS.sub(r"\\\g<0>", re.sub(r"[ \t\n]+", " ", text)))


def breakable(text: str) -> str:
    """A text whose long names may be parted where they are joined."""
    return _LONG.sub(lambda found: _JOINTS.sub("\\g<0>\u200b", found[0]), text)


def longest_words(rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Of each column what can't be parted, the longest: a word, or what a short cell holds."""
    found = []
    for at in range(columns):
        cells = [breakable(row[at]).strip() for row in rows if at < len(row)]
        parts = [[each] if len(each) <= SHORT else re.split(r"[ \n\u200b]+", each) for each in cells]
        found.append(max((part for each in parts for part in each), key=len, default=""))
    return found


def string(text: str) -> str:
    """A text as a string of typst's code."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"{}"'.format(escaped.replace("\n", "\\n").replace("\r", "").replace("\t", "    "))


def array(values: Iterable[str]) -> str:
    """Expressions as an array, also where there is but one, or none."""
    return f"({''.join(f'{each}, ' for each in values)})"


def call(name: str, *contents: str, **arguments: str | None) -> str:
    """A function called with named expressions (those that are None left out) and pieces of content.

    The semicolon ends it: a bracket or a full stop that follows in the text would else belong to the call.
    """
    named = ", ".join(f"{key.replace('_', '-')}: {value}" for key, value in arguments.items() if value is not None)
    return f"#{name}({named})" + "".join(f"[{each}]" for each in contents) + ";"


def isolated(content: str, language: Language) -> str:
    """Content that runs left to right, and that a line of Arabic cannot reorder."""
    return f"{ISOLATE}{content}{POP}" if language.direction == "rtl" else content
