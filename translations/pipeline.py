"""From English sources to catalogs and back: what is missing or stale, and what a translator fills in."""

from __future__ import annotations

import difflib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polib
import yaml

from translations.available import SOURCE, Language, languages
from translations.source.texts import SourceError, Text
from translations.sources import Source, sources, texts
from translations.wording import ROOT

_SIMILAR = 0.5
"""From this likeness on a text counts as the changed form of one that is gone."""


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """All English texts by catalog, and what is wrong with the sources that could not be read."""

    catalogs: Mapping[str, tuple[Text, ...]]
    broken: tuple[str, ...]
    unreadable: frozenset[str]


def extract(root: Path = ROOT) -> Extracted:
    """Reads every source. A broken one is reported, and its catalog is left as it is."""
    found: dict[str, dict[str, Text]] = {}
    broken: list[str] = []
    unreadable: set[str] = set()
    for source in sources(root):
        try:
            for text in _texts(source, found.setdefault(source.catalog, {})):
                found[source.catalog].setdefault(text.context, text)
        except SourceError as error:
            broken.append(str(error))
            unreadable.add(source.catalog)
    catalogs = {name: tuple(entries.values()) for name, entries in found.items() if entries}
    return Extracted(catalogs=catalogs, broken=tuple(broken), unreadable=frozenset(unreadable))


def only(extracted: Extracted, name: str) -> Extracted:
    """One catalog of them."""
    others = frozenset(extracted.catalogs) - {name}
    catalogs = {each: texts for each, texts in extracted.catalogs.items() if each == name}
    return replace(extracted, catalogs=catalogs, unreadable=extracted.unreadable | others)


def targets() -> tuple[Language, ...]:
    """The languages that are translated into."""
    return tuple(language for language in languages() if language.code != SOURCE)


def update(extracted: Extracted, language: Language) -> list[str]:
    """Brings a language's catalogs in step with the sources; names the files that changed.

    Of a language in preparation only those are written that its translators have begun, and in them what is translated.
    """
    changed: list[str] = []
    with _alone(language.folder):
        memory = _memory(language.folder)
        for name, wanted in sorted(extracted.catalogs.items()):
            path = language.folder / f"{name}.po"
            if name in extracted.unreadable or not (language.released or path.exists()):
                continue
            if save(kept(merged(load(path), wanted, language, memory), language), path):
                changed.append(path.name)
    return changed


def load(path: Path) -> polib.POFile:
    """A catalog file; an empty one where there is none."""
    return polib.pofile(path.read_text(encoding="utf-8")) if path.exists() else polib.POFile()


def save(catalog: polib.POFile, path: Path) -> bool:
    """Writes a catalog in one step, if it differs from what is there."""
    content = str(catalog)
    if not content.endswith("\n"):
        content += "\n"
    if path.exists() and path.read_text(encoding="utf-8") == content:
        return False
    draft = path.with_suffix(f".{os.getpid()}.draft")
    draft.write_text(content, encoding="utf-8")
    draft.replace(path)
    return True


def merged(
    old: polib.POFile, wanted: Sequence[Text], language: Language, memory: Mapping[tuple[str, str], polib.POEntry]
) -> polib.POFile:
    """The catalog of the wanted texts, with what the old one knows of them.

    A text keeps its translation wherever it moves; a changed text keeps the old translation as fuzzy, beside the old
    English; a text that another catalog translates takes that translation over.
    """
    catalog = polib.POFile(wrapwidth=110)
    catalog.metadata = {
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Language": language.code,
        "MIME-Version": "1.0",
        "Plural-Forms": language.plural,
    }
    entries = [entry for entry in old if not entry.obsolete]
    by_context = {entry.msgctxt: entry for entry in entries}
    by_text = {_english(entry): entry for entry in reversed(entries) if _filled(entry)}
    english = {(text.english, text.plural) for text in wanted}
    gone = [entry for entry in entries if _filled(entry) and _english(entry) not in english]
    for text in wanted:
        new = polib.POEntry(msgctxt=text.context, msgid=text.english, occurrences=[(text.path, "")])
        if text.plural:
            new.msgid_plural = text.plural
            new.msgstr_plural = dict.fromkeys(range(language.plurals), "")
        same = by_context.get(text.context)
        if same is None or _english(same) != (text.english, text.plural):
            same = by_text.get((text.english, text.plural))
        if same is not None:
            _take(new, same)
        else:
            _renew(new, by_context.get(text.context), gone, memory)
        catalog.append(new)
    return catalog


def kept(catalog: polib.POFile, language: Language) -> polib.POFile:
    """What is written of a catalog: all of it, of a language in preparation what says something."""
    if not language.released:
        catalog[:] = [entry for entry in catalog if _filled(entry)]
    return catalog


def state(entry: polib.POEntry) -> str:
    """``translated``, ``stale`` (the English has changed since), or ``missing``."""
    if not _filled(entry):
        return "missing"
    return "stale" if "fuzzy" in entry.flags else "translated"


