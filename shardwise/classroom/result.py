"""What grading found of one submission: a frozen value, and `result.json`, by which it travels.

A result is whole by itself: it has every part with its points, the words for the student in the language that they
worked in, and the reason where there was nothing to grade. Whoever imports, shows or counts results reads nothing else.
It holds no hidden value: of what was checked it has the student's own words and the checker's sentences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

from labs.exercises.content import Exercise, exercise
from labs.exercises.verdict import Verdict
from shardwise.classroom.parts import PARTS, POINTS
from translations import CourseError, Language

VERSION = 1
LARGEST = 16_000_000
"""Bytes of a result that is read."""
State = Literal["graded", "nothing", "unreadable", "crashed"]
"""`nothing` was handed in; what was handed in is `unreadable`; grading it `crashed` the grader each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an assignment. `cell` is its grade cell; `points` is None while a person has to give them.

    `message` is for the student; `failed_at` and `rank` are a check's.
    """

    name: str
    cell: str
    points: float | None
    of: float
    message: str = ""
    failed_at: str | None = None
    rank: int | None = None

    @property
    def by_hand(self) -> bool:
        return self.points is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about what was handed in that was found, and where it could be, repaired: the id of a message and its
    values, and the sentence in the student's language.
    """

    id: str
    values: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What grading one submission found. With the same source and seed another run finds the same.

    `verdict` is that of the exercise's own check. `sha256` is of the file that was graded, `digest` of all that was
    handed in. `sandboxed` is False only where a teacher asked for it. `equal_to_solution`: the code is the published
    solution, but for comments and layout. Times are ISO 8601 with a zone.
    """

    exercise: str
    language: str
    sha256: str
    seed: int
    sandboxed: bool
    verdict: Verdict
    seconds: float
    parts: tuple[Part, ...] = ()
    state: State = "graded"
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    equal_to_solution: bool = False
    file: str = ""
    digest: str = ""
    course: str | None = None
    assignment: str | None = None
    student: str | None = None
    handed_in: str | None = None
    graded: str = ""

    @property
    def points(self) -> float:
        """The points that are known: those that a person gives are not."""
        return round(sum(each.points or 0.0 for each in self.parts), 2)

    @property
    def of(self) -> float:
        return round(sum(each.of for each in self.parts), 2)

    def part(self, name: str) -> Part | None:
        return next((each for each in self.parts if each.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The content of `result.json`."""
        told = {**self.verdict.as_dict(), "finding": self.verdict.finding, "printed": self.verdict.printed}
        return {"version": VERSION, **asdict(self), "verdict": told, "points": self.points, "of": self.of}

    def write(self, path: Path) -> None:
        """As JSON, in one piece and on the disk: a reader never finds half of it, nor does who comes after a crash."""
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with part.open("w", encoding="utf-8", errors="backslashreplace") as opened:
            opened.write(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(path)

    def about(self, **known: Any) -> Result:
        """The same with what the caller knows: course, student, times."""
        return replace(self, **known)


def nothing(*, state: State, reason: str, exercise_id: str, language: Language, digest: str = "") -> Result:
    """The result of one from whom there is nothing that can be graded: no points, and why. Every part of what crashed
    the grader waits for a person.
    """
    own = exercise(exercise_id, language)
    points = None if state == "crashed" else 0.0
    verdict = not_run(own, f"file/{state}", reason)
    return Result(
        exercise=exercise_id,
        language=language.code,
        sha256="",
        seed=0,
        sandboxed=True,
        verdict=verdict,
        seconds=0.0,
        parts=tuple(Part(name=name, cell=name, points=points, of=POINTS[name], message=reason) for name in PARTS),
        state=state,
        reason=reason,
        digest=digest,
        graded=now(),
    )


def not_run(own: Exercise, failed_at: str, said: str) -> Verdict:
    """The verdict on what was never run, or did not come to its end."""
    return Verdict(passed=False, points=0, of=own.of, failed_at=failed_at, message=said, finding=said, rank=None)


def now() -> str:
    """The moment, as results have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of `result.json`."""
    found: Mapping[str, Any] = json.loads(
        (Path(__file__).parent / "schema" / "result.schema.json").read_text(encoding="utf-8")
    )
    return found


def read(path: Path) -> Result:
    """A result out of its file. Raises CourseError where it is none: it may come from another machine."""
    import jsonschema

    try:
        if path.stat().st_size > LARGEST:
            raise ValueError("too large")
        data = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(data, schema())
    except (OSError, ValueError, RecursionError, jsonschema.ValidationError) as error:
        reason = error.message if isinstance(error, jsonschema.ValidationError) else error
        raise CourseError("shardwise.grade-no-result", path=str(path), reason=str(reason)[:200]) from None
    return from_json(data)


def from_json(data: Mapping[str, Any]) -> Result:
    """A result out of JSON that fits the schema."""
    known = {name: data[name] for name in Result.__dataclass_fields__ if name in data}
    return Result(
        **{
            **known,
            "verdict": Verdict(**data["verdict"]),
            "parts": tuple(Part(**each) for each in data["parts"]),
            "findings": tuple(Finding(**each) for each in data["findings"]),
        }
    )
