"""Results of quizzes and exams, brought into the gradebook as columns of their own.

Everything is read, marked and compared before anything is written: `plan` says what would change, `apply` writes just
that, and a second time there is nothing left to write. A quiz was taken on the learner's own machine. Its answers are
marked again here, with the numbers that this learner's seed gives, so that a credit typed into the file counts for
nothing; that nobody helped with the answers, no file can show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shardwise.classroom.course import Course, Student, csv_rows
from shardwise.classroom.sheet import gradebook
from translations import CourseError

QUIZ, EXAM, LAB = "quiz", "exam", "lab"
"""What the names of columns begin with: a quiz, an exam, the practical part of an exam."""
KEPT = 2
"""Decimals of points."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What one student reached in one column, as a share of its points, and when."""

    student: str
    column: str
    share: float
    moment: datetime


@dataclass(frozen=True, kw_only=True)
class Change:
    """What an import does to one student's column; `before` is None where there was nothing."""

    taken: Taken
    before: float | None
    points: float
    of: float

    @property
    def same(self) -> bool:
        return self.before == self.points


# --- quizzes, from the learners' own records


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A finished try at a unit's quiz, marked again. `doubtful` are its answers that do not belong to its questions."""

    unit: str
    number: int
    finished: datetime
    share: float
    answers: tuple[Marked, ...]
    doubtful: int


@dataclass(frozen=True, kw_only=True)
class Marked:
    """An answer marked again: what it was about, and what it shows."""

    item: str
    objective: str
    misconception: str | None
    credit: float


def attempts(content: Mapping[str, Any]) -> Iterator[Attempt]:
    """The finished tries of an exported record."""
    answers: dict[str, list[Mapping[str, Any]]] = {}
    for row in content["answers"]:
        if row["attempt"] is not None:
            answers.setdefault(row["attempt"], []).append(row)
    for row in content["attempts"]:
        if row["finished"] is not None:
            yield _marked_again(row, answers.get(row["id"], []))


