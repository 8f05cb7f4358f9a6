"""Results into nbgrader's gradebook: the one process that writes there, as often as one likes, always to the same end.

An assignment is one column, whatever the language worked in. What a person gave stays: a mark by hand is never touched,
and asks to be looked at again only where the work under it has changed. Lateness is reckoned anew from the class as it
stands now, so a deadline that moved takes its penalties with it. For formgrader each student's work is written as a
notebook: what was given out, in the student's language, with the student's answers and what grading found.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from quiz import rendering
from shardwise.classroom import batch
from shardwise.classroom import course as classes
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.parts import answer_cell
from shardwise.classroom.result import Part, Result
from shardwise.classroom.submission import Form, read
from translations import CourseError, language

if TYPE_CHECKING:
    from nbgrader.api import Gradebook  # type: ignore[import-untyped]

DATABASE = "gradebook.db"
AUTOGRADED = "autograded"
MARK = "graded.json"
"""In a student's autograded folder: of which work and which result it is."""
TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one result comes to in the gradebook. `before` is the score that stood there, None where there was none;
    `score` and `penalty` are the points now, hand-given ones in, and what lateness takes. `waits`: for a person.
    """

    student: str
    assignment: str
    before: float | None
    score: float
    of: float
    penalty: float
    waits: bool

    @property
    def same(self) -> bool:
        return self.before is not None and abs(self.before - self.score) < 0.005


def import_results(
    folder: Path, *, assignment: str | None = None, student: str | None = None, dry_run: bool = False
) -> tuple[Entry, ...]:
    """Every result that lies in the course folder, in the gradebook. With `dry_run` on a copy of it, and nothing else
    is written. Who handed in nothing has no entry, as nbgrader has it. Raises CourseError without nbgrader or class.
    """
    course = classes.read(folder)
    found = [each for each in batch.results(folder, assignment=assignment, student=student) if each.state != "nothing"]
    with TemporaryDirectory(prefix="shardwise-gradebook-") as scratch:
        place = folder
        if dry_run:
            place = Path(scratch)
            if (folder / DATABASE).is_file():
                shutil.copyfile(folder / DATABASE, place / DATABASE)
        with opened(place / DATABASE, course) as book:
            return tuple(_Importer(book, folder, course, dry_run=dry_run).all(found))


def penalties(folder: Path) -> int:
    """Reckons lateness anew for every submission in the gradebook, after hand marks or deadlines changed. How many
    entries were written differently.
    """
    course = classes.read(folder)
    with opened(folder / DATABASE, course) as book:
        importer = _Importer(book, folder, course, dry_run=False)
        known = {each.id for each in course.assignments}
        rows = [row for each in book.assignments if each.name in known for row in each.submissions]
        changed = sum(importer.late(row, row.student.id, row.name) for row in rows)
        book.db.commit()
    return changed


@contextlib.contextmanager
def opened(path: Path, course: Course) -> Iterator[Gradebook]:
    """nbgrader's gradebook at this path, made where there is none. Raises CourseError without nbgrader."""
    try:
        from nbgrader.api import Gradebook
    except ImportError:
        raise CourseError("shardwise.classroom-needs-nbgrader") from None
    before = os.environ.get("PATH", "")
    if not path.exists():  # making one, nbgrader calls alembic by its name
        os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), before))
    try:
        made = Gradebook(f"sqlite:///{path.absolute()}", course.id)
    finally:
        os.environ["PATH"] = before
    with made as book:
        yield book


