"""What every source has in common: a text with its place, and the marks in it that no translation may change."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str, str, int], str]
"""``say(context, english, line)`` gives the wording to put there. To extract is to remember and change nothing."""

CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$\w])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\$])\$(?![\w$])", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)|<(https?://[^>\s]+)>|(https?://[^\s)>\]]+)")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)[^{}]*\}")
_WORD = re.compile(r"[^\W\d_]{2,}")


class SourceError(ValueError):
    """A source that its author must mend: the sentence begins with file and line."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One English text to translate: its id in the catalog is ``context``; ``plural`` is its form ``other``, if any."""

    context: str
    english: str
    path: str
    line: int
    plural: str = ""


def digest(english: str) -> str:
    """Names a text that has no id of its own; the same text has the same name wherever it stands."""
    return hashlib.sha256(english.encode()).hexdigest()[:8]


def has_words(text: str) -> bool:
    """Whether there is anything to translate outside code, formulas and links."""
    return bool(_WORD.search(LINK.sub(" ", FORMULA.sub(" ", CODE.sub(" ", text)))))


def marks(text: str) -> Counter[str]:
    """Code spans, formulas, links and placeholders: the same in every language, in any order."""
    found = Counter(match[0] for match in CODE.finditer(text))
    text = CODE.sub(" ", text)
    found.update(match[0] for match in FORMULA.finditer(text))
    text = FORMULA.sub(" ", text)
    found.update(next(filter(None, match.groups())).rstrip(".,;:") for match in LINK.finditer(text))
    found.update(match[0] for match in PLACEHOLDER.finditer(LINK.sub(" ", text)))
    return found