def todo(extracted: Extracted, language: Language, name: str | None = None) -> list[dict[str, Any]]:
    """What is missing or stale, for a translator: ``at``, ``en``, where stale ``en_was`` and ``was``, ``to``."""
    tasks: list[dict[str, Any]] = []
    memory = _memory(language.folder)
    for catalog, wanted in extracted.catalogs.items():
        if name is not None and catalog != name:
            continue
        path = language.folder / f"{catalog}.po"
        for entry in merged(load(path), wanted, language, memory if language.released or path.exists() else {}):
            if state(entry) == "translated":
                continue
            task: dict[str, Any] = {"at": f"{catalog}/{entry.msgctxt}"}
            if entry.msgid_plural:
                task["en"] = [entry.msgid, entry.msgid_plural]
                task["counts"] = _examples(language)
            else:
                task["en"] = entry.msgid
            if state(entry) == "stale":
                task["en_was"] = entry.previous_msgid
                task["was"] = list(entry.msgstr_plural.values()) if entry.msgid_plural else entry.msgstr
            task["to"] = [""] * language.plurals if entry.msgid_plural else ""
            tasks.append(task)
    return tasks


def fill(extracted: Extracted, language: Language, tasks: Iterable[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Writes what was filled in: how many, and which were refused because the English is another now."""
    wanted: dict[str, dict[str, Mapping[str, Any]]] = {}
    for task in tasks:
        if task.get("to") and any(task["to"]):
            name, _, context = str(task["at"]).partition("/")
            wanted.setdefault(name, {})[context] = task
    written = 0
    refused: list[str] = []
    with _alone(language.folder):
        memory = _memory(language.folder)
        for name, answers in wanted.items():
            path = language.folder / f"{name}.po"
            catalog = merged(load(path), extracted.catalogs.get(name, ()), language, memory)
            by_context = {entry.msgctxt: entry for entry in catalog}
            for context, task in answers.items():
                entry = by_context.get(context)
                if entry is None or _shape(task["en"]) != _english(entry):
                    refused.append(f"{name}/{context}")
                    continue
                if entry.msgid_plural:
                    entry.msgstr_plural = dict(enumerate(str(form).strip() for form in task["to"]))
                else:
                    entry.msgstr = str(task["to"]).strip()
                entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
                entry.previous_msgid = entry.previous_msgid_plural = None
                written += 1
            save(kept(catalog, language), path)
    return written, refused


def as_yaml(tasks: Sequence[Mapping[str, Any]]) -> str:
    """Tasks as the file that a translator fills in."""
    return yaml.safe_dump(list(tasks), allow_unicode=True, sort_keys=False, width=118)


def _texts(source: Source, known: Mapping[str, Text]) -> Iterator[Text]:
    for text in texts(source):
        if text.context in known and known[text.context].english != text.english:
            raise SourceError(
                f"{text.path}:{text.line}: {known[text.context].path} has another text called {text.context}"
            )
        yield text


def _english(entry: polib.POEntry) -> tuple[str, str]:
    return entry.msgid, entry.msgid_plural or ""


def _shape(english: str | Sequence[str]) -> tuple[str, str]:
    return (english.strip(), "") if isinstance(english, str) else (english[0].strip(), english[1].strip())


def _filled(entry: polib.POEntry) -> bool:
    return all(entry.msgstr_plural.values()) if entry.msgid_plural else bool(entry.msgstr)


def _take(new: polib.POEntry, old: polib.POEntry) -> None:
    """Takes a translation of the same text over as it stands."""
    new.tcomment = old.tcomment
    new.previous_msgid = old.previous_msgid
    new.flags = list(old.flags)
    if not new.msgid_plural:
        new.msgstr = old.msgstr
    elif len(old.msgstr_plural) == len(new.msgstr_plural):
        new.msgstr_plural = {int(form): text for form, text in old.msgstr_plural.items()}
    if not _filled(new):
        new.flags, new.previous_msgid = [], None


def _renew(
    new: polib.POEntry,
    same_place: polib.POEntry | None,
    gone: list[polib.POEntry],
    memory: Mapping[tuple[str, str], polib.POEntry],
) -> None:
    """Fills a new or changed text from what its place or its likeness said before, else from another catalog."""
    old = same_place if same_place is not None and _filled(same_place) else None
    if old is None and (known := memory.get(_english(new))):
        new.msgstr = known.msgstr
        return
    if old is None:
        old = _likeness(new, gone)
    if old is None or bool(old.msgid_plural) != bool(new.msgid_plural):
        return
    if old in gone:
        gone.remove(old)
    before = old.previous_msgid if "fuzzy" in old.flags else old.msgid
    _take(new, old)
    new.flags, new.previous_msgid = ["fuzzy"], before
    if before == new.msgid:
        new.flags, new.previous_msgid = [], None


def _likeness(new: polib.POEntry, gone: Sequence[polib.POEntry]) -> polib.POEntry | None:
    kind = new.msgctxt.partition("-")[0]
    best: tuple[float, polib.POEntry] | None = None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(new.msgid)
    for entry in gone:
        if entry.msgctxt.partition("-")[0] != kind:
            continue
        matcher.set_seq1(entry.msgid)
        least = best[0] if best else _SIMILAR
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least and (ratio := matcher.ratio()) > least:
            best = (ratio, entry)
    return best[1] if best else None


def _memory(folder: Path) -> dict[tuple[str, str], polib.POEntry]:
    """Sentences (not single words, whose meaning hangs on their place) that some catalog of the language translates."""
    return {
        _english(entry): entry
        for path in sorted(folder.glob("*.po"))
        for entry in load(path)
        if state(entry) == "translated" and not entry.obsolete and entry.msgid.count(" ") > 2 and not entry.msgid_plural
    }


def _examples(language: Language) -> list[str]:
    """For each plural form, some counts that take it."""
    examples: list[list[str]] = [[] for _ in range(language.plurals)]
    for count in range(1000):
        form = examples[language.plural_form(count)]
        if len(form) < 3:
            form.append(str(count))
    return [", ".join(form) for form in examples]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One writer of a language's catalogs at a time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
