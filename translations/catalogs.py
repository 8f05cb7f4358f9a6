"""Gettext catalogs as the course reads them: by context, and never a translation of another English text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polib

from translations.available import SOURCE, Language, language


@dataclass(frozen=True)
class Entry:
    """A translation and the English text that it translates. ``stale`` means that this English has changed since."""

    english: str
    english_plural: str
    translated: str
    forms: Mapping[int, str]
    stale: bool


@dataclass(frozen=True)
class Catalog:
    """What one catalog says: a context's translation, or its English text where there is none that fits."""

    language: Language
    name: str
    entries: Mapping[str, Entry]

    def get(self, context: str, english: str) -> str:
        """The translation; the English text where it is missing or stale."""
        entry = self.entries.get(context)
        if entry is None or entry.stale or entry.english != english.strip():
            return english
        return entry.translated or english

    def get_plural(self, context: str, english: Mapping[str, str], *, count: int) -> str:
        """The translation's form for a count, else the English form ``one`` or ``other``."""
        entry = self.entries.get(context)
        if entry and not entry.stale and (entry.english, entry.english_plural) == (english["one"], english["other"]):
            form = entry.forms.get(self.language.plural_form(count), "")
            if form:
                return form
        return english["one" if count == 1 else "other"]

    def current(self, context: str, english: str) -> bool:
        """Whether a reader of this language gets a translation of exactly this text."""
        if self.language.code == SOURCE:
            return True
        entry = self.entries.get(context)
        return bool(entry and not entry.stale and entry.english == english.strip() and entry.translated)


def catalog(of: Language | str, name: str) -> Catalog:
    """The catalog ``<name>.po`` of a language; an empty one where it has none."""
    chosen = language(of)
    path = chosen.folder / f"{name}.po"
    try:
        changed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return Catalog(chosen, name, {})
    return Catalog(chosen, name, _entries(path, changed))


@lru_cache(maxsize=256)
def _entries(path: Path, _changed: int) -> Mapping[str, Entry]:
    return {
        entry.msgctxt: Entry(
            entry.msgid, entry.msgid_plural, entry.msgstr, dict(entry.msgstr_plural), "fuzzy" in entry.flags
        )
        for entry in polib.pofile(path.read_text(encoding="utf-8"))
        if entry.msgctxt and not entry.obsolete
    }
