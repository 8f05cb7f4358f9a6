"""The notebooks of an assignment: made from an exercise, one a language, with the same cells, nbgrader ids and points.

Nothing in them is secret: what is a student's own is computed where the notebook is opened, and no solution, planted
line or key stands in any cell. The text of a notebook follows from class, assignment and language alone, so making it
twice gives the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from labs.exercises import exercise
from labs.exercises.faults import Task, task
from lessons.builder import directed
from quiz.rendering import tidy
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.parts import OF, POINTS, QUESTIONS, Part, answer_cell
from translations import Language, Translator, formats, translator
from translations import language as find

SCHEMA_VERSION = 3
"""Of nbgrader's metadata."""


def names(assignment: Assignment, course: Course) -> Mapping[str, str]:
    """Where the notebook of each language lies in the assignment's folder. nbgrader counts the one at the top."""
    return {
        code: f"{assignment.id}.ipynb" if code == course.language else f"languages/{assignment.id}.{code}.ipynb"
        for code in course.languages
    }


def notebook(assignment: Assignment, course: Course, code: str) -> str:
    """The text of an `.ipynb` file. That of the language which nbgrader counts is a source for `generate_assignment`;
    the others are as it would leave them, since it copies them as they are.
    """
    language = find(code)
    cells = _Cells(assignment, course, language).all()
    if code != course.language:
        for cell in cells:
            _as_released(cell)
    built = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Shardwise", "language": "python", "name": "shardwise"},
            "language_info": {"name": "python"},
            "shardwise": {
                "assignment": assignment.id,
                "course": course.id,
                "dir": language.direction,
                "exercise": assignment.exercise,
                "language": code,
            },
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(built, ensure_ascii=False, indent=1) + "\n"


def rubric(assignment: Assignment, code: str) -> str:
    """What the teacher gives points for in the explanation, as Markdown. It is for the teacher's eyes."""
    language, text = find(code), translator(code)
    own, asked = exercise(assignment.exercise, language), task(assignment.exercise, language)
    each = tidy(POINTS["explain"] / len(asked.explain.criteria), language)
    lines = [
        f"# {text('shardwise.rubric-title', title=own.title)}",
        f"> {asked.explain.question}",
        text("shardwise.rubric-how", points=each),
        "\n".join(f"- {criterion}" for criterion in asked.explain.criteria.values()),
        text("shardwise.rubric-half"),
    ]
    return directed(_runs("\n\n".join(lines), language), language) + "\n"


