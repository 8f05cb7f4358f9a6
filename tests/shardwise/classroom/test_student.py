"""A student's side of a class, over nbgrader's own exchange: what is due, fetching, handing in, receipts, privacy."""

from __future__ import annotations

import io
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from shardwise import cli, home, notebook, workspace
from shardwise.classroom import announcing, handed_in, student, told
from shardwise.classroom import course as classes
from shardwise.classroom.course import Course
from shardwise.classroom.handing_in import HandingIn
from tests.shardwise.classroom import a_class
from translations import CourseError, language, translator

ME = pwd.getpwuid(os.getuid()).pw_name
NOBODY = "nobody"
ID = a_class.EXERCISE


class School:
    """A class whose assignment was released by nbgrader, and a student in it: whoever runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.exchange, self.folder = folder / "exchange", folder / "course"
        self.exchange.mkdir()
        self.exchange.chmod(0o1777)
        now = datetime.now(UTC).replace(microsecond=0)
        self.course = a_class.made(
            self.folder,
            students={ME: "ar", NOBODY: "en", "of-no-account": "en"},
            due=now - timedelta(hours=30),
            exchange=str(self.exchange),
            extensions={ME: {ID: now + timedelta(hours=30)}, "of-no-account": {ID: now + timedelta(days=9)}},
        )
        config = (
            f"c = get_config()\nc.CourseDirectory.course_id = {self.course.id!r}\n"
            f"c.CourseDirectory.root = {str(self.folder)!r}\nc.Exchange.root = {str(self.exchange)!r}\n"
        )
        (self.folder / "nbgrader_config.py").write_text(
            f"{config}from shardwise.classroom.offline import configure\nconfigure(c)\n", encoding="utf-8"
        )
        self.jupyter = folder / "jupyter"
        self.jupyter.mkdir()
        (self.jupyter / student.CONFIG).write_text(config, encoding="utf-8")
        self.released = self.api().release_assignment(ID)

    def api(self) -> Any:
        """nbgrader's, with the settings of the course folder."""
        from nbgrader.apps import NbGraderAPI  # type: ignore[import-untyped]
        from traitlets.config.loader import PyFileConfigLoader

        loaded = PyFileConfigLoader("nbgrader_config.py", path=str(self.folder)).load_config()
        return NbGraderAPI(config=loaded)

    def announce(self, course: Course) -> tuple[str, ...]:
        classes.write(course, self.folder)
        listed = [each.id for each in classes.students(self.folder)]
        return announcing.announce(course, exchange=self.exchange, students=listed)


@pytest.fixture(scope="module")
def released() -> Iterator[School]:
    """In a folder that other accounts may enter, as an exchange is."""
    with TemporaryDirectory(prefix="shardwise-school-") as name:
        Path(name).chmod(0o755)
        yield School(Path(name))


