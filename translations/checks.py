"""What is wrong with the translations, by file and line."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polib
import yaml

from translations.available import Language
from translations.pipeline import Extracted, kept, load, merged, state
from translations.source.texts import CODE, LINK, Text, marks
from translations.wording import ROOT

GLOSSARY = ROOT / "translations" / "glossary.yaml"
_ALLOW = re.compile(r"^allow: (.+?) \(.+\)$", re.MULTILINE)
_WORDS = re.compile(r"[^\W\d_]{2,}")
_FEW = 3
_HARAKAT = re.compile("[\u064b-\u0652\u0670\u0640]")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to mend. Warnings are shown but don't fail."""

    language: str
    place: str
    kind: str
    what: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.language}: {self.place}: {self.kind}: {self.what}"


def check(extracted: Extracted, language: Language, *, terms: bool = False) -> Iterator[Finding]:
    """Everything to say about a language's catalogs. What waits for its translators (missing, stale, out of step) fails
    where the language is released; of one in preparation it is a warning, and what is translated must be right.

    With ``terms``, also each text in whose translation a term of the glossary can't be recognised: a list to read,
    for a good sentence may do without the term.
    """
    for name, wanted in extracted.catalogs.items():
        path = language.folder / f"{name}.po"
        old = load(path)
        catalog = merged(old, wanted, language, {})
        entries = list(catalog)
        if name not in extracted.unreadable and path.exists() and _differ(old, kept(catalog, language)):
            yield _at(language, path.name, "OUT OF STEP", "run: python -m translations update")
        seen: set[str] = set()
        for text, entry in zip(wanted, entries, strict=True):
            yield from _entry(text, entry, language, seen, first_use=name.startswith("lesson-"))
            if terms and state(entry) == "translated":
                for term in unrecognised(text.plural or text.english, " ".join(_forms(entry)), language):
                    place = f"{text.path}:{text.line}"
                    said = f"{term['en']} is {term[language.code]}: {_short(entry.msgstr)}"
                    yield Finding(language=language.code, place=place, kind="TERM", what=said, warning=True)
    for path in sorted(language.folder.glob("*.po")):
        if path.stem not in extracted.catalogs and path.stem not in extracted.unreadable:
            yield _at(language, path.name, "NO SOURCE", "no English text belongs to this catalog; delete it")


