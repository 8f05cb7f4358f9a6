"""The printed edition: the lessons of a language as one book, a PDF with figures in vector form.

Everything comes from the executed notebooks, the banks, the exercises and the messages; typst sets it with the fonts
that it brings and the Arabic one of the certificates. Nothing is fetched, and equal notebooks give equal bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import Any

import segno

from lessons.builder import ROOT
from lessons.editions.printed.chapters import Chapter, chapter
from lessons.editions.printed.markup import array, call, string, words
from lessons.editions.printed.prose import Prose
from lessons.editions.printed.setting import typeset
from lessons.editions.printed.terms import Terms
from translations import Language, formats, translator
from translations import language as find

__all__ = ["Book", "book"]

UNDATED = datetime(2026, 1, 1, tzinfo=UTC)
"""The date of a book whose version is not released yet: it must not be today's, or no two books were equal."""

AUTHORS = "The Shardwise authors"
PAGE = "\N{SYMBOL FOR SUBSTITUTE FORM TWO}"
"""Stands in a sentence for the number of a page, which is known only when it is set."""

_SAID = (
    "figure", "table", "exercise", "exercise-faded", "exercise-alone", "solution-on", "answer-on", "questions-intro",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Book:
    """A book as bytes of PDF, and the units in it."""

    language: Language
    units: tuple[str, ...]
    pdf: bytes


def book(notebooks: Iterable[Any], language: Language | str, *, address: str | None = None, whole: bool = True) -> Book:
    """Executed notebooks of a language, in the order of the units, as a book.

    `address` is where the course can be had; without it, what the package says of itself, if it does. `whole` is false
    for single chapters, which have no title pages.
    """
    reader = find(language)
    nodes = list(notebooks)
    units = tuple(str(each.metadata.course["unit"]) for each in nodes)
    terms = Terms(reader)
    prose = Prose(language=reader, chapters=frozenset(units), terms=terms)
    made = [chapter(each, prose) for each in nodes]
    return Book(language=reader, units=units, pdf=_typeset(made, reader, terms, address=address, whole=whole))


def _typeset(
    chapters: Sequence[Chapter], language: Language, terms: Terms, *, address: str | None, whole: bool
) -> bytes:
    text = translator(language)
    at = _released() or UNDATED
    title = text("lessons.book-title")
    parts = [each.body for each in chapters]
    for id, pieces in (
        ("solutions", [each.solutions for each in chapters]),
        ("answers", [each.answers for each in chapters]),
    ):
        if any(pieces):
            parts += [call("part", words(text(f"lessons.book-{id}"))), *pieces]
    if whole:
        parts = [
            _front(language, address=address),
            *parts,
            call("part", words(text("lessons.book-terms"))),
            terms.listed(),
        ]
    data: Mapping[str, object] = {
        "language": language.code,
        "direction": language.direction,
        "fonts": [language.font] if language.font else [],
        "title": title,
        "description": text("lessons.book-subtitle"),
        "author": AUTHORS,
        "whole": whole,
        "say": {
            **{each: text(f"lessons.book-{each}", **_page(each)) for each in _SAID},
            "diagnosis": text("lessons.book-diagnosis"),
            "objectives": text("shardwise.objectives"),
            "page": PAGE,
        },
    }
    return typeset("\n\n".join(part for part in parts if part), data, at=at)


def _page(id: str) -> dict[str, str]:
    return {"page": PAGE} if id in ("solution-on", "answer-on", "questions-intro") else {}


def _front(language: Language, *, address: str | None) -> str:
    """Title, imprint, how to read the book, contents."""
    text = translator(language)
    prose = Prose(language=language)
    number = _version()
    released = _released()
    dated = formats.date(released.date(), language) if released else ""
    edition = text("lessons.book-edition", version=number) + (f", {dated}" if dated else "")
    where = address or _address()
    imprint = [
        text("lessons.book-imprint-made"),
        text("lessons.book-imprint-licence"),
        text("lessons.book-imprint-fonts"),
    ]
    imprint.append(text("lessons.book-imprint-address", address=where) if where else text("lessons.book-imprint-clone"))
    return call(
        "front",
        title=f"[{words(text('lessons.book-title'))}]",
        subtitle=f"[{words(text('lessons.book-subtitle'))}]",
        edition=f"[{words(edition)}]",
        authors=f"[{words(text('lessons.book-authors'))}]",
        imprint=array(f"[{prose.inline(each)}]" for each in imprint),
        code=string(_drawn(where)) if where else "none",
        code_alt=string(text("lessons.book-code-alt", address=where)) if where else '""',
        preface=f"[{words(text('lessons.book-preface'))}]",
        reading=array(f"[{prose.inline(text(f'lessons.book-preface-{n}'))}]" for n in range(1, 5)),
        contents=f"[{words(text('lessons.book-contents'))}]",
    )


def _version() -> str:
    try:
        return version("shardwise")
    except PackageNotFoundError:
        return "0"


def _released() -> datetime | None:
    """The day on which this version was released, as the changelog says."""
    changelog = ROOT / "CHANGELOG.md"
    if not changelog.is_file():
        return None
    number = re.escape(_version())
    found = re.search(rf"^## \[{number}\] - (\d{{4}}-\d\d-\d\d)$", changelog.read_text(encoding="utf-8"), re.MULTILINE)
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else None


def _address() -> str | None:
    """Where the course lives, if its package names a page."""
    try:
        named = metadata("shardwise").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    return next((str(each).split(",", 1)[1].strip() for each in named), None)


def _drawn(address: str) -> str:
    out = io.BytesIO()
    segno.make(address, error="m", micro=False).save(out, kind="svg", border=0, xmldecl=False, dark="#1a1a1a")
    return out.getvalue().decode("utf-8")
