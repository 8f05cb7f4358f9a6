"""The English wording of a room's messages, and the error that carries one."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds the rooms."""

Message = str | Mapping[str, str]
"""English text, or its forms ``one`` and ``other`` where the wording follows ``{count}``."""


class CourseError(Exception):
    """An error that a learner may see: it keeps a message's id and values.

    ``str()`` is English; ``in_language(translations.translator(...))`` is the learner's.
    """

    def __init__(self, id: str, /, **values: object) -> None:
        super().__init__(id)
        self.id = id
        self.values = values

    def __str__(self) -> str:
        return self.in_language(english)

    def in_language(self, text: Callable[..., str]) -> str:
        return text(self.id, **self.values)

    def __reduce__(self) -> tuple[Callable[..., CourseError], tuple[object, ...]]:
        return _revive, (type(self), self.args, self.__dict__)


def _revive(kind: type[CourseError], args: tuple[object, ...], state: dict[str, Any]) -> CourseError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def english(id: str, /, **values: object) -> str:
    """The message in English."""
    message = find(id)
    pattern = message if isinstance(message, str) else message["one" if values["count"] == 1 else "other"]
    return fill(pattern, values)


def find(id: str) -> Message:
    """The message of an id whose first word is the room. Raises KeyError where the room has none: an author's error."""
    room, _, name = id.partition(".")
    return messages(ROOT / room)[name]


def messages(folder: Path) -> Mapping[str, Message]:
    """A room's messages; empty where the room has none."""
    path = folder / "messages.yaml"
    try:
        return _messages(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return {}


def fill(pattern: str, values: Mapping[str, object]) -> str:
    """The pattern with its ``{named}`` placeholders replaced; ``{{`` and ``}}`` are braces.."""
    return _PLACEHOLDERS.vformat(pattern, (), values)


class _Placeholders(string.Formatter):
    """Named placeholders only: ``{rank}``, never ``{rank.__class__}`` or ``{0}``."""

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> tuple[object, str]:
        return kwargs[field_name], field_name


_PLACEHOLDERS = _Placeholders()


@lru_cache(maxsize=32)
def _messages(path: Path, _changed: int) -> Mapping[str, Message]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast("Mapping[str, Message]", yaml.load(path.read_text(encoding="utf-8"), Loader=loader) or {})
