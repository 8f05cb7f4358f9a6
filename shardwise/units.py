"""The map of the course: its units in their order, what each needs first, and which lessons are there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from translations import SOURCE, CourseError, Language, Translator

LESSONS = Path(__file__).resolve().parent.parent / "lessons"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit: a lesson, a bank, exercises and a quiz. `needs` are ids of units that come first."""

    id: str
    minutes: int
    needs: tuple[str, ...]

    @property
    def number(self) -> int:
        return int(self.id.split("-", 1)[0])

    def title(self, text: Translator) -> str:
        return text(f"shardwise.unit-{self.id}")

    def open(self, language: Language) -> bool:
        """Whether its lesson can be read: in this language, or in English beside one in preparation."""
        codes = (language.code,) if language.released else (language.code, SOURCE)
        return any((LESSONS / code / f"{self.id}.ipynb").is_file() for code in codes)

    def taught(self, language: Language, text: Translator) -> Unit:
        """Itself. Raises CourseError while its lesson is still being written: questions of its bank may be there before
        it, and what they add up to is no quiz of the unit yet.
        """
        if not self.open(language):
            raise CourseError("shardwise.unit-not-there-yet", unit=self.title(text))
        return self


@cache
def units() -> tuple[Unit, ...]:
    """All units of the course, in order."""
    listed = yaml.safe_load(Path(__file__).with_name("units.yaml").read_text(encoding="utf-8"))["units"]
    return tuple(Unit(id=each["id"], minutes=each["minutes"], needs=tuple(each["needs"])) for each in listed)


def unit(id: str) -> Unit:
    """The unit with this id, or the one with this number ("4"). Raises CourseError naming those there are."""
    for each in units():
        if id in (each.id, str(each.number), f"{each.number:02}"):
            return each
    raise CourseError("shardwise.unknown-unit", unit=id, known=", ".join(each.id for each in units()))
