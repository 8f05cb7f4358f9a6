"""Taking a student's data away again: what there is, first shown, then gone.

A class keeps of a student what was handed in, what grading and feedback made of it, rows of the gradebook, an entry in
the list and in `class.yaml`, and copies that nbgrader's exchange has. All of that is found by the student's id and
removed; what others wrote stays. A log says when how much was removed, and of nobody by name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shardwise.classroom import course as classes
from shardwise.classroom.announcing import FOLDER, OWN
from shardwise.classroom.batch import RESULTS, SUBMITTED
from shardwise.classroom.cluster import FOLDER as FOLDER_OF_CLUSTERS
from shardwise.classroom.course import Course
from shardwise.classroom.gradebook import DATABASE
from shardwise.classroom.sheet import gradebook

LOG = "purged.jsonl"
FOLDERS = (SUBMITTED, RESULTS, "autograded", "feedback")
"""Folders of a course folder that have one folder a student."""
BEFORE = f"{classes.NAME}.before"
"""An earlier `class.yaml`, which may name them."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What there is of one student: folders and files, submissions in the gradebook, and when they last handed in."""

    student: str
    paths: tuple[Path, ...]
    submissions: int
    last: datetime | None


def find(folder: Path, student: str) -> Found:
    """Everything of one student in a course folder and, where `class.yaml` names it, in the exchange."""
    course = classes.read(folder)
    paths = [folder / name / student for name in FOLDERS if (folder / name / student).exists()]
    paths += [each for each in (folder / BEFORE, folder / FOLDER_OF_CLUSTERS) if each.exists()]
    if course.exchange:
        area = Path(course.exchange).expanduser() / course.id
        paths += [*_exchanged(area, student), *_pages(area, folder, student)]
    submissions, last = _rows(folder, course, student)
    return Found(student=student, paths=tuple(paths), submissions=submissions, last=last)


def older(folder: Path, days: int, *, now: datetime | None = None) -> tuple[str, ...]:
    """The students who handed nothing in within so many days; who never did is measured by the class's last due date,
    and stays where there is none.
    """
    course = classes.read(folder)
    before = (now or datetime.now(UTC)) - timedelta(days=days)
    dues = [each.due for each in course.assignments if each.due is not None]
    found = []
    for student in everyone(folder):
        own = [due for each in course.assignments if (due := course.due(student, each.id)) is not None]
        moments = [*own, *dues, *([last] if (last := find(folder, student).last) else [])]
        if moments and max(moments) < before:
            found.append(student)
    return tuple(found)


def everyone(folder: Path) -> tuple[str, ...]:
    """Every student of whom there is anything."""
    known = {each.id for each in classes.students(folder)}
    for name in FOLDERS:
        if (folder / name).is_dir():
            known |= {each.name for each in (folder / name).iterdir() if each.is_dir() and each.name[0] != "."}
    if (folder / DATABASE).is_file():
        with gradebook(folder, classes.read(folder)) as book:
            known |= {each.id for each in book.students}
    return tuple(sorted(known))


def purge(folder: Path, students: Sequence[str]) -> None:
    """Removes all that `find` finds of these students, and then their names. What was begun can be begun again."""
    removed = 0
    for student in students:
        for path in find(folder, student).paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed += 1
    course, gone = classes.read(folder), set(students)
    if (folder / DATABASE).is_file():
        with gradebook(folder, course) as book:
            for each in [each.id for each in book.students if each.id in gone]:
                book.remove_student(each)
    if (folder / classes.STUDENTS).is_file():
        classes.write_students([each for each in classes.students(folder) if each.id not in gone], folder)
    kept = {student: own for student, own in course.extensions.items() if student not in gone}
    assignments = tuple(
        replace(each, students=tuple(one for one in each.students if one not in gone)) if each.students else each
        for each in course.assignments
    )
    if (cleaned := replace(course, extensions=kept, assignments=assignments)) != course:
        classes.write(cleaned, folder)
    _forget_journal(folder, gone)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        said = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "students": len(gone), "folders": removed}
        log.write(json.dumps(said) + "\n")


def _exchanged(area: Path, student: str) -> Iterator[Path]:
    """What the exchange has of a student under their own name: copies that were handed in, own dates."""
    for name in ("inbound", "feedback"):
        if (area / name).is_dir():
            yield from (each for each in sorted((area / name).iterdir()) if each.name.split("+")[0] == student)
    own = area / FOLDER / OWN / f"{student}.json"
    if own.exists():
        yield own


def _pages(area: Path, folder: Path, student: str) -> Iterator[Path]:
    """The student's released feedback, which lies under names that only who has the secret of a hand-in can tell."""
    from nbgrader.utils import notebook_hash  # type: ignore[import-untyped]

    for secret in sorted((folder / "feedback" / student).glob("*/submission_secret.txt")):
        for page in sorted(secret.parent.glob("*.html")):
            name = notebook_hash(secret=secret.read_text(encoding="utf-8"), notebook_id=page.stem)
            yield from sorted((area / "feedback").glob(f"{name}*.html"))


def _rows(folder: Path, course: Course, student: str) -> tuple[int, datetime | None]:
    if not (folder / DATABASE).is_file():
        return 0, None
    with gradebook(folder, course) as book:
        own = [each for row in book.assignments for each in row.submissions if each.student.id == student]
        moments = [each.timestamp.replace(tzinfo=UTC) for each in own if each.timestamp is not None]
    return len(own), max(moments, default=None)


def _forget_journal(folder: Path, gone: set[str]) -> None:
    """The lines of grading's journal that name these students."""
    from shardwise.classroom.journal import NAME, locked

    results = folder / RESULTS
    if not (results / NAME).is_file():
        return
    with locked(results):
        lines = (results / NAME).read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not any(json.dumps(student) in line for student in gone)]
        part = results / f"{NAME}.part"
        part.write_text("".join(kept), encoding="utf-8")
        part.replace(results / NAME)
