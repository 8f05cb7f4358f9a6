"""The exercises as they are written: a folder each, with `exercise.yaml`, `check.py` and four versions of the code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from translations import SOURCE, CourseError, Language
from translations.catalogs import catalog
from translations.source import translate_code, translate_data

FOLDER = Path(__file__).parent
Version = Literal["stub", "faded", "solution", "broken"]
VERSIONS: tuple[Version, ...] = ("stub", "faded", "solution", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One answer, and what choosing it means."""

    key: str
    text: str
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One question of a diagnosis. `answer` is the key of the right option."""

    question: str
    answer: str
    options: tuple[Option, ...]

    def feedback(self, key: str) -> tuple[bool, str]:
        """Whether the option is right, and why. Raises KeyError for a key that is none of the options'."""
        return key == self.answer, {option.key: option.feedback for option in self.options}[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What goes wrong in `broken.py`: the learner names rank (where there are ranks), operation and rule."""

    symptom: str
    rank: Part | None
    operation: Part
    rule: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The questions, in order."""
        return tuple(part for part in (self.rank, self.operation, self.rule) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise in one language. `name` is the function or class to write; `points` are in the order of checking."""

    id: str
    unit: str
    name: str
    title: str
    story: str
    task: str
    unwritten: str
    hints: tuple[str, str, str]
    points: Mapping[str, int]
    failures: Mapping[str, str]
    remarks: Mapping[str, str]
    broken: str
    diagnosis: Diagnosis
    language: str

    @property
    def of(self) -> int:
        """All points there are."""
        return sum(self.points.values())

    @property
    def folder(self) -> Path:
        return FOLDER / self.id.replace("-", "_")

    def code(self, version: Version) -> str:
        """The stub, faded, solution or broken code, with comments and docstrings in the exercise's language."""
        code = (self.folder / f"{version}.py").read_text(encoding="utf-8")
        return code if self.language == SOURCE else translate_code(code, catalog(self.language, f"exercise-{self.id}"))


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of `exercise.yaml`."""
    loaded: Mapping[str, Any] = json.loads((FOLDER / "schema" / "exercise.schema.json").read_text(encoding="utf-8"))
    return loaded


@cache
def written(id: str) -> Any:
    """`exercise.yaml` of this id, as written."""
    return yaml.safe_load((FOLDER / id.replace("-", "_") / "exercise.yaml").read_text(encoding="utf-8"))


@cache
def ids() -> tuple[str, ...]:
    """All exercises, in the order of the units; within a unit by name."""
    found = [path.parent.name.replace("_", "-") for path in FOLDER.glob("*/exercise.yaml")]
    return tuple(sorted(found, key=lambda id: (written(id)["unit"], id)))


def exercise(id: str, language: Language | str = SOURCE) -> Exercise:
    """One exercise in this language. Raises CourseError naming those there are."""
    if id not in ids():
        raise CourseError("labs.check-unknown-exercise", exercise=id, known=", ".join(ids()))
    code = language if isinstance(language, str) else language.code
    data = written(id)
    if code != SOURCE:
        data = translate_data(data, catalog(code, f"exercise-{id}"), schema())
    return Exercise(
        **{key: data[key] for key in ("id", "unit", "name", "title", "story", "task", "unwritten", "broken")},
        hints=tuple(data["hints"]),
        points=dict(data["points"]),
        failures=dict(data["failures"]),
        remarks=dict(data.get("remarks", {})),
        diagnosis=Diagnosis(
            symptom=data["diagnosis"]["symptom"],
            rank=_part(data["diagnosis"]["rank"]) if "rank" in data["diagnosis"] else None,
            operation=_part(data["diagnosis"]["operation"]),
            rule=_part(data["diagnosis"]["rule"]),
        ),
        language=code,
    )


def exercises(language: Language | str = SOURCE) -> tuple[Exercise, ...]:
    """All of them, in the order of the units."""
    return tuple(exercise(id, language) for id in ids())


def hint(id: str, n: int, language: Language | str = SOURCE) -> str:
    """Hint 1 (the idea), 2 (the place) or 3 (the line)."""
    hints = exercise(id, language).hints
    if n not in (1, 2, 3):
        raise CourseError("labs.check-no-such-hint", number=n, count=len(hints))
    return hints[n - 1]


def _part(data: Any) -> Part:
    return Part(
        question=data["question"], answer=data["answer"], options=tuple(Option(**option) for option in data["options"])
    )
