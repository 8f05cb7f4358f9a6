"""A room's messages in a learner's language."""

from __future__ import annotations

from dataclasses import dataclass

from translations import catalogs, formats, wording
from translations.available import Language
from translations.available import language as find


@dataclass(frozen=True)
class Translator:
    """``text("labs.rank-raised", rank=1)``: the message in one language; English where it has no current translation.

    The id's first word is the room. Raises KeyError for an id or placeholder that the room does not know: an author's
    error. In a right-to-left language, Latin values are isolated so that they do not reorder the sentence. A value that
    is itself a CourseError is put into the same language.
    """

    language: Language

    def __call__(self, id: str, /, **values: object) -> str:
        room, _, name = id.partition(".")
        message = wording.find(id)
        catalog = catalogs.catalog(self.language, room)
        if isinstance(message, str):
            pattern = catalog.get(name, message)
        else:
            pattern = catalog.get_plural(name, message, count=int(str(values["count"])))
        return wording.fill(pattern, {key: self._value(value) for key, value in values.items()})

    def _value(self, value: object) -> object:
        if isinstance(value, wording.CourseError):
            return value.in_language(self)
        return formats.isolate_latin(str(value)) if self.language.direction == "rtl" else value


class Phrase(str):
    """A translated string of a lesson's cell: isolated in it, Latin runs and values read whole."""

    right_to_left: bool

    def __new__(cls, text: str, language: Language | str) -> Phrase:
        right_to_left = find(language).direction == "rtl"
        phrase = super().__new__(cls, formats.isolate_runs(text) if right_to_left else text)
        phrase.right_to_left = right_to_left
        return phrase

    def format(self, *values: object, **named: object) -> str:
        """As ``str.format``, each value kept in its direction."""
        if not self.right_to_left:
            return super().format(*values, **named)
        return super().format(
            *(_Directed(value) for value in values), **{name: _Directed(value) for name, value in named.items()}
        )


class _Directed:
    """A value that is formatted as itself and then isolated."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __format__(self, specification: str) -> str:
        return formats.isolate_latin(format(self.value, specification))


def translator(language: Language | str) -> Translator:
    """The messages of every room in this language."""
    return Translator(find(language))
