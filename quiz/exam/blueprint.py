"""An exam as data: how many items of which unit, objective, form, kind and band. It names no item and no threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from quiz.exam.banks import Banks, Held, digest_of
from quiz.exam.difficulty import Band, Measured, band
from quiz.items import Form, Kind, validated
from translations import CourseError, Language
from translations import language as find

FOLDER = Path(__file__).parent / "blueprints"


@dataclass(frozen=True, kw_only=True)
class Line:
    """So many `items` of a unit. What is empty is left open: any objective, form, kind, or band.

    `asks` takes only items that put this one question, in whatever form.
    """

    unit: str
    items: int
    objective: str | None = None
    asks: str | None = None
    forms: tuple[Form, ...] = ()
    kinds: tuple[Kind, ...] = ()
    band: Band | None = None

    def takes(self, held: Held, measured: Measured | None = None) -> bool:
        """Whether an item is one of those that this line may draw."""
        item = held.item
        return (
            item.unit == self.unit
            and self.objective in (None, item.objective)
            and self.asks in (None, item.asks)
            and (not self.forms or item.form in self.forms)
            and (not self.kinds or item.kind in self.kinds)
            and self.band in (None, band(item, measured))
        )

    def __str__(self) -> str:
        wanted = (self.unit, self.objective, self.asks, "/".join(self.forms), "/".join(self.kinds), self.band)
        return f"{self.items} x " + ", ".join(each for each in wanted if each)


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A whole exam.

    `waiting` are units that it is meant to ask for, which have no bank yet; `digest` names its content.
    """

    id: str
    title: Mapping[str, str]
    lines: tuple[Line, ...]
    waiting: tuple[str, ...]
    digest: str

    @property
    def items(self) -> int:
        return sum(line.items for line in self.lines)

    @property
    def units(self) -> tuple[str, ...]:
        """The units that are asked for, in the order of the lines."""
        return tuple(dict.fromkeys(line.unit for line in self.lines))

    def called(self, language: Language | str) -> str:
        """The exam's title; the English where it has none in this language."""
        return self.title.get(find(language).code) or self.title["en"]


def blueprint(named: str = "course") -> Blueprint:
    """A blueprint of ours by its name, or one in a file by its path (which ends in .yaml).

    Raises CourseError for a file that is missing or that breaks the schema.
    """
    path = Path(named) if named.endswith((".yaml", ".yml")) else FOLDER / f"{Path(named).name}.yaml"
    try:
        data = validated(path, "blueprint.schema.json")
    except OSError as error:
        raise CourseError("quiz.exam-no-file", path=str(path)) from error
    except (ValueError, yaml.YAMLError) as error:
        raise CourseError("quiz.exam-file-wrong", reason=str(error)[:500]) from error
    lines = tuple(
        Line(**{**each, "forms": tuple(each.get("forms", ())), "kinds": tuple(each.get("kinds", ()))})
        for each in data["lines"]
    )
    return Blueprint(
        id=data["id"],
        title=data["title"],
        lines=lines,
        waiting=tuple(data.get("waiting", ())),
        digest=digest_of(data),
    )


def shortages(blueprint: Blueprint, banks: Banks, measured: Measured | None = None) -> Iterator[str]:
    """Each line for which the banks hold fewer items than it asks for, in words; said before an exam is opened."""
    for line in blueprint.lines:
        found = sum(line.takes(each, measured) for each in banks.held.values())
        if found < line.items:
            yield f"{line}: {found}"