def problems(
    english: str, translated: str, language: Language, *, allowed: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """What is wrong with one translation, as kind and sentence."""
    yield from _marks(marks(english), marks(translated))
    if digits := {each for each in translated if not each.isascii() and unicodedata.decimal(each, None) is not None}:
        yield "DIGITS", f"{' '.join(sorted(digits))}: digits are Western in every language"
    prose = _prose(translated)
    for word in _avoided(language.code):
        if word not in allowed and re.search(
            rf"(?<!\w){re.escape(_plain(word))}" if word.isascii() else _plain(word), prose
        ):
            yield "GLOSSARY", f"avoid {word!r}"


def unrecognised(english: str, translated: str, language: Language) -> Iterator[Mapping[str, Any]]:
    """The glossary's terms that the English names and the translation doesn't, by the stems of their words."""
    prose, said = _prose(english), _stripped(_prose(translated))
    named = [term for term in _terms(GLOSSARY) if language.code in term]
    found = [term for term in named if re.search(rf"\b{re.escape(_name(term))}(s|es)?\b", prose)]
    for term in found:
        if any(_name(term) != _name(other) and _name(term) in _name(other) for other in found):
            continue
        wordings = [term[language.code], term.get(f"{language.code}_plural", ""), term["en"]]
        wordings += term.get("allow", {}).get(language.code, ())
        if not any(all(_stem(word) in said for word in wording.split()) for wording in wordings if wording):
            yield term


def share(extracted: Extracted, language: Language) -> tuple[int, int]:
    """How many texts a reader of the language gets in it, and of how many."""
    translated = total = 0
    for name, wanted in extracted.catalogs.items():
        catalog = merged(load(language.folder / f"{name}.po"), wanted, language, {})
        translated += sum(state(entry) == "translated" for entry in catalog)
        total += len(wanted)
    return translated, total


def _entry(
    text: Text, entry: polib.POEntry, language: Language, seen: set[str], *, first_use: bool
) -> Iterator[Finding]:
    def finding(kind: str, what: str, *, warning: bool = False) -> Finding:
        return Finding(language=language.code, place=f"{text.path}:{text.line}", kind=kind, what=what, warning=warning)

    condition = state(entry)
    if condition == "missing":
        yield finding("MISSING", _short(text.english), warning=not language.released)
        return
    if condition == "stale":
        was, now = _short(entry.previous_msgid or ""), _short(text.english)
        yield finding("STALE", f"was {was} now {now}", warning=not language.released)
        return
    if entry.msgstr == entry.msgid and len(_WORDS.findall(LINK.sub(" ", CODE.sub(" ", entry.msgid)))) > _FEW:
        yield finding("SAME", f"left in English? {_short(entry.msgid)}", warning=True)
    allowed = _ALLOW.findall(entry.tcomment or "")
    for form in _forms(entry):
        for kind, what in problems(text.plural or text.english, form, language, allowed=allowed):
            if not (text.plural and kind == "MARKS" and what == "lacks {count}"):
                yield finding(kind, what)
    if first_use:
        for term in _bracketed(language.code):
            wording, english = _plain(term[language.code]), term["en"]
            if english not in seen and english.lower() in text.english.lower() and wording in _plain(entry.msgstr):
                seen.add(english)
                if english.lower() not in entry.msgstr.lower():
                    yield finding("FIRST USE", f"{term[language.code]} without ({english})", warning=True)


def _forms(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def _name(term: Mapping[str, Any]) -> str:
    """The English term without what the glossary adds in brackets."""
    return str(term["en"]).partition(" (")[0].lower()


def _prose(text: str) -> str:
    return _plain(LINK.sub(" ", CODE.sub(" ", text)))


def _stripped(text: str) -> str:
    """Arabic spelling as a search reads it: hamza and final letters alike."""
    return text.translate(str.maketrans("أإآةى", "اااهي"))


def _stem(word: str) -> str:
    """What stays of a word in most of its forms."""
    plain = _stripped(_plain(word)).removeprefix("ال")
    return plain[: max(3, len(plain) - 2)]


def _marks(english: Counter[str], translated: Counter[str]) -> Iterator[tuple[str, str]]:
    for mark in english - translated:
        yield "MARKS", f"lacks {mark}"
    for mark in translated - english:
        yield "MARKS", f"has {mark}, which the English has not"


def _differ(old: polib.POFile, new: polib.POFile) -> bool:
    def content(catalog: polib.POFile) -> list[object]:
        return [
            (entry.msgctxt, entry.msgid, entry.msgid_plural, sorted(entry.occurrences), "fuzzy" in entry.flags)
            for entry in catalog
            if not entry.obsolete
        ]

    return content(old) != content(new)


def _at(language: Language, name: str, kind: str, what: str) -> Finding:
    place = f"translations/{language.code}/{name}"
    return Finding(language=language.code, place=place, kind=kind, what=what, warning=not language.released)


def _short(text: str) -> str:
    return repr(text if len(text) <= 90 else f"{text[:87]}...")


def _plain(text: str) -> str:
    """Without vowel marks and case, as a search reads it."""
    return _HARAKAT.sub("", text).lower()


@lru_cache(maxsize=1)
def _terms(path: Path) -> tuple[Mapping[str, Any], ...]:
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8"))["terms"])


@lru_cache(maxsize=8)
def _avoided(code: str) -> tuple[str, ...]:
    return tuple(word for term in _terms(GLOSSARY) for word in term.get("avoid", {}).get(code, ()))


@lru_cache(maxsize=8)
def _bracketed(code: str) -> tuple[Mapping[str, Any], ...]:
    """Terms whose English stands in brackets at their first use; not where both wordings are the same."""
    return tuple(
        term
        for term in _terms(GLOSSARY)
        if code in term.get("latin", ())
        and code in term
        and term[code].lower() != term["en"].lower()
        and " (" not in term["en"]
    )
