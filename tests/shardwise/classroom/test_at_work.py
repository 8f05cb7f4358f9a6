"""A student's notebook in a real kernel: what is shown is what will be graded, and an answer is kept but never run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from labs.exercises import exercise
from shardwise.classroom import assignments, at_work, student
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.own import Own, grade_fault, grade_numbers
from translations import CourseError, language

ASSIGNMENT = Assignment(id="model-states", exercise="model-states")
COURSE = Course(id="ds-2026", languages=("en", "nl", "ar"), zone="UTC", assignments=(ASSIGNMENT,))
MARIA = Own(course="ds-2026", assignment=ASSIGNMENT, student="maria")
SOLUTION = f"%%exercise model-states\n{exercise('model-states').code('solution')}"
FAULT = f'%%answer fault\n# words\n{{"line": {min(MARIA.fault.lines)}, "rule": "{MARIA.fault.rule}"}}'
NUMBERS = '%%answer numbers\n{"first": "3", "second": open("WITNESS", "w")}'


@pytest.fixture(scope="module", params=["nl", "ar"])
def worked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    """The notebook in one language, filled in and run from top to bottom."""
    folder = tmp_path_factory.mktemp("student")
    code = str(request.param)
    notebook: Any = nbformat.reads(assignments.notebook(ASSIGNMENT, COURSE, code), as_version=4)  # type: ignore[no-untyped-call]
    put = {"code-answer": SOLUTION, "fault-answer": FAULT, "numbers-answer": NUMBERS}
    for cell in notebook.cells:
        cell.source = put.get(cell.id, cell.source)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SHARDWISE_DATA", str(folder / "data"))
        environment.setenv("SHARDWISE_HOME", str(folder / "home"))
        environment.setenv(at_work.VARIABLE, "maria")
        client = NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    return code, {cell.id: cell for cell in notebook.cells}, folder


def shown(cell: Any) -> str:
    return "\n".join(each["data"]["text/html"] for each in cell.outputs if "text/html" in each.get("data", {}))


def plain(page: str) -> str:
    text = re.sub(r"<[^>]+>", "", page).replace("\u2066", "").replace("\u2069", "")
    return text.replace("&quot;", '"').replace("&#x27;", "'").replace("&gt;", ">").replace("&lt;", "<")


def test_the_code_is_checked_and_the_work_is_marias(worked: tuple[str, Any, Path]) -> None:
    code, cells, _ = worked
    assert "maria" in plain(shown(cells["open"]))
    points = exercise("model-states").of
    assert f"{points}" in plain(shown(cells["code"]))
    assert "box good" in shown(cells["code"])
    assert f'lang="{code}"' in shown(cells["code"])


def test_the_program_shown_is_the_one_that_is_graded(worked: tuple[str, Any, Path]) -> None:
    code, cells, _ = worked
    page = shown(cells["fault-show"])
    lines = re.findall(r'<span class="number">(\d+)</span>(.*?)(?=<span class="line">|</code></pre>)', page, re.S)
    program = MARIA.fault.program.rstrip("\n").split("\n")
    assert [int(number) for number, _ in lines] == list(range(1, len(program) + 1))
    assert [plain(text).rstrip("\n") for _, text in lines] == program
    assert f'<code dir="ltr">{MARIA.fault.rule}</code>' in page
    assert "box good" in shown(cells["fault"])
    assert grade_fault(MARIA, cells["fault-answer"].source, language(code)).points == 4


def test_the_questions_shown_are_those_that_are_graded(worked: tuple[str, Any, Path]) -> None:
    code, cells, _ = worked
    page = plain(shown(cells["numbers-show"]))
    for key, asked in MARIA.questions(code).items():
        assert key in page
        words = re.findall(r"\w{4,}", plain(asked.text))
        assert words
        assert all(word in page for word in words if not word.startswith("_"))


def test_an_answer_that_would_run_is_told_as_grading_tells_it_and_is_not_run(worked: tuple[str, Any, Path]) -> None:
    code, cells, folder = worked
    said = plain(shown(cells["numbers"]))
    graded = grade_numbers(MARIA, cells["numbers-answer"].source, language(code))
    assert graded.points == 0
    assert plain(graded.feedback[0]) in said
    assert not list(folder.rglob("WITNESS"))


def test_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path))
    monkeypatch.delenv(at_work.VARIABLE, raising=False)
    monkeypatch.delenv(at_work.HUB, raising=False)
    monkeypatch.setattr(student, "configured", lambda: None)
    assert at_work.who() is None
    for wrong in ("", "two words", "../x", "-rf", "x" * 200):
        with pytest.raises(CourseError):
            at_work.remember(wrong)
    assert at_work.remember(" m.jansen@uni.example ") == "m.jansen@uni.example"
    assert at_work.who() == "m.jansen@uni.example"
    (tmp_path / ".shardwise" / "student.json").write_text(json.dumps({"student": ["x"]}), encoding="utf-8")
    assert at_work.who() is None
    monkeypatch.setenv(at_work.VARIABLE, "ali")
    assert at_work.who() == "ali"


def test_on_a_hub_it_is_whom_nbgrader_files_the_work_under(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = pytest.importorskip("nbgrader.utils", reason="needs nbgrader")
    monkeypatch.delenv(at_work.VARIABLE, raising=False)
    monkeypatch.setenv(at_work.HUB, "maria")
    assert at_work.who() == utils.get_username()
    import pwd

    entry = pwd.getpwuid(0)
    container = pwd.struct_passwd((at_work.ANYBODY, *entry[1:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: container)
    assert at_work.who() == utils.get_username() == "maria"


def test_what_is_missing_is_said_and_what_is_right_is_not() -> None:
    sitting = at_work.Sitting(course="ds-2026", assignment=ASSIGNMENT, language=language("en"), answers={})
    with pytest.raises(CourseError, match="Run the cell"):
        sitting.told("fault", MARIA)
    with pytest.raises(CourseError, match="fault or numbers"):
        sitting.keep("code", "")
    sitting.keep("fault", '{"line": 0, "rule": ""}')
    assert sitting.told("fault", MARIA) == ("Nothing is filled in yet.", False)
    sitting.keep("fault", '{"line": 3, "rule": ""}')
    assert sitting.told("fault", MARIA)[1] is False
    told = set()
    for rule in ("master", "bytes"):
        for line in (1, min(MARIA.fault.lines)):
            sitting.keep("fault", f'{{"line": {line}, "rule": "{rule}"}}')
            said, whole = sitting.told("fault", MARIA)
            assert whole
            told.add(said.replace(str(line), "N").replace(rule, "R"))
    assert len(told) == 1
    sitting.keep("numbers", '{"first": "a lot", "second": ""}')
    with pytest.raises(CourseError, match="a lot"):
        sitting.told("numbers", MARIA)