class _Importer:
    def __init__(self, book: Gradebook, folder: Path, course: Course, *, dry_run: bool) -> None:
        self.book, self.folder, self.course, self.dry_run = book, folder, course, dry_run
        self.roster = {each.id: each for each in classes.students(folder)}
        self.forms: dict[str, Form] = {}

    def all(self, results: list[Result]) -> Iterator[Entry]:
        for assignment in self.course.assignments:
            own = [each for each in results if each.course == self.course.id and self._is_of(each, assignment)]
            if own:
                self._assignment(assignment)
            for each in own:
                yield self._one(each, assignment)

    def _is_of(self, result: Result, assignment: Assignment) -> bool:
        return result.assignment == assignment.id

    # --- the column

    def _assignment(self, assignment: Assignment) -> None:
        """The column, with its due moment as it stands now; made from what was given out where nbgrader has not yet."""
        from nbgrader.api import MissingEntry

        name = assignment.id
        due = assignment.due
        self.book.update_or_create_assignment(
            name, duedate=due.astimezone(UTC).replace(tzinfo=None) if due is not None else None
        )
        try:
            self.book.find_notebook(name, name)
        except MissingEntry:
            self.book.add_notebook(name, name)
        known = {each.name for each in self.book.find_notebook(name, name).source_cells}
        for cell in given(self.folder, assignment, self.course.language)["cells"]:
            own = cell.get("metadata", {}).get("nbgrader", {})
            if not own or own.get("grade_id") in known:
                continue
            id, grade, solution = own["grade_id"], own.get("grade", False), own.get("solution", False)
            if grade:
                about = {"max_score": float(own.get("points", 0)), "cell_type": cell["cell_type"]}
                self.book.update_or_create_grade_cell(id, name, name, **about)
            if solution:
                self.book.update_or_create_solution_cell(id, name, name)
            about = {"cell_type": cell["cell_type"], "locked": bool(own.get("locked", False)) and not solution}
            source = "".join(cell["source"])
            self.book.update_or_create_source_cell(id, name, name, source=source, checksum=own.get("checksum"), **about)

    # --- a submission

    def _one(self, result: Result, assignment: Assignment) -> Entry:
        from nbgrader.api import MissingEntry

        student, name = str(result.student), assignment.id
        listed = self.roster.get(student)
        about: Mapping[str, str] = {}
        if listed is not None:
            known = ("first_name", "last_name", "email", "lms_user_id")
            about = {key: getattr(listed, key) for key in known if getattr(listed, key)}
        self.book.update_or_create_student(student, **about)
        before = None
        with contextlib.suppress(MissingEntry):
            before = self._score(self.book.find_submission(name, student))
        moment = _moment(result)
        with self.book.db.no_autoflush:  # nbgrader puts a row together before the session knows it
            row = self.book.update_or_create_submission(
                name, student, timestamp=moment.replace(tzinfo=None) if moment is not None else None
            )
        due, own = assignment.due, self.course.due(student, name)
        row.extension = own.astimezone(UTC) - due.astimezone(UTC) if due and own and own != due else None
        fresh = self._marked(student, name).get("digest") != result.digest
        for part in result.parts:
            self._part(part, name, student, fresh=fresh)
        self.late(row, student, name)
        self.book.db.commit()
        if not self.dry_run:
            self._autograded(result, assignment, student, fresh=fresh)
        score = self._score(row)
        return Entry(
            student=student,
            assignment=name,
            before=before,
            score=score,
            of=result.of,
            penalty=sum(each.late_submission_penalty or 0.0 for each in row.notebooks),
            waits=any(grade.needs_manual_grade for each in row.notebooks for grade in each.grades),
        )

    def _part(self, part: Part, assignment: str, student: str, *, fresh: bool) -> None:
        """One grade. What a person gave stays; where the work under it is another, it asks to be looked at."""
        from nbgrader.api import Comment, Grade, MissingEntry

        try:
            grade = self.book.find_grade(part.cell, assignment, assignment, student)
        except MissingEntry:
            cell = self.book.find_grade_cell(part.cell, assignment, assignment)
            notebook = self.book.find_submission_notebook(assignment, assignment, student)
            grade = Grade(cell_id=cell.id, notebook=notebook)
            self.book.db.add(grade)
        grade.auto_score = part.points
        if grade.manual_score is None:
            grade.needs_manual_grade = part.by_hand
        elif fresh:
            grade.needs_manual_grade = True
        with contextlib.suppress(MissingEntry):
            answer = answer_cell(part.name)  # type: ignore[arg-type]
            comment: Comment = self.book.find_comment(answer, assignment, assignment, student)
            comment.auto_comment = None if part.by_hand else part.message

    def late(self, row: Any, student: str, assignment: str) -> bool:
        """What lateness takes of what was reached; whether that is another amount than before."""
        moment = row.timestamp.replace(tzinfo=UTC) if row.timestamp is not None else None
        penalty = self.course.penalty(student, assignment, moment)
        changed = False
        for notebook in row.notebooks:
            points = round(_reached(notebook) * penalty.percent / 100, 2) or None
            changed |= notebook.late_submission_penalty != points
            notebook.late_submission_penalty = points
        return changed

    def _score(self, row: Any) -> float:
        """What counts: reached, less lateness."""
        return round(sum(_reached(each) - (each.late_submission_penalty or 0.0) for each in row.notebooks), 2)

    # --- the notebook for formgrader

    def _marked(self, student: str, assignment: str) -> Mapping[str, Any]:
        try:
            found = json.loads((self._place(student, assignment) / MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _place(self, student: str, assignment: str) -> Path:
        return self.folder / AUTOGRADED / student / assignment

    def _autograded(self, result: Result, assignment: Assignment, student: str, *, fresh: bool) -> None:
        """Writes the student's work as formgrader shows it, once for each result."""
        from shardwise.classroom.grading import form

        mark = {"digest": result.digest, "graded": result.graded}
        place = self._place(student, assignment.id)
        if self._marked(student, assignment.id) == mark and (place / f"{assignment.id}.ipynb").is_file():
            return
        handed = self.folder / batch.SUBMITTED / student / assignment.id
        if assignment.id not in self.forms:
            self.forms[assignment.id] = form(self.folder, assignment)
        work = read(handed, self.forms[assignment.id], language=result.language)
        if work.digest != result.digest:  # handed in again since: the next grading writes it
            return
        place.mkdir(parents=True, exist_ok=True)
        shown = notebook(given(self.folder, assignment, result.language), result, work.answers)
        write(place / f"{assignment.id}.ipynb", json.dumps(shown, ensure_ascii=False, indent=1) + "\n")
        companions(handed, place, result)
        write(place / MARK, json.dumps(mark) + "\n")


def notebook(template: dict[str, Any], result: Result, answers: Mapping[str, str]) -> dict[str, Any]:
    """What was given out with the student's answers in it, and what grading found under each part."""
    texts = {answer_cell(name): text for name, text in answers.items()}  # type: ignore[arg-type]
    parts = {part.cell: part for part in result.parts}
    for cell in template["cells"]:
        id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")
        if id in texts:
            cell["source"] = texts[id]
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
            cell["outputs"] = [_told(parts[id], result)] if id in parts else []
    if result.findings or result.reason:
        said = [result.reason, *(each.text for each in result.findings)]
        lines = "\n".join(f"- {_inert(each)}" for each in said if each)
        metadata = {"deletable": False, "editable": False}
        cell = {"cell_type": "markdown", "id": "found", "metadata": metadata, "source": lines}
        template["cells"].insert(0, cell)
    return template


def _told(part: Part, result: Result) -> dict[str, Any]:
    """A part's message as the output of its cell: HTML in which everything that came from elsewhere is escaped."""
    reader = language(result.language)
    body = rendering.html(part.message)
    html = f'<div dir="{reader.direction}" lang="{reader.code}">{body}</div>'
    data = {"text/html": html, "text/plain": part.message}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _inert(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()<>#+!|$&" else sign for sign in text)


def given(folder: Path, assignment: Assignment, code: str) -> dict[str, Any]:
    """The notebook that was given out in this language, as JSON; the class's own language where there is none."""
    from shardwise.classroom.grading import COUNTED, language_of

    first = None
    for step in COUNTED:
        place = folder / step / assignment.id
        for path in [place / f"{assignment.id}.ipynb", *sorted(place.glob(f"languages/{assignment.id}.*.ipynb"))]:
            if path.is_file():
                first = first or path
                if language_of(path, assignment.id) == code:
                    return _json(path)
    if first is None:
        raise CourseError("shardwise.grade-nothing-given-out", assignment=assignment.id, folder=str(folder))
    return _json(first)


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def companions(handed: Path, place: Path, result: Result) -> None:
    """What nbgrader asks for beside a notebook or page: when it was handed in, and the secret by which feedback is
    found. Where the secret was never made, one of which nobody knows keeps nbgrader from stopping at it.
    """
    moment = (_moment(result) or datetime.fromisoformat(result.graded)).astimezone(UTC)
    noted = _small(handed / TIMESTAMP) if result.handed_in and handed.is_dir() else None  # None: no moment stands there
    write(place / TIMESTAMP, noted or f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC")
    secret = (_small(handed / SECRET) if handed.is_dir() else None) or _small(place / SECRET)
    write(place / SECRET, secret or secrets.token_hex(32))


def write(path: Path, text: str) -> None:
    """A file that only its owner changes, in one piece: what stood there may be read-only."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.write_text(text, encoding="utf-8", errors="backslashreplace")
    part.chmod(0o644)
    part.replace(path)


def _small(path: Path) -> str | None:
    """The text of a small ordinary file that a student could have put there; a link is not followed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            text = opened.read(1000).decode("utf-8").strip()
            return text or None
    except (OSError, UnicodeDecodeError):
        return None


def _moment(result: Result) -> datetime | None:
    return datetime.fromisoformat(result.handed_in).astimezone(UTC) if result.handed_in else None


def _reached(notebook: Any) -> float:
    """The points of a submitted notebook: those of a person before those of grading."""
    return sum(
        (each.manual_score if each.manual_score is not None else each.auto_score or 0.0) + (each.extra_credit or 0.0)
        for each in notebook.grades
    )