class _Cells:
    """The cells in one language."""

    def __init__(self, assignment: Assignment, course: Course, language: Language) -> None:
        self.assignment, self.course, self.language = assignment, course, language
        self.text: Translator = translator(language)
        self.exercise = exercise(assignment.exercise, language)
        self.task: Task = task(assignment.exercise, language)

    def all(self) -> list[dict[str, Any]]:
        code = self.exercise.code("stub").strip("\n")
        return [
            self.prose("intro", *self.intro()),
            self.locked("open", self.opening()),
            self.prose("code-task", self.heading("code", 1), self.exercise.task, self.say("code-how")),
            self.answer("code", f"%%exercise {self.assignment.exercise}\n{code}"),
            self.points("code", f'course.check("{self.assignment.exercise}")'),
            self.prose("fault-task", self.heading("fault", 2), self.say("fault-how")),
            self.locked("fault-show", "course.own_fault()"),
            self.answer("fault", self.blank("fault", {"line": 0, "rule": ""})),
            self.points("fault", 'course.answered("fault")'),
            self.prose("numbers-task", self.heading("numbers", 3), self.say("numbers-how")),
            self.locked("numbers-show", "course.own_numbers()"),
            self.answer("numbers", self.blank("numbers", dict.fromkeys(QUESTIONS, ""))),
            self.points("numbers", 'course.answered("numbers")'),
            self.prose("explain-task", self.heading("explain", 4), self.task.explain.question, self.say("explain-how")),
            self.by_hand("explain", self.say("explain-here")),
            self.prose("hand-in", self.say("hand-in", assignment=self.assignment.id)),
            self.locked("hand-in-here", f'course.hand_in("{self.assignment.id}")'),
        ]

    # --- texts

    def say(self, id: str, **values: object) -> str:
        return self.text(f"shardwise.assignment-{id}", **values)

    def heading(self, part: Part, number: int) -> str:
        points = int(POINTS[part])
        return f"## {number}. {self.say(f'part-{part}')} ({self.say('points', count=points)})"

    def intro(self) -> list[str]:
        title = self.exercise.title
        if self.assignment.resit_of is not None:
            title = self.say("resit", title=title)
        due = self.assignment.due
        told = self.say("due", moment=formats.moment(due, self.language)) if due else self.say("no-due")
        of = formats.number(int(OF), self.language)
        return [f"# {title}", f"**{told}** {self.say('due-moves')}", self.exercise.story, self.say("parts", points=of)]

    def opening(self) -> str:
        own = self.assignment
        named = [f'"{own.id}"', f'course="{self.course.id}"']
        if own.exercise != own.id:
            named.append(f'exercise="{own.exercise}"')
        if own.resit_of is not None:
            named.append(f'resit_of="{own.resit_of}"')
        named.append(f'language="{self.language.code}"')
        return f"from shardwise import notebook as course\n\ncourse.assignment({', '.join(named)})"

    def blank(self, part: Part, keys: Mapping[str, object]) -> str:
        """A dict to be filled in. Its keys and its form are the same in every language."""
        lines = [f'    "{key}": {json.dumps(value)},' for key, value in keys.items()]
        comment = (
            formats.isolate_runs(self.say(f"{part}-comment")) if self.right_to_left else self.say(f"{part}-comment")
        )
        return "\n".join([f"%%answer {part}", f"# {comment}", "{", *lines, "}"])

    @property
    def right_to_left(self) -> bool:
        return self.language.direction == "rtl"

    # --- cells

    def prose(self, id: str, *paragraphs: str) -> dict[str, Any]:
        text = directed(_runs("\n\n".join(paragraphs), self.language), self.language)
        return _cell("markdown", id, text, locked=True)

    def locked(self, id: str, source: str) -> dict[str, Any]:
        return _cell("code", id, source, locked=True)

    def points(self, part: Part, source: str) -> dict[str, Any]:
        return _cell("code", part, source, locked=True, points=POINTS[part])

    def answer(self, part: Part, source: str) -> dict[str, Any]:
        return _cell("code", answer_cell(part), source, solution=True)

    def by_hand(self, part: Part, source: str) -> dict[str, Any]:
        return _cell("markdown", answer_cell(part), source, solution=True, points=POINTS[part])


def _cell(
    kind: str, id: str, source: str, *, locked: bool = False, solution: bool = False, points: float | None = None
) -> dict[str, Any]:
    own: dict[str, Any] = {
        "cell_type": kind,
        "grade": points is not None,
        "grade_id": id,
        "locked": locked,
        "schema_version": SCHEMA_VERSION,
        "solution": solution,
        "task": False,
    }
    if points is not None:
        own["points"] = points
    metadata: dict[str, Any] = {"nbgrader": own}
    if solution:
        metadata["shardwise"] = {"given": True}
    made = {"cell_type": kind, "id": id, "metadata": metadata, "source": source.splitlines(keepends=True)}
    return made if kind == "markdown" else made | {"execution_count": None, "outputs": []}


def _as_released(cell: dict[str, Any]) -> None:
    """What nbgrader's release adds: cells that can't be deleted, locked ones that can't be edited."""
    own = cell["metadata"]["nbgrader"]
    if own["grade"] or own["solution"] or own["locked"]:
        cell["metadata"]["deletable"] = False
    if own["locked"]:
        cell["metadata"]["editable"] = False
    cell["metadata"] = dict(sorted(cell["metadata"].items()))


def _runs(text: str, language: Language) -> str:
    """Each line with its Latin runs kept whole, where the language runs from right to left."""
    if language.direction == "ltr":
        return text
    return "\n".join(formats.isolate_runs(line) if line.strip() else line for line in text.split("\n"))


def digest(text: str) -> str:
    """What says whether a file is still as it was made. Of a notebook cells and their nbgrader metadata count, not
    what JupyterLab notes down when it is only opened.
    """
    try:
        told = json.loads(text)
        cells = [
            [each["cell_type"], "".join(each["source"]), each.get("metadata", {}).get("nbgrader", {})]
            for each in told["cells"]
        ]
        said = json.dumps(cells, sort_keys=True, ensure_ascii=False)
    except (ValueError, LookupError, TypeError, AttributeError):
        said = text
    return hashlib.sha256(said.encode()).hexdigest()
