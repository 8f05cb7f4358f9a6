"""A language made by machine: every word looks foreign, every mark stays. It proves that a language needs no code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from translations import pipeline
from translations.available import Language, language
from translations.source.texts import CODE, FORMULA, LINK, PLACEHOLDER

FIXTURES = Path(__file__).parent.parent / "fixtures"
COURSE = FIXTURES / "course"

_KEPT = re.compile("|".join(f"(?:{each})" for each in (FORMULA.pattern, LINK.pattern, PLACEHOLDER.pattern)), re.DOTALL)
_LETTERS = str.maketrans("aeioucnsyzAEIOUCNSYZ", "àéîôüçñšýžÀÉÎÔÜÇÑŠÝŽ")


def pseudo(text: str) -> str:
    """The text with its words made foreign and somewhat longer."""
    said = "".join(
        piece if kept else _said(piece) for piece, kept in _pieces(text, CODE) for piece, kept in _inner(piece, kept)
    )
    return f"{said} ~"


def speak(folder: Path, root: Path, code: str = "xx") -> Language:
    """Writes the language's complete catalogs for ``root`` into ``folder``, which SHARDWISE_LANGUAGES_PATH names."""
    shutil.copytree(FIXTURES / "languages" / code, folder / code)
    spoken = language(code)
    extracted = pipeline.extract(root)
    pipeline.update(extracted, spoken)
    tasks = pipeline.todo(extracted, spoken)
    for task in tasks:
        english = task["en"]
        task["to"] = [pseudo(form) for form in english] if isinstance(english, list) else pseudo(english)
    pipeline.fill(extracted, spoken, tasks)
    return spoken


def _inner(piece: str, kept: bool) -> list[tuple[str, bool]]:
    return [(piece, True)] if kept else _pieces(piece, _KEPT)


def _pieces(text: str, pattern: re.Pattern[str]) -> list[tuple[str, bool]]:
    pieces: list[tuple[str, bool]] = []
    at = 0
    for match in pattern.finditer(text):
        pieces += [(text[at : match.start()], False), (match[0], True)]
        at = match.end()
    return [*pieces, (text[at:], False)]


def _said(text: str) -> str:
    return text.translate(_LETTERS)
