"""The learner's copies of the lessons: what a newer course may do to them, and what it may never."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import translations
from shardwise import workspace
from translations import CourseError

ENGLISH = translations.language("en")
ARABIC = translations.language("ar")


def notebook(text: str, **metadata: object) -> str:
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": [text]},
        {"cell_type": "code", "id": "b", "metadata": {}, "source": "1 + 1", "outputs": [], "execution_count": None},
    ]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


class Course:
    """A course of two lessons in two languages, and the workspace of its learner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lessons"
        self.home = folder / "home"
        for code in ("en", "ar"):
            self.folder.joinpath(code).mkdir(parents=True)
            for name in ("home", "04-zero-1"):
                self.put(name, "first", code=code)

    def put(self, name: str, text: str, *, code: str = "en") -> None:
        self.folder.joinpath(code, f"{name}.ipynb").write_text(notebook(text), encoding="utf-8")

    def prepare(self, language: translations.Language = ENGLISH) -> workspace.Workspace:
        return workspace.prepare(language, course=self.folder)

    def copy(self, name: str = "04-zero-1", *, code: str = "en") -> Path:
        return self.home / code / f"{name}.ipynb"

    def text(self, name: str = "04-zero-1") -> str:
        return self.copy(name).read_text(encoding="utf-8")


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    course = Course(tmp_path)
    monkeypatch.setenv("SHARDWISE_HOME", str(course.home))
    return course


def notices(made: workspace.Workspace) -> list[str]:
    return [each.id.removeprefix("shardwise.workspace-") for each in made.notices]


def test_the_lessons_are_copied_once(course: Course) -> None:
    made = course.prepare()
    assert [path.name for path in made.lessons] == ["04-zero-1.ipynb", "home.ipynb"]
    assert notices(made) == []
    before = course.copy().stat().st_mtime_ns
    assert notices(course.prepare()) == []
    assert course.copy().stat().st_mtime_ns == before
    assert course.prepare(ARABIC).lessons[0].parent.name == "ar"


def test_an_untouched_lesson_is_replaced_by_its_newer_version(course: Course) -> None:
    course.prepare()
    opened = json.loads(course.text())
    opened["metadata"]["language_info"] = {"name": "python"}
    course.copy().write_text(json.dumps(opened, indent=1))
    course.put("04-zero-1", "second")
    made = course.prepare()
    assert notices(made) == ["replaced"]
    assert "04-zero-1 was replaced" in str(made.notices[0])
    assert course.text() == notebook("second")


@pytest.mark.parametrize("touch", ["text", "output", "new cell", "no notebook any more"])
def test_a_touched_lesson_stays_and_the_newer_version_comes_beside_it(course: Course, touch: str) -> None:
    course.prepare()
    mine: dict[str, Any] = json.loads(course.text())
    if touch == "text":
        mine["cells"][0]["source"] = ["my notes"]
    elif touch == "output":
        mine["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["2"]}]
    elif touch == "new cell":
        mine["cells"].append(
            {"cell_type": "code", "metadata": {}, "source": "x", "outputs": [], "execution_count": None}
        )
    text = "not json" if touch == "no notebook any more" else json.dumps(mine)
    course.copy().write_text(text)
    course.put("04-zero-1", "second")
    made = course.prepare()
    assert notices(made) == ["beside"]
    assert course.text() == text
    beside = json.loads(course.text("04-zero-1.new"))
    assert "newer version of this lesson" in beside["cells"][0]["source"]
    assert "04-zero-1.ipynb" in beside["cells"][0]["source"]
    assert beside["cells"][1]["source"] == ["second"]
    assert notices(course.prepare()) == []


def test_work_in_the_newer_version_is_kept_too(course: Course) -> None:
    course.prepare()
    course.copy().write_text(notebook("mine"))
    course.put("04-zero-1", "second")
    course.prepare()
    beside = course.copy("04-zero-1.new")
    beside.write_text(notebook("mine again"))
    course.put("04-zero-1", "third")
    assert notices(course.prepare()) == ["beside"]
    assert course.text() == notebook("mine")
    assert course.copy("04-zero-1.new.mine-1").read_text() == notebook("mine again")
    assert json.loads(beside.read_text())["cells"][1]["source"] == ["third"]


def test_the_notice_is_in_the_learners_language_and_direction(course: Course) -> None:
    course.prepare(ARABIC)
    course.copy(code="ar").write_text(notebook("mine"))
    course.put("04-zero-1", "second", code="ar")
    made = course.prepare(ARABIC)
    assert "يوجد إصدار أحدث" in made.notices[0].in_language(translations.translator(ARABIC))
    cell = json.loads(course.copy("04-zero-1.new", code="ar").read_text(encoding="utf-8"))["cells"][0]["source"]
    assert cell.startswith('<div dir="rtl" lang="ar">\n\n')
    assert "الإصدار الأحدث" in cell


def test_a_deleted_lesson_comes_back(course: Course) -> None:
    course.prepare()
    course.copy().unlink()
    assert notices(course.prepare()) == []
    assert course.text() == notebook("first")


@pytest.mark.parametrize("broken", ["", "{", "[" * 100_000, '{"cells": [{"cell_type": "code", "source": 5}]}'])
def test_a_copy_that_is_no_notebook_stays_as_it_is(course: Course, broken: str) -> None:
    course.prepare()
    course.copy().write_text(broken)
    course.prepare()
    assert course.copy().read_text() == broken


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": "1", "lessons": {}}',
        '{"version": 1, "lessons": [1]}',
        "\x00",
        "[" * 100_000,
    ],
)
def test_a_broken_list_loses_nothing(course: Course, broken: str) -> None:
    course.prepare()
    listed = course.home / ".shardwise" / "lessons.json"
    listed.write_text(broken)
    course.copy().write_text(notebook("mine"))
    made = course.prepare()
    assert notices(made) == ["list-damaged", "beside"]
    assert course.text() == notebook("mine")
    assert course.text("home") == notebook("first")
    assert listed.with_name("lessons.damaged-1.json").read_text() == broken
    assert notices(course.prepare()) == []


