"""The notebooks of every exercise in every language: one form, and nothing in them that a student should find out."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import nbformat
import pytest

from labs.exercises import exercise
from labs.exercises.content import ids
from labs.exercises.faults import task
from shardwise.classroom import assignments
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.parts import BY_HAND, OF, PARTS, POINTS, answer_cell
from translations import languages

LANGUAGES = tuple(each.code for each in languages() if each.released)
DUE = datetime(2026, 10, 1, 23, 59, tzinfo=ZoneInfo("Europe/Amsterdam"))
COURSE = Course(id="ds-2026", languages=LANGUAGES, zone="Europe/Amsterdam", assignments=())


def made(id: str, code: str, **more: Any) -> Any:
    assignment = Assignment(id=id, exercise=more.pop("exercise", id), due=DUE, **more)
    return json.loads(assignments.notebook(assignment, COURSE, code))


def form(notebook: Any) -> list[tuple[Any, ...]]:
    return [
        (cell["id"], cell["cell_type"], *sorted(cell["metadata"]["nbgrader"].items())) for cell in notebook["cells"]
    ]


def text(cell: Any) -> str:
    return "".join(cell["source"])


@pytest.mark.parametrize("id", ids())
def test_every_language_has_the_same_cells_and_points(id: str) -> None:
    notebooks = {code: made(id, code) for code in LANGUAGES}
    first = form(notebooks[LANGUAGES[0]])
    assert all(form(each) == first for each in notebooks.values())
    for each in notebooks.values():
        nbformat.validate(each)
        cells = {cell["id"]: cell for cell in each["cells"]}
        own = {id: cell["metadata"]["nbgrader"] for id, cell in cells.items()}
        assert {id: told["points"] for id, told in own.items() if told["grade"]} == dict(POINTS)
        assert sum(told["points"] for told in own.values() if told["grade"]) == OF
        for part in PARTS:
            assert own[answer_cell(part)]["solution"] is True
            assert own[part]["locked"] is (part not in BY_HAND)
        for name in ("code-answer", "open", "code", "fault-show", "fault", "numbers-show", "numbers"):
            assert cells[name]["cell_type"] == "code"


@pytest.mark.parametrize("id", ids())
def test_code_and_keys_are_the_same_in_every_language_and_words_are_not(id: str) -> None:
    found = {code: {cell["id"]: text(cell) for cell in made(id, code)["cells"]} for code in LANGUAGES}
    english = found["en"]
    for code in LANGUAGES:
        for name in ("code", "fault-show", "fault", "numbers-show", "numbers"):
            assert found[code][name] == english[name]
        assert found[code]["open"] == english["open"].replace('language="en"', f'language="{code}"')
        for name in ("fault-answer", "numbers-answer"):
            bare = [line for line in found[code][name].splitlines() if not line.startswith("#")]
            assert bare == [line for line in english[name].splitlines() if not line.startswith("#")]
        if code != "en":
            assert all(found[code][name] != english[name] for name in ("intro", "code-task", "explain-task", "explain"))
    assert found["en"]["code-answer"] == f"%%exercise {id}\n{exercise(id).code('stub').strip()}"


@pytest.mark.parametrize("id", ids())
def test_nothing_gives_a_solution_or_a_mark_away(id: str) -> None:
    own = exercise(id)
    known = own.code("stub") + own.task
    solution = [line.strip() for line in own.code("solution").splitlines()]
    secret = [
        line for line in solution if len(line) > 25 and line not in known and not line.startswith(("#", "import"))
    ]
    assert secret
    for code in LANGUAGES:
        whole = "\n".join(text(cell) for cell in made(id, code)["cells"])
        assert not [line for line in secret if line in whole]
        assert not any(criterion in whole for criterion in task(id, code).explain.criteria.values())


@pytest.mark.parametrize("id", ids())
def test_the_rubric_speaks_of_this_exercise_in_every_language(id: str) -> None:
    for code in LANGUAGES:
        own = task(id, code).explain
        said = assignments.rubric(Assignment(id=id, exercise=id), code)
        plain = said.replace("\u2066", "").replace("\u2069", "")
        assert own.question.replace("\u2066", "").replace("\u2069", "") in plain
        for criterion in own.criteria.values():
            assert criterion.replace("\u2066", "").replace("\u2069", "") in plain
        assert exercise(id, code).title.replace("\u2066", "").replace("\u2069", "") in plain
    assert len({json.dumps(dict(task(each).explain.criteria)) for each in ids()}) == len(ids())


def test_a_notebook_is_made_the_same_twice_and_says_what_it_is() -> None:
    one = assignments.notebook(Assignment(id="zero-1", exercise="zero-1", due=DUE), COURSE, "ar")
    assert one == assignments.notebook(Assignment(id="zero-1", exercise="zero-1", due=DUE), COURSE, "ar")
    told = json.loads(one)
    assert told["metadata"]["shardwise"] == {
        "assignment": "zero-1",
        "course": "ds-2026",
        "dir": "rtl",
        "exercise": "zero-1",
        "language": "ar",
    }
    assert told["metadata"]["kernelspec"]["name"] == "shardwise"
    prose = [text(cell) for cell in told["cells"] if cell["cell_type"] == "markdown" and cell["id"] != "explain"]
    assert all(each.startswith('<div dir="rtl" lang="ar">') for each in prose)
    assert "23:59" in prose[0]
    assert "Europe/Amsterdam" in prose[0]


def test_a_resit_says_so_and_names_its_exercise() -> None:
    notebook = made("zero-1-resit", "en", exercise="zero-1", resit_of="zero-1")
    cells = {cell["id"]: text(cell) for cell in notebook["cells"]}
    assert "(resit)" in cells["intro"].splitlines()[0]
    assert 'course.assignment("zero-1-resit", course="ds-2026", exercise="zero-1", resit_of="zero-1"' in cells["open"]
    assert cells["code"] == 'course.check("zero-1")'


def test_the_languages_beside_the_one_that_nbgrader_counts_are_as_a_release_leaves_them() -> None:
    for code in LANGUAGES:
        for cell in made("zero-1", code)["cells"]:
            metadata, own = cell["metadata"], cell["metadata"]["nbgrader"]
            assert metadata.get("deletable", True) is (code == COURSE.language)
            assert metadata.get("editable", True) is (code == COURSE.language or not own["locked"])
    assert assignments.names(Assignment(id="zero-1", exercise="zero-1"), COURSE)["en"] == "zero-1.ipynb"
    other = Course(id="ds", languages=("nl", "ar"), zone="UTC", assignments=())
    names = assignments.names(Assignment(id="zero-1", exercise="zero-1"), other)
    assert dict(names) == {"nl": "zero-1.ipynb", "ar": "languages/zero-1.ar.ipynb"}


def test_what_jupyterlab_notes_down_is_no_change_and_points_are() -> None:
    notebook = made("zero-1", "en")
    before = assignments.digest(json.dumps(notebook))
    notebook["metadata"]["kernelspec"]["display_name"] = "another"
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    assert assignments.digest(json.dumps(notebook)) == before
    notebook["cells"][4]["metadata"]["nbgrader"]["points"] = 9.0
    assert assignments.digest(json.dumps(notebook)) != before
    assert assignments.digest("x = 1") != assignments.digest("x = 2")