def _marked_again(attempt: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> Attempt:
    """The try with each answer graded by the bank, as far as its questions are still those of the bank."""
    from quiz import items, seed_of, variant
    from quiz.grading import grade
    from quiz.session import drawn
    from shardwise.record.store import seed_of as seed_of_try

    unit, number, seed = attempt["unit"], attempt["number"], attempt["seed"]
    known = {each.id: each for each in items(unit)}
    asked = {each.id for each in drawn(unit, learner=str(seed), attempt=number)}
    genuine = seed == seed_of_try(learner=attempt["learner"], unit=unit, number=number)
    marked: dict[str, Marked] = {}
    doubtful = 0
    for row in answers:
        item = known.get(row["item"])
        # An edited question never marks an old answer, and the credit that stands in a file is anybody's word.
        if item is None or item.version != row["version"] or not genuine or item.id not in asked:
            doubtful += 1
            continue
        if row["seed"] != seed_of(learner=str(seed), attempt=number, item=item.id):
            doubtful += 1
            continue
        try:
            graded = grade(variant(item, row["seed"]), row["given"], "en")
        except (CourseError, TypeError, AttributeError):
            doubtful += 1
            continue
        credit = min(graded.credit, 1.0)
        marked[item.id] = Marked(
            item=item.id, objective=item.objective, misconception=graded.misconception, credit=credit
        )
    questions = len(asked) or 1
    return Attempt(
        unit=unit,
        number=number,
        finished=datetime.fromisoformat(attempt["finished"]),
        share=sum(each.credit for each in marked.values()) / questions,
        answers=tuple(marked.values()),
        doubtful=doubtful,
    )


def quizzes(files: Mapping[str, Path]) -> tuple[list[Taken], list[tuple[str, CourseError]]]:
    """Each student's best try at each unit, out of the records by student; and what could not be read, or is odd."""
    taken: list[Taken] = []
    findings: list[tuple[str, CourseError]] = []
    for student, path in sorted(files.items()):
        try:
            found = tuple(attempts(_record(path)))
        except CourseError as error:
            findings.append((student, error))
            continue
        best: dict[str, Attempt] = {}
        for each in found:
            if each.doubtful:
                values = {"unit": each.unit, "number": each.number, "count": each.doubtful}
                findings.append((student, CourseError("shardwise.import-doubtful", **values)))
            if each.unit not in best or each.share > best[each.unit].share:
                best[each.unit] = each
        taken += [
            Taken(student=student, column=f"{QUIZ}-{unit}", share=each.share, moment=each.finished)
            for unit, each in sorted(best.items())
        ]
    return taken, findings


def records(folder: Path, *, students: Iterable[str]) -> dict[str, Path]:
    """The record of each student: `<id>.json` in a folder."""
    return {each: folder / f"{each}.json" for each in students if (folder / f"{each}.json").is_file()}


def _record(path: Path) -> Mapping[str, Any]:
    from quiz import units
    from shardwise.record import transfer

    content = transfer.read(path)
    known = units()
    content["attempts"] = [each for each in content["attempts"] if each["unit"] in known]
    return content


# --- exams, from the service


def exams(text: str, *, exam: str, students: Iterable[Student]) -> list[Taken]:
    """The best attempts of the issuing service's table of results, quiz and practical part in columns of their own.

    A person is found by the reference that the cohort's list gave (the student's id), else by e-mail address. Raises
    CourseError naming the line that cannot be read, or whom the class does not know.
    """
    rows = csv_rows(text)
    header = [each.strip().lower() for each in next(rows, [])]
    if missing := {"reference", "email", "ended", "state", "quiz_share", "practical_share"} - set(header):
        raise CourseError("shardwise.import-columns", missing=", ".join(sorted(missing)))
    known = {key: each.id for each in students for key in (each.id, each.email.casefold()) if key}
    taken: dict[tuple[str, str], Taken] = {}
    strangers: list[str] = []
    for line, row in enumerate(rows, start=2):
        values = {name: value.strip() for name, value in zip(header, row, strict=False)}
        if values.get("state") != "graded":
            continue
        student = known.get(values["reference"]) or known.get(values["email"].casefold())
        if student is None:
            strangers.append(values["reference"] or values["email"])
            continue
        try:
            moment = datetime.fromisoformat(values["ended"])
            for kind, share in ((EXAM, values["quiz_share"]), (LAB, values["practical_share"])):
                if not share:
                    continue
                if not 0 <= float(share) <= 1 or moment.tzinfo is None:
                    raise ValueError
                one = Taken(student=student, column=f"{kind}-{exam}", share=float(share), moment=moment)
                before = taken.get((student, one.column))
                if before is None or one.share > before.share:
                    taken[student, one.column] = one
        except ValueError:
            raise CourseError("shardwise.import-line", line=line, row=",".join(row)[:120]) from None
    if strangers:
        raise CourseError("shardwise.import-stranger", students=", ".join(strangers[:10]))
    return list(taken.values())


# --- into the gradebook


def plan(folder: Path, course: Course, taken: Sequence[Taken], *, points: float) -> list[Change]:
    """What an import would change; writes nothing. Raises CourseError for a student who is not in the gradebook."""
    with gradebook(folder, course) as book:
        known = {each.id for each in book.students}
        if strangers := sorted({each.student for each in taken} - known):
            raise CourseError("shardwise.import-stranger", students=", ".join(strangers[:10]))
        before = {
            (each.student.id, row.name): float(each.score)
            for row in book.assignments
            if row.name in {one.column for one in taken}
            for each in row.submissions
        }
    return [
        Change(
            taken=each,
            before=before.get((each.student, each.column)),
            points=round(each.share * points, KEPT),
            of=points,
        )
        for each in taken
    ]


def apply(folder: Path, course: Course, changes: Sequence[Change]) -> int:
    """Writes what differs, and says how many: a second time none."""
    wanted = [each for each in changes if not each.same]
    with gradebook(folder, course) as book:
        for column, of in {each.taken.column: each.of for each in changes}.items():
            book.update_or_create_assignment(column)
            book.update_or_create_notebook(column, column)
            book.update_or_create_grade_cell(column, column, column, max_score=of, cell_type="code")
        for each in wanted:
            moment = each.taken.moment.astimezone(UTC).replace(tzinfo=None)
            book.update_or_create_submission(each.taken.column, each.taken.student, timestamp=moment)
            grade = book.find_grade(*[each.taken.column] * 3, each.taken.student)
            grade.auto_score, grade.manual_score, grade.needs_manual_grade = each.points, None, False
            book.db.commit()
    return len(wanted)
