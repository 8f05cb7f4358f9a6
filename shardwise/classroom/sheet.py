"""The marks of a class: what nbgrader's gradebook holds, with resits taken in, as one frozen table.

The gradebook is the one place where points stand; the mark follows from them by the scale in `class.yaml`. A column is
an assignment, or something that was imported (a quiz, an exam). What a teacher has not graded by hand yet is counted as
no points and said to wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwise.classroom.course import Assignment, Course, Student, read, students
from shardwise.classroom.gradebook import DATABASE, opened
from translations import CourseError

if TYPE_CHECKING:
    from nbgrader.api import Gradebook  # type: ignore[import-untyped]


@dataclass(frozen=True, kw_only=True)
class Score:
    """One student's points in one column, `penalty` (points lost by lateness) already taken off. `handed_in` is None
    where nothing was. `waits`: a person has to grade some of it.
    """

    points: float
    of: float
    penalty: float = 0.0
    handed_in: datetime | None = None
    waits: bool = False

    @property
    def share(self) -> float:
        return self.points / self.of if self.of else 0.0


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: `title` for people, and the points that can be reached."""

    id: str
    of: float


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Students by columns. `scores` lacks a pair where the column is not for that student."""

    course: Course
    students: tuple[Student, ...]
    columns: tuple[Column, ...]
    scores: Mapping[tuple[str, str], Score]

    def share(self, student: str) -> float | None:
        """All points of the student over all that could be reached; None where nothing was asked."""
        own = [each for (who, _), each in self.scores.items() if who == student]
        of = sum(each.of for each in own)
        return sum(each.points for each in own) / of if of else None

    def mark(self, student: str) -> float | None:
        """The share on the scale of the class."""
        share = self.share(student)
        return None if share is None else self.course.marks.mark(share)

    def waiting(self) -> tuple[tuple[str, str], ...]:
        """Student and column of all that waits for a person."""
        return tuple(pair for pair, score in self.scores.items() if score.waits)


@contextlib.contextmanager
def gradebook(folder: Path, course: Course) -> Iterator[Gradebook]:
    """The gradebook of a course folder. Raises CourseError where there is none, or nbgrader is not installed."""
    path = folder / DATABASE
    if not path.is_file():
        raise CourseError("shardwise.sheet-no-gradebook", path=str(path))
    with opened(path, course) as book:
        yield book


def sheet(folder: Path) -> Sheet:
    """The marks of a course folder. Students of the gradebook that the list no longer has come last."""
    course = read(folder)
    with gradebook(folder, course) as book:
        names = {each.name: each for each in book.assignments}
        known = {each.id: each for each in students(folder)}
        known |= {each.id: _student(each) for each in book.students if each.id not in known}
        asked = [each for each in course.assignments if each.resit_of is None and _counts(each, names.get(each.id))]
        own = {each.id for each in course.assignments}
        columns = [Column(id=each.id, of=_of(names[each.id])) for each in asked]
        columns += [Column(id=name, of=_of(row)) for name, row in sorted(names.items()) if name not in own]
        found = {(each.student.id, name): _score(each) for name, row in names.items() for each in row.submissions}
    scores = {}
    for student in known:
        for column in columns:
            score = _taken(course, student, column, found)
            if score is not None:
                scores[student, column.id] = score
    return Sheet(course=course, students=tuple(known.values()), columns=tuple(columns), scores=scores)


def _counts(assignment: Assignment, row: Any) -> bool:
    """Whether an assignment is a column yet: somebody's work is graded, or it was due. One that has not been given out
    takes nothing from anybody's share.
    """
    if row is None:
        return False
    return bool(row.submissions) or (assignment.due is not None and assignment.due <= datetime.now(UTC))


def _taken(course: Course, student: str, column: Column, found: Mapping[tuple[str, str], Score]) -> Score | None:
    """What counts in a column: of first try and resits the best, or the latest that was handed in."""
    assigned = any(each.id == column.id for each in course.assignments)
    if assigned and not course.is_for(student, column.id):
        return None
    tries = [found[student, column.id]] if (student, column.id) in found else []
    if assigned:
        resits = (each.id for each in course.resits_of(column.id))
        tries += [found[student, id] for id in resits if (student, id) in found]
    if not tries:
        return Score(points=0.0, of=column.of)
    if course.resits == "latest":
        chosen = max(tries, key=lambda each: each.handed_in or datetime.min.replace(tzinfo=UTC))
    else:
        chosen = max(tries, key=lambda each: each.share)
    points = chosen.share * column.of
    return Score(
        points=round(points, 2),
        of=column.of,
        penalty=chosen.penalty,
        handed_in=chosen.handed_in,
        waits=any(each.waits for each in tries),
    )


def _score(row: Any) -> Score:
    """A submission of the gradebook."""
    penalty = float(row.late_submission_penalty or 0.0)
    moment = row.timestamp
    return Score(
        points=max(0.0, float(row.score) - penalty),
        of=_of(row),
        penalty=penalty,
        handed_in=moment.replace(tzinfo=UTC) if moment is not None else None,
        waits=bool(row.needs_manual_grade),
    )


def _of(row: Any) -> float:
    return float(row.max_score or 0.0)


def _student(row: Any) -> Student:
    return Student(id=row.id, first_name=row.first_name or "", last_name=row.last_name or "", email=row.email or "")