@pytest.fixture
def school(released: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[School]:
    """The class as it was released; the student's folders are the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(released.jupyter))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter-data"))
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    yield released
    released.announce(released.course)
    for each in (released.exchange / released.course.id / "inbound").iterdir():
        shutil.rmtree(each)


@pytest.fixture
def here(school: School) -> student.Class:
    assert school.released["success"], school.released
    return student.the_class(None)


def work_in(path: Path, answers: Mapping[str, str]) -> None:
    path.write_text(json.dumps(a_class.answered(_read(path), answers)), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


# --- seeing


def test_a_release_tells_students_their_dates(school: School, here: student.Class) -> None:
    (own,) = here.assignments()
    assert (own.id, own.state, own.notebooks) == (ID, "released", {})
    assert own.due == school.course.extensions[ME][ID]
    assert own.extended
    for code in ("en", "nl", "ar"):
        text = translator(code)
        said = told.due(own, text)
        assert "Europe/Amsterdam" in said
        assert text("shardwise.hand-in-extended", due="").strip() in said


def test_a_moved_date_shows_at_once(school: School) -> None:
    moved = datetime.now(UTC).replace(microsecond=0) + timedelta(days=4)
    each = replace(school.course.assignments[0], due=moved)
    school.announce(replace(school.course, assignments=(each,), extensions={}))
    (own,) = student.the_class(None).assignments()
    assert (own.due, own.extended) == (moved, False)


def test_what_is_not_announced_has_no_date_and_still_is_there(school: School) -> None:
    shutil.rmtree(school.exchange / school.course.id / announcing.FOLDER)
    (own,) = student.the_class(None).assignments()
    assert own.due is None
    assert told.due(own, translator("en")) == "no due date"


def test_a_resit_for_some_is_shown_to_no_one_else(school: School) -> None:
    resit = replace(school.course.assignments[0], id="again", resit_of=ID, students=(NOBODY,))
    told_ = replace(school.course, assignments=(*school.course.assignments, resit))
    school.announce(told_)
    known = {who: announcing.read(school.exchange, told_.id, who) for who in (ME, NOBODY)}
    assert [each.id for each in known[ME].assignments] == [ID]  # type: ignore[union-attr]
    if os.getuid() == 0:
        assert [each.id for each in known[NOBODY].assignments] == [ID, "again"]  # type: ignore[union-attr]
    assert NOBODY not in (school.exchange / told_.id / announcing.FOLDER / announcing.CLASS).read_text()


def test_extensions_are_for_their_student_alone(school: School) -> None:
    unable = school.announce(school.course)
    assert unable == ("of-no-account",)
    folder = school.exchange / school.course.id / announcing.FOLDER
    shown = (folder / announcing.CLASS).read_text()
    assert '"extensions": {}' in shown
    assert stat.S_IMODE((folder / announcing.OWN).stat().st_mode) == 0o711
    files = [folder / announcing.OWN / f"{who}.json" for who in (ME, NOBODY)]
    assert len({each.stat().st_size for each in files}) == 1  # who has none has a file of the same length
    assert {stat.S_IMODE(each.stat().st_mode) & 0o007 for each in files} == {0}
    if os.getuid() == 0:
        for path, readable in zip(files, (False, True), strict=True):
            command = [shutil.which("cat") or "/bin/cat", str(path)]
            tried = subprocess.run(command, user=NOBODY, group="nogroup", extra_groups=[], capture_output=True, cwd="/")
            assert (tried.returncode == 0) is readable, (path, tried.stderr)


# --- fetching


def test_all_languages_are_fetched_and_the_students_own_is_opened(here: student.Class) -> None:
    own = here.fetch(ID)
    assert set(own.notebooks) == {"en", "nl", "ar"}
    arabic = own.notebook(language("ar"))
    assert arabic is not None
    assert arabic.parent.name == "languages"
    assert _read(arabic)["metadata"]["shardwise"]["dir"] == "rtl"
    assert own.notebooks["en"].parent == here.folder / ID


def test_fetching_again_leaves_the_students_work(here: student.Class) -> None:
    path = here.fetch(ID).notebooks["en"]
    work_in(path, {"explain": "My own words."})
    (here.folder / ID / "languages" / f"{ID}.nl.ipynb").unlink()
    before = path.read_bytes()
    here.refreshed()
    assert path.read_bytes() == before


# --- handing in


def test_what_is_handed_in_is_what_arrives_and_the_receipt_says_so(school: School, here: student.Class) -> None:
    path = here.fetch(ID).notebooks["ar"]
    work_in(path, {"explain": "كل رتبة تحتفظ بجزئها."})
    looked = here.look(ID)
    assert (looked.language, looked.notebook, looked.changed, looked.others) == ("ar", path, True, ())
    receipt = here.submit(ID)
    assert (receipt.language, receipt.notebook) == ("ar", f"languages/{ID}.ar.ipynb")
    assert receipt.late_seconds == receipt.percent_lost == 0
    (arrived,) = (school.exchange / school.course.id / "inbound").iterdir()
    assert arrived.name.startswith(f"{ME}+{ID}+")
    assert handed_in.gather(arrived).digest == receipt.digest
    collected = school.api().collect(ID)
    assert collected["success"], collected
    place = school.folder / "submitted" / ME / ID
    assert handed_in.gather(place).digest == receipt.digest  # the teacher's copy gives the same number
    assert receipt.kept is not None
    assert json.loads(receipt.kept.read_text(encoding="utf-8"))["digest"] == receipt.digest
    (own,) = here.assignments()
    assert own.state == "handed-in"
    assert abs(own.handed_in[-1].at - datetime.fromisoformat(receipt.at)) < timedelta(seconds=2)
    work_in(path, {"explain": "شيء آخر."})
    assert here.submit(ID).digest != receipt.digest
    shutil.rmtree(school.folder / "submitted")


def test_lateness_is_said_before_it_is_handed_in(school: School) -> None:
    late = replace(school.course, extensions={})
    school.announce(late)
    here = student.the_class(None)
    here.fetch(ID)
    looked = here.look(ID)
    assert looked.penalty is not None
    assert looked.penalty.percent == 20  # 30 hours are the second day
    for code, share in (("en", "20%"), ("nl", "20%"), ("ar", "20%")):
        *_, line = told.look(looked, here.assignment(ID), translator(code))
        assert share in line
    receipt = here.submit(ID)
    assert receipt.percent_lost == 20
    assert receipt.late_seconds > 30 * 3600 - 1


def test_a_deleted_notebook_at_the_top_is_put_back_so_that_feedback_finds_its_way(here: student.Class) -> None:
    notebooks = here.fetch(ID).notebooks
    work_in(notebooks["nl"], {"explain": "Elke rank bewaart zijn deel."})
    notebooks["en"].unlink()
    receipt = here.submit(ID)
    assert f"{ID}.ipynb" in receipt.files
    assert receipt.language == "nl"


def test_work_in_two_languages_is_said(here: student.Class) -> None:
    notebooks = here.fetch(ID).notebooks
    work_in(notebooks["nl"], {"explain": "Nederlands."})
    os.utime(notebooks["nl"], (1, 1))
    work_in(notebooks["en"], {"explain": "English."})
    looked = here.look(ID)
    assert (looked.language, looked.others) == ("en", (notebooks["nl"],))
    assert f"{ID}.nl.ipynb" in "".join(told.look(looked, here.assignment(ID), translator("en")))


def test_an_exchange_that_refuses_is_told_and_nothing_counts(school: School, here: student.Class) -> None:
    here.fetch(ID)
    inbound = school.exchange / school.course.id / "inbound"
    inbound.rename(inbound.with_name("away"))
    try:
        with pytest.raises(CourseError, match="refused"):
            here.submit(ID)
    finally:
        inbound.with_name("away").rename(inbound)
    assert here.assignment(ID).state == "fetched"
    assert not (here.folder / student.RECEIPTS).exists()


def test_unknown_assignments_and_classes_are_told(here: student.Class) -> None:
    with pytest.raises(CourseError, match=ID):
        here.assignment("zero-9")
    with pytest.raises(CourseError, match="Fetch it first"):
        here.look(ID)
    with pytest.raises(CourseError, match=here.id):
        student.the_class("another")


# --- where it is shown


def test_the_widget_takes_three_steps_and_nothing_less(here: student.Class) -> None:
    here.fetch(ID)
    widget = HandingIn(here, language=language("ar"))
    assert [each["id"] for each in widget.state["choices"]] == [ID]
    assert widget.state["dir"] == "rtl"
    widget._received(widget, {"do": "hand-in", "id": ID}, None)  # before the look: not heard
    assert (widget.state["step"], widget.receipt) == ("choose", None)
    widget._received(widget, {"do": "look", "id": ID}, None)
    assert widget.state["step"] == "look"
    assert widget.state["warn"]  # nothing was changed
    assert widget.receipt is None
    widget._received(widget, {"do": "hand-in", "id": ID}, None)
    assert widget.state["step"] == "done"
    assert widget.receipt is not None
    assert told._grouped(widget.receipt.digest) in "".join(widget.state["lines"])
    widget._received(widget, {"do": "look", "id": "../../etc"}, None)
    assert widget.state["step"] == "failed"


class Place:
    """In place of an output of a notebook: it keeps what is shown there."""

    def __init__(self, pages: list[str]) -> None:
        self.pages = pages

    def __call__(self, body: str) -> Place:
        self.pages.append(body)
        return self

    def update(self, page: Any) -> None:
        self.pages.append(page.data)


def test_the_home_page_has_the_class_and_links_that_lead_there(
    here: student.Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    widgets: list[HandingIn] = []
    monkeypatch.setattr(notebook, "_show", pages.append)
    monkeypatch.setattr(notebook, "_place", Place(pages))
    monkeypatch.setattr(notebook, "_display", widgets.append)
    monkeypatch.setattr(notebook, "_lesson", notebook._Lesson(language("ar")))
    notebook.home()
    assert len(pages) == 2
    (widget,) = widgets
    widget.look(ID)
    widget.hand_in(ID)
    assert "سُلِّم" in pages[-1]  # the list is brought up to date
    assert f'href="../class/{here.id}/{ID}/languages/{ID}.ar.ipynb"' in pages[0]
    assert (workspace.folder() / f"class/{here.id}/{ID}/languages/{ID}.ar.ipynb").is_file()
    assert workspace.remembered() == "ar"


@pytest.mark.usefixtures("learner")
def test_without_a_class_the_home_page_says_nothing_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert student.configured() is None
    assert student.classes() == ()
    pages: list[str] = []
    monkeypatch.setattr(notebook, "_show", pages.append)
    monkeypatch.setattr(notebook, "_lesson", notebook._Lesson(language("en")))
    notebook.home()
    assert pages == [home.html(notebook._lesson.record, notebook._lesson.language)]
    with pytest.raises(CourseError, match="no class"):
        student.the_class(None)


def test_the_commands_list_fetch_and_submit(
    here: student.Class, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str, given: str = "", code: int = 0) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        assert cli.run(["classroom", *words]) == code
        return capsys.readouterr().out

    assert f"{ID}/languages/{ID}.ar.ipynb" in said("fetch", ID, "--lang", "ar").replace("\n", "")
    said("submit", ID, given="\n", code=1)  # no answer is no
    assert here.assignment(ID).state == "fetched"
    receipt = json.loads(said("submit", ID, "--yes", "--json"))
    assert receipt["digest"] == handed_in.gather(here.folder / ID).digest
    said("submit", ID, "--lang", "nl", given="J\n")
    listed = json.loads(said("list", "--json"))
    assert listed["assignments"][0]["state"] == "handed-in"
    assert len(listed["assignments"][0]["handed_in"]) == 2
    assert "صفك" in said("list", "--lang", "ar")
    said("submit", "zero-9", code=2)
