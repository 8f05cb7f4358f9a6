"""Where the items of an exam come from: this repository's bank, and folders of private ones of the same schema.

An item is held with everything that it says, in every language, under the hash of all this. What was drawn is kept
under that hash: an item edited later is another one, and no paper changes.

A private folder has `<unit>.yaml` (schema `quiz/schema/bank.schema.json`) and, for each other language,
`<unit>.<language>.yaml`, a map of context (`item-id.options.key.text`) to text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quiz.items import BANK, Item, made, misconceptions, objectives, units, validated
from translations import SOURCE, CourseError, released
from translations.catalogs import catalog

Content = Mapping[str, Any]
"""An item as JSON: its unit, its fields, and its texts by language and context. `digest_of` names it."""
_LANGUAGE_FILE = re.compile(r"^(?P<unit>[0-9]{2}-[a-z0-9-]+)\.(?P<language>[a-z]{2,3})\.yaml$")
UNFINISHED = "TO BE WRITTEN BY THE AUTHOR"
"""Stands in imported questions and templates where a text is missing."""
LARGEST = 4_000_000
"""Bytes of the largest file that is read as a bank."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """An item of a bank with its content; `public`: anybody can read it in this repository."""

    item: Item
    content: Content
    digest: str
    public: bool


@dataclass(frozen=True, kw_only=True)
class Banks:
    """All items that an exam may draw from, by id. An id stands once; a private item never hides a public one."""

    held: Mapping[str, Held]

    @property
    def digest(self) -> str:
        """One hash of everything held: equal banks have equal ones, whatever their files are called."""
        listed = "\n".join(sorted(each.digest for each in self.held.values()))
        return "sha256:" + hashlib.sha256(listed.encode()).hexdigest()


def banks(folders: Sequence[Path] = (), *, public_bank: bool = False) -> Banks:
    """The items of the folders named and, if wanted, of the public bank.

    Raises CourseError for a folder that is missing or empty, a file that breaks the schema, an id met twice, and an
    objective or misconception that the course does not know.
    """
    found: dict[str, Held] = {}
    groups = [_public(unit) for unit in units()] if public_bank else []
    for each in (*groups, *(_private(folder) for folder in folders)):
        for held in each:
            if held.item.id in found:
                raise CourseError("quiz.exam-id-twice", id=held.item.id)
            found[held.item.id] = held
    return Banks(held=found)


def item_of(content: Content) -> Item:
    """The item of a content that was kept."""
    return made(content["item"], unit=content["unit"], texts=content["texts"])


def digest_of(content: Content) -> str:
    """The hash by which a content is kept and found."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def hold(fields: Mapping[str, Any], *, unit: str, texts: Mapping[str, Mapping[str, str]], public: bool) -> Held:
    content = {"unit": unit, "item": dict(fields), "texts": {code: dict(of) for code, of in texts.items() if of}}
    return Held(item=item_of(content), content=content, digest=digest_of(content), public=public)


def contexts(fields: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The context and the English of every text of an item that a learner reads."""
    item = fields["id"]
    yield f"{item}.text", fields["text"]
    yield f"{item}.feedback", fields["feedback"]
    for group in ("options", "lines", "steps", "inversions", "pairs", "answers", "slips"):
        for part in fields.get(group, ()):
            for field in ("text", "feedback"):
                if field in part:
                    yield f"{item}.{group}.{part['key']}.{field}", part[field]


def _public(unit: str) -> Iterable[Held]:
    others = [catalog(each, f"bank-{unit}") for each in released() if each.code != SOURCE]
    for fields in validated(BANK / f"{unit}.yaml", "bank.schema.json")["items"]:
        texts: dict[str, dict[str, str]] = {}
        for other in others:
            said = {context: other.get(context, english.strip()) for context, english in contexts(fields)}
            own = {context.partition(".")[2]: text for context, text in said.items()}
            texts[other.language.code] = own
        yield hold(fields, unit=unit, texts=texts, public=True)


def _private(folder: Path) -> Iterable[Held]:
    if not folder.is_dir():
        raise CourseError("quiz.exam-no-bank", path=str(folder))
    files = sorted(path for path in folder.glob("*.yaml") if not _LANGUAGE_FILE.match(path.name))
    if not files:
        raise CourseError("quiz.exam-no-bank", path=str(folder))
    taught, named = {each.id: each.unit for each in objectives()}, misconceptions()
    for path in files:
        data = _read(path)
        unit = data["unit"]
        texts = {code: _texts(folder / f"{unit}.{code}.yaml") for code in _codes(folder, unit)}
        for fields in data["items"]:
            if taught.get(fields["objective"]) != unit:
                raise CourseError("quiz.exam-objective", id=fields["id"], objective=fields["objective"], unit=unit)
            for idea in _misconceptions(fields):
                if idea not in named:
                    raise CourseError("quiz.exam-misconception", id=fields["id"], misconception=idea)
            if UNFINISHED in str(fields):
                raise CourseError("quiz.exam-unfinished", id=fields["id"])
            own = {
                code: {
                    context.partition(".")[2]: of[context] for context, _english in contexts(fields) if context in of
                }
                for code, of in texts.items()
            }
            yield hold(fields, unit=unit, texts=own, public=False)


def _misconceptions(fields: Mapping[str, Any]) -> Iterable[str]:
    for group in ("options", "lines", "inversions", "pairs", "slips"):
        yield from (part["misconception"] for part in fields.get(group, ()) if "misconception" in part)


def _codes(folder: Path, unit: str) -> list[str]:
    found = [_LANGUAGE_FILE.match(path.name) for path in folder.glob(f"{unit}.*.yaml")]
    return sorted(each["language"] for each in found if each and each["unit"] == unit)


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise CourseError("quiz.exam-file-wrong", reason=f"{path.name} > {LARGEST} B")
        _plain(path)
        return validated(path, "bank.schema.json")
    except OSError as error:
        raise CourseError("quiz.exam-no-file", path=str(path)) from error
    except (ValueError, yaml.YAMLError) as error:
        raise CourseError("quiz.exam-file-wrong", reason=str(error)[:500]) from error


def _plain(path: Path) -> None:
    """Raises CourseError for a file with aliases, by which a small one stands for a huge one."""
    for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise CourseError("quiz.exam-file-wrong", reason=f"{path.name}: an alias (*{event.anchor})")


def _texts(path: Path) -> Mapping[str, str]:
    try:
        _plain(path)
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CourseError("quiz.exam-file-wrong", reason=str(error)[:500]) from error
    if not isinstance(data, dict) or not all(isinstance(k, str) and isinstance(v, str) for k, v in data.items()):
        raise CourseError("quiz.exam-file-wrong", reason=f"{path.name}: context: text")
    return data
