"""What FairScale, both versions of FSDP, DeepSpeed and Megatron Core call the same ideas, and how FairScale's became
PyTorch's. Names, dates and sources are data; the ideas and what happened are messages.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from labs.telemetry.drawing.table import Table
from translations import Language, Translator, translator

FILE = Path(__file__).with_name("names.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    id: str
    title: str
    version: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """`names` by the library's id; empty where it has no such thing. Called `labs.names-<id>`."""

    id: str
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened is `labs.names-history-<id>`."""

    id: str
    date: str
    source: str


@functools.cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def libraries() -> tuple[Library, ...]:
    return tuple(Library(**each) for each in _read()["libraries"])


def ideas() -> tuple[Idea, ...]:
    own = [each.id for each in libraries()]
    return tuple(
        Idea(id=each["id"], names={library: tuple(each[library]) for library in own}) for each in _read()["ideas"]
    )


def history() -> tuple[Event, ...]:
    """In the order of time."""
    return tuple(Event(**each) for each in _read()["history"])


def names_table(language: Language, *, only: Collection[str] = (), of: Collection[str] = ()) -> Table:
    """An idea in each row, a library in each column, for a lesson: all of them, or `only` these ideas `of` these
    libraries.
    """
    text = translator(language)
    columns = [each for each in libraries() if not of or each.id in of]
    rows = [
        [text(f"labs.names-{idea.id}"), *(told(idea.names[each.id], text) for each in columns)]
        for idea in ideas()
        if not only or idea.id in only
    ]
    header = [text("labs.names-idea"), *(f"{each.title} {each.version}" for each in columns)]
    return Table(rows, header=header, language=language, caption=text("labs.names-title"))


def history_table(language: Language) -> Table:
    """When, what, and where it stands."""
    text = translator(language)
    rows = [[each.date, text(f"labs.names-history-{each.id}"), each.source] for each in history()]
    header = [text(f"labs.names-{column}") for column in ("date", "event", "source")]
    return Table(rows, header=header, language=language, caption=text("labs.names-history"))


def told(names: tuple[str, ...], text: Translator) -> str:
    return ", ".join(names) if names else text("labs.names-none")
