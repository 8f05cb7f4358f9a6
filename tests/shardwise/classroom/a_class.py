"""A class for tests of grading: a course folder with assignments that were given out, and hand-ins in any state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from labs.exercises import exercise
from shardwise.classroom import assignments
from shardwise.classroom import course as classes
from shardwise.classroom.course import Assignment, Course, Student
from shardwise.classroom.own import Own
from shardwise.classroom.parts import answer_cell

Notebook = dict[str, Any]
EXERCISE = "model-states"
"""On one rank and without training: the quickest to grade."""
OPEN = f"%%exercise {EXERCISE}\n# not yet\n"
"""Code of which grading sees without running it that it is not written."""


def made(
    folder: Path,
    *,
    exercises: tuple[str, ...] = (EXERCISE,),
    students: Mapping[str, str] | None = None,
    languages: tuple[str, ...] = ("en", "nl", "ar"),
    due: datetime | None = None,
    resits: Mapping[str, str] | None = None,
    **more: Any,
) -> Course:
    """A course folder with these assignments given out; `students` are languages by id, `resits` what
    each may replace.
    """
    course = Course(
        id="dst-test",
        title="Training at scale",
        languages=languages,
        zone="Europe/Amsterdam",
        assignments=(
            *(Assignment(id=each, exercise=each, due=due) for each in exercises),
            *(Assignment(id=each, exercise=of, due=due, resit_of=of) for each, of in (resits or {}).items()),
        ),
        **more,
    )
    folder.mkdir(parents=True, exist_ok=True)
    classes.write(course, folder)
    listed = [Student(id=id, first_name=id.title(), language=code) for id, code in (students or {}).items()]
    classes.write_students(listed, folder)
    give_out(course, folder)
    return course


def give_out(course: Course, folder: Path) -> None:
    """The assignments as `classroom new` and `nbgrader generate_assignment` leave them."""
    for assignment in course.assignments:
        for code_, name in assignments.names(assignment, course).items():
            path = folder / "release" / assignment.id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(assignments.notebook(assignment, course, code_), encoding="utf-8")


def given(folder: Path, assignment: str = EXERCISE, language: str = "en") -> Notebook:
    """The notebook that was given out."""
    place = folder / "release" / assignment
    path = place / f"{assignment}.ipynb" if language == "en" else place / f"languages/{assignment}.{language}.ipynb"
    found: Notebook = json.loads(path.read_text(encoding="utf-8"))
    for each in found["cells"]:
        each["source"] = "".join(each["source"])
    return found


def cell(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    """The cell of this nbgrader id."""
    return next(each for each in notebook["cells"] if each["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def code(version: str = "solution", id: str = EXERCISE) -> str:
    """The code cell with this version of the exercise."""
    return f"%%exercise {id}\n" + (exercise(id).folder / f"{version}.py").read_text(encoding="utf-8")


def right_answers(course: Course, student: str, assignment: str = EXERCISE) -> dict[str, str]:
    """What a student writes who knows everything."""
    own = Own(course=course.id, assignment=course.assignment(assignment), student=student)
    fault = {"line": min(own.fault.lines), "rule": own.fault.rule}
    numbers = {key: right_number(each) for key, each in zip(("first", "second"), own.numbers, strict=True)}
    return {
        "code": code(id=course.assignment(assignment).exercise),
        "fault": f"%%answer fault\n{fault!r}",
        "numbers": f"%%answer numbers\n{numbers!r}",
        "explain": "Each rank keeps only its own part, so the bytes fall by the number of ranks.",
    }


def right_number(variant: Any) -> str:
    """The key of a question, by asking the grader itself."""
    from quiz import grade

    return grade(variant, "1", "en").key.replace("\u00a0", " ").replace("\u202f", " ")


def answered(notebook: Notebook, answers: Mapping[str, str]) -> Notebook:
    """The notebook with these answers, by part."""
    for part, text in answers.items():
        cell(notebook, answer_cell(part))["source"] = text  # type: ignore[arg-type]
    return notebook


def hand_in(
    folder: Path,
    student: str,
    answers: Mapping[str, str],
    *,
    assignment: str = EXERCISE,
    language: str = "en",
    at: str = "2026-11-20 10:00:00.000000 UTC",
    change: Callable[[Notebook], Notebook | None] | None = None,
) -> Path:
    """A folder as nbgrader collects it, whose notebook was then changed by an accident."""
    place = folder / "submitted" / student / assignment
    place.mkdir(parents=True, exist_ok=True)
    notebook = answered(given(folder, assignment, language), answers)
    notebook = (change(notebook) if change is not None else None) or notebook
    name = f"{assignment}.ipynb" if language == "en" else f"languages/{assignment}.{language}.ipynb"
    if language != "en":
        (place / "languages").mkdir(exist_ok=True)
        untouched = given(folder, assignment, "en")
        (place / f"{assignment}.ipynb").write_text(json.dumps(untouched), encoding="utf-8")
    (place / name).write_text(json.dumps(notebook), encoding="utf-8")
    (place / "timestamp.txt").write_text(at, encoding="utf-8")
    (place / "submission_secret.txt").write_text(f"secret of {student}", encoding="utf-8")
    return place
