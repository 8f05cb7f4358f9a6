"""What an exam is held by: time, marks, attempts, banks and the practical part, from one file.

The file is `quiz/policy.yaml`, or an issuer's own, which has the section `exam` alone and may leave out what it does
not change. Nothing else in the course or the service knows a threshold of an exam.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from quiz.items import FOLDER, validated
from translations import CourseError

OWN = FOLDER / "policy.yaml"
TaskKind = Literal["write", "repair"]


@dataclass(frozen=True, kw_only=True)
class PracticalPolicy:
    """The practical part.

    `tasks` different exercises of `exercises`, each of a kind of `kinds`; `pass_mark` of all points.
    """

    tasks: int
    exercises: tuple[str, ...]
    kinds: tuple[TaskKind, ...]
    pass_mark: float


@dataclass(frozen=True, kw_only=True)
class ExamPolicy:
    """The rules of one exam. `blueprint` is a name of ours or a path; `banks` are folders, absolute.

    `public_bank`: whether items of this repository's bank, which anybody can read, may be asked. `explanations`:
    whether the learner reads them after handing in. `valid_months` None: what is issued holds without end.
    """

    blueprint: str
    banks: tuple[Path, ...]
    public_bank: bool
    minutes: int
    pass_mark: float
    attempts: int
    wait_hours: float
    explanations: bool
    practical: PracticalPolicy | None
    valid_months: int | None
    objective_mark: float
    measured: Mapping[str, float] = field(default_factory=dict)
    """Shares of credit by `id@version` from an analysis, which take the place of estimates."""


def exam_policy(path: Path | None = None) -> ExamPolicy:
    """The course's rules, or those of an issuer's file over them.

    Raises CourseError that says what is wrong with it.
    """
    own = _section(OWN)
    if path is None:
        return _policy(own, OWN.parent)
    return _policy(own | _section(path), path.parent)


def _section(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = validated(path, "exam-policy.schema.json")["exam"]
    except OSError as error:
        raise CourseError("quiz.exam-no-file", path=str(path)) from error
    except ValueError as error:
        raise CourseError("quiz.exam-file-wrong", reason=str(error)) from error
    return found


def _policy(section: dict[str, Any], folder: Path) -> ExamPolicy:
    practical = section["practical"]
    if practical is not None:
        practical = PracticalPolicy(
            tasks=practical["tasks"],
            exercises=tuple(practical["exercises"]),
            kinds=tuple(practical["kinds"]),
            pass_mark=practical["pass_mark"],
        )
        if practical.tasks > len(practical.exercises):
            raise CourseError("quiz.exam-too-few-exercises", tasks=practical.tasks, exercises=len(practical.exercises))
    named = section["blueprint"]
    if named.endswith((".yaml", ".yml")):
        named = str((folder / named).resolve())
    return ExamPolicy(
        **{
            **section,
            "blueprint": named,
            "banks": tuple((folder / each).expanduser().resolve() for each in section["banks"]),
            "practical": practical,
            "measured": {} if section["measured"] is None else _measured(folder / section["measured"]),
        },
        objective_mark=_objective_mark(),
    )


def _measured(path: Path) -> dict[str, float]:
    """The shares of an analysis; what it withheld is not among them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        shares = {f"{each['item']}@{int(each['version'])}": each["difficulty"] for each in found["items"]}
        shares = {name: float(share) for name, share in shares.items() if share is not None}
    except OSError as error:
        raise CourseError("quiz.exam-no-file", path=str(path)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise CourseError("quiz.exam-file-wrong", reason=f"{path.name}: {type(error).__name__} {error}") from error
    if not all(0 <= share <= 1 for share in shares.values()):
        raise CourseError("quiz.exam-file-wrong", reason=f"{path.name}: 0 .. 1")
    return shares


@functools.cache
def _objective_mark() -> float:
    from quiz.policy import policy

    return policy().objective_mastery