def test_a_workspace_of_a_newer_course_is_left_alone(course: Course) -> None:
    course.prepare()
    listed = course.home / ".shardwise" / "lessons.json"
    text = json.dumps({"version": 2, "lessons": {"en/04-zero-1.ipynb": "x"}})
    listed.write_text(text)
    course.put("04-zero-1", "second")
    with pytest.raises(CourseError, match="newer version of the course"):
        course.prepare()
    assert listed.read_text() == text
    assert course.text() == notebook("first")


def test_a_file_in_the_workspaces_place_is_named(course: Course) -> None:
    course.home.write_text("something else")
    with pytest.raises(CourseError, match="is not a folder"):
        course.prepare()
    assert course.home.read_text() == "something else"


def test_lessons_that_were_not_built_are_named(course: Course) -> None:
    with pytest.raises(CourseError, match="are not built here"):
        workspace.prepare(translations.language("nl"), course=course.folder)
    assert not course.home.exists()


def test_restore_brings_the_lesson_back_and_keeps_the_learners(course: Course) -> None:
    course.prepare()
    for number in (1, 2):
        course.copy().write_text(notebook(f"mine {number}"))
        target, kept = workspace.restore("04-zero-1", ENGLISH, course=course.folder)
        assert target.read_text() == notebook("first")
        assert kept == course.copy(f"04-zero-1.mine-{number}")
        assert kept.read_text() == notebook(f"mine {number}")
    assert notices(course.prepare()) == []
    with pytest.raises(CourseError, match=r"no lesson 05.*04-zero-1, home"):
        workspace.restore("05", ENGLISH, course=course.folder)


@pytest.mark.bwrap
@pytest.mark.parametrize(
    ("mount", "id"), [("full", "shardwise.workspace-disk-full"), ("read-only", "shardwise.workspace-refused")]
)
def test_a_disk_that_takes_nothing_leaves_the_workspace_as_it_was(course: Course, mount: str, id: str) -> None:
    course.prepare()
    course.put("04-zero-1", "second" * 40_000)
    before = {path: path.read_bytes() for path in course.home.rglob("*") if path.is_file()}
    code = (
        "import pathlib, shutil, sys, translations; from shardwise import workspace\n"
        "course, home, saved = map(pathlib.Path, sys.argv[1:])\n"
        "if saved != home: shutil.copytree(saved, home, dirs_exist_ok=True)\n"
        "before = {each: each.read_bytes() for each in home.rglob('*') if each.is_file()}\n"
        "try: workspace.prepare(translations.language('en'), course=course)\n"
        "except translations.CourseError as error: print(error.id)\n"
        "print(before == {each: each.read_bytes() for each in home.rglob('*') if each.is_file()})"
    )
    home = str(course.home)
    if mount == "full":
        at = ["--bind", home, "/mnt", "--size", "65536", "--tmpfs", home]
        saved = "/mnt"
    else:
        at, saved = ["--ro-bind", home, home], home
    command = ["bwrap", "--dev-bind", "/", "/", *at, sys.executable, "-c", code, str(course.folder), home, saved]
    shown = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=60, check=False)
    assert shown.stdout.split() == [id, "True"], shown.stderr
    assert before == {path: path.read_bytes() for path in course.home.rglob("*") if path.is_file()}
