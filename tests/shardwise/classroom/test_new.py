"""`classroom new` with real nbgrader: what it makes can be released, and made again without losing anybody's work."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from shardwise import cli
from shardwise.classroom import course as classes
from shardwise.classroom import new
from shardwise.classroom.new import Made, Wishes
from translations import CourseError, languages, translator

pytest.importorskip("nbgrader", reason="needs nbgrader")

CLASS = "id,first_name,last_name,language\nmaria,Maria,Jansen,nl\nali,Ali,Haddad,ar\n"
DUE = """assignment,due,resit
1,2026-10-01 23:59 Europe/Amsterdam,
zero-1,2026-10-08 23:59 Europe/Amsterdam,
"""
OWN = """%%exercise own
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
"""


def asked(folder: Path, **more: Any) -> Wishes:
    (folder / "students.csv").write_text(CLASS, encoding="utf-8")
    (folder / "due.csv").write_text(DUE, encoding="utf-8")
    fields = {"languages": ("en", "nl", "ar"), "units": ("1", "4"), "due": folder / "due.csv"}
    return Wishes(**{**fields, "students": folder / "students.csv", **more})


@pytest.fixture(scope="module")
def course_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of two assignments that was made once; tests that change it take a copy."""
    above = tmp_path_factory.mktemp("class")
    made = new.make(above / "ds-2026", asked(above))
    assert made.ready == ["model-states", "zero-1"]
    assert not made.kept
    return made.folder


@pytest.fixture
def copy(course_folder: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(course_folder, tmp_path / course_folder.name, copy_function=shutil.copy2))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "gradebook.db"
    }


def opened(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def api(folder: Path, exchange: Path | None = None) -> Any:
    from nbgrader.apps import NbGraderAPI  # type: ignore[import-untyped]
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    config = Config()
    config.merge(PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config())
    if exchange is not None:
        config.Exchange.root = str(exchange)
    return NbGraderAPI(config=config)


def test_two_assignments_are_released_by_nbgrader_with_every_language(course_folder: Path, tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    real = api(course_folder, exchange)
    for id in ("model-states", "zero-1"):
        told = real.generate_assignment(id)
        assert told["success"], told
        told = real.release_assignment(id)
        assert told["success"], told
        out = exchange / "ds-2026" / "outbound" / id
        names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
        assert names == {f"{id}.ipynb", f"languages/{id}.nl.ipynb", f"languages/{id}.ar.ipynb"}
        notebooks = {name: opened(out / name) for name in sorted(names)}
        cells = {
            name: [
                (cell.metadata.nbgrader.grade_id, cell.metadata.nbgrader.get("points"), cell.metadata.nbgrader.solution)
                for cell in each.cells
            ]
            for name, each in notebooks.items()
        }
        assert len({json.dumps(each) for each in cells.values()}) == 1
        stub = next(c.source for c in notebooks[f"{id}.ipynb"].cells if c.metadata.nbgrader.grade_id == "code-answer")
        assert stub.startswith(f"%%exercise {id}\n")
        assert "YOUR CODE HERE" not in stub
    with real.gradebook as book:
        assert {each.name for each in book.assignments} == {"model-states", "zero-1"}
        assert {each.id: each.last_name for each in book.students} == {"maria": "Jansen", "ali": "Haddad"}
        assert book.find_assignment("zero-1").duedate == datetime(2026, 10, 8, 21, 59)
        points = {cell.name: cell.max_score for cell in book.find_notebook("zero-1", "zero-1").grade_cells}
        assert points == {"code": 8, "fault": 4, "numbers": 4, "explain": 4}


def test_a_second_run_changes_nothing(copy: Path) -> None:
    before = files(copy)
    made = new.make(copy, Wishes())
    assert (made.wrote, made.kept, made.ready, made.left) == ([], [], [], [])
    assert files(copy) == before


def test_a_second_run_leaves_what_the_teacher_changed_and_what_was_handed_in(copy: Path) -> None:
    source = copy / "source" / "zero-1" / "zero-1.ipynb"
    notebook = json.loads(source.read_text("utf-8"))
    notebook["cells"][0]["source"] = ["# My own words"]
    source.write_text(json.dumps(notebook), encoding="utf-8")
    rubric = copy / "rubrics" / "zero-1.en.md"
    rubric.write_text("Mine.\n", encoding="utf-8")
    submitted = copy / "submitted" / "maria" / "zero-1" / "zero-1.ipynb"
    submitted.parent.mkdir(parents=True)
    submitted.write_text("{}", encoding="utf-8")
    settings = copy / "nbgrader_config.py"
    settings.write_text(settings.read_text("utf-8") + "c.Application.log_level = 30\n", encoding="utf-8")
    made = new.make(copy, Wishes())
    assert made.wrote == []
    assert made.kept == [
        (name, None) for name in ("nbgrader_config.py", "source/zero-1/zero-1.ipynb", "rubrics/zero-1.en.md")
    ]
    assert made.ready == ["zero-1"]
    given = opened(copy / "release" / "zero-1" / "zero-1.ipynb")
    assert given.cells[0].source == "# My own words"
    moved = DUE.replace("2026-10-08", "2026-10-09")
    (copy.parent / "moved.csv").write_text(moved, encoding="utf-8")
    made = new.make(copy, Wishes(due=copy.parent / "moved.csv"))
    assert ("source/zero-1/zero-1.ipynb", ".shardwise/new/source/zero-1/zero-1.ipynb") in made.kept
    assert json.loads(source.read_text("utf-8"))["cells"][0]["source"] == ["# My own words"]
    assert "9 Oct" in "".join(
        json.loads((copy / ".shardwise/new/source/zero-1/zero-1.ipynb").read_text("utf-8"))["cells"][0]["source"]
    )
    assert {path.name for path in (copy / "source" / "zero-1").iterdir()} == {"zero-1.ipynb", "languages"}
    assert rubric.read_text("utf-8") == "Mine.\n"
    assert submitted.read_text("utf-8") == "{}"
    assert settings.read_text("utf-8").endswith("log_level = 30\n")


def test_class_yaml_is_changed_in_place_and_keeps_the_teachers_words(copy: Path) -> None:
    path = copy / "class.yaml"
    text = path.read_text("utf-8").replace("- id: zero-1\n", "- id: zero-1  # the hard one\n")
    text = text.replace("late:\n", "# three days are enough\nlate:\n").replace("floor: 50.0", "floor: 70")
    path.write_text(text, encoding="utf-8")
    (copy.parent / "due.csv").write_text(
        "assignment,due,resit\nzero-1,2026-11-01 12:00 UTC,2026-12-01 12:00 UTC\n", "utf-8"
    )
    made = new.make(copy, Wishes(units=("1", "4-5"), due=copy.parent / "due.csv"))
    now = path.read_text("utf-8")
    assert "# the hard one" in now
    assert "# three days are enough" in now
    read = classes.read(copy)
    assert read == made.course
    assert read.late.floor == 70
    assert read.due("maria", "zero-1") == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert [each.id for each in read.assignments] == ["model-states", "zero-1", "zero-1-resit", "zero-2"]
    assert read.resits_of("zero-1")[0].due == datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert not (copy / "class.yaml.before").exists()
    assert [each.id for each in made.left] == ["shardwise.new-undated"]
    assert set(made.ready) == {"zero-1", "zero-1-resit", "zero-2"}
    changed = [line for line in text.splitlines() if line not in now.splitlines()]
    assert all("due:" in line for line in changed)


def test_a_class_yaml_of_another_form_is_written_anew_and_kept(copy: Path) -> None:
    path = copy / "class.yaml"
    flow = json.dumps(classes.read(copy).as_data())
    path.write_text(flow, encoding="utf-8")
    made = new.make(copy, Wishes(units=("1", "4", "5")))
    assert classes.read(copy) == made.course
    assert (copy / "class.yaml.before").read_text("utf-8") == flow
    assert "shardwise.new-class-rewritten" in [each.id for each in made.left]


def test_a_teachers_own_notebook_in_the_course_is_cleared_of_its_solution(copy: Path) -> None:
    own = {"grade": False, "grade_id": "twice", "locked": False, "schema_version": 3, "solution": True, "task": False}
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(OWN, metadata={"nbgrader": own})])
    place = copy / "source" / "own" / "own.ipynb"
    place.parent.mkdir()
    place.write_text(nbformat.writes(notebook), encoding="utf-8")  # type: ignore[no-untyped-call]
    told = api(copy).generate_assignment("own")
    assert told["success"], told
    given = opened(copy / "release" / "own" / "own.ipynb").cells[0].source
    assert "return 2 * x" not in given
    assert "YOUR CODE HERE" in given
    assert "shardwise.new-others-left" in [each.id for each in new.make(copy, Wishes()).left]


def test_students_are_added_and_never_taken_away(copy: Path) -> None:
    path = copy.parent / "more.csv"
    path.write_text("id,first_name\nmaria,Marie\nzoe,Zoë\n", encoding="utf-8")
    made = new.make(copy, Wishes(students=path))
    found = {each.id: each for each in classes.students(copy)}
    assert (found["maria"].first_name, found["maria"].last_name, found["maria"].language) == ("Marie", "Jansen", "nl")
    assert set(found) == {"maria", "zoe", "ali"}
    assert [each.id for each in made.left] == ["shardwise.new-students-left"]


def told(folder: Path, wishes: Wishes) -> CourseError:
    before = files(folder.parent) if folder.parent.is_dir() else {}
    with pytest.raises(CourseError) as raised:
        new.make(folder, wishes)
    assert files(folder.parent) == before, "something was written before all was known to be right"
    for each in languages():
        raised.value.in_language(translator(each))
    return raised.value


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"languages": None}, "needs --languages"),
        ({"units": None, "languages": None}, "needs --languages, --units"),
        ({"languages": ("en", "tlh")}, "no language tlh"),
        ({"units": ("8-1",)}, "goes backwards"),
        ({"units": ("99",)}, "99"),
        ({"zone": "Amsterdam"}, "no time zone Amsterdam"),
        ({"due": Path("/no/such/file.csv")}, "can't be read"),
        ({"students": Path("/no/such/file.csv")}, "can't be read"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_anything_is_written(tmp_path: Path, more: Any, says: str) -> None:
    wishes = asked(tmp_path, **more)
    assert says in str(told(tmp_path / "ds-2026", wishes))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("assignment,due\nzero-1,2026-10-08 23:59\n", "line 2: The due date “2026-10-08 23:59” has no time zone"),
        (
            "assignment,due\n1,2026-10-08 23:59 UTC\nzero-9,2026-10-08 23:59 UTC\n",
            "line 3: There is no assignment zero-9",
        ),
        ("assignment,due\n2,2026-10-08 23:59 UTC\n", "02-data-parallel has no assignment"),
        ("assignment,due\n1,\n", "line 2"),
        ("what,when\n", "assignment,due"),
    ],
)
def test_a_wrong_due_date_names_its_line(tmp_path: Path, rows: str, says: str) -> None:
    wishes = asked(tmp_path, zone="Europe/Amsterdam")
    (tmp_path / "due.csv").write_text(rows, encoding="utf-8")
    error = str(told(tmp_path / "ds-2026", wishes))
    assert says in error
    if "no time zone" in says:
        assert "Write it with one: 2026-10-08 23:59 Europe/Amsterdam" in error


def test_a_folder_that_can_be_no_course_id(tmp_path: Path) -> None:
    assert "can't be the id of a course" in str(told(tmp_path / "My Course", asked(tmp_path)))


def test_the_zone_of_a_class_stays(copy: Path) -> None:
    with pytest.raises(CourseError, match="has the time zone Europe/Amsterdam"):
        new.make(copy, Wishes(zone="Africa/Cairo"))


def test_without_nbgrader_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "nbgrader", None)
    assert told(tmp_path / "ds-2026", asked(tmp_path)).id == "shardwise.classroom-needs-nbgrader"


def test_the_command_says_what_it_did(course_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language in ("en", "nl", "ar"):
        assert cli.run(["classroom", "new", str(course_folder), "--lang", language]) == 0
        assert str(course_folder) in capsys.readouterr().out.replace("\u2066", "").replace("\u2069", "")
    assert cli.run(["classroom", "new", str(course_folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["course"], found["assignments"], found["students"]) == ("ds-2026", ["model-states", "zero-1"], 2)
    assert cli.run(["classroom", "new", str(course_folder), "--units", "8-1"]) == 2
    assert "goes backwards" in capsys.readouterr().err


def test_a_report_as_json_has_everything(tmp_path: Path) -> None:
    made = Made(
        folder=tmp_path, course=classes.parse("version: 1\nid: ds\nlanguages: [en]\nzone: UTC\nassignments: []\n")
    )
    made.left.append(CourseError("shardwise.new-undated", assignments="zero-1"))
    assert made.as_json()["left"] == ["Without a due date: zero-1."]


def test_what_the_teacher_took_out_stays_out_and_an_id_that_is_on_no_list_is_told(copy: Path) -> None:
    assert copy.stat().st_mode & 0o077 == 0, "students of the machine can read the gradebook"
    path = copy / classes.NAME
    read = classes.read(copy)
    kept = tuple(each for each in read.assignments if each.id != "model-states")
    classes.write(replace(read, assignments=kept, extensions={"Maria": {"*": datetime(2026, 12, 1, tzinfo=UTC)}}), copy)
    before = path.read_text(encoding="utf-8")
    made = new.make(copy, Wishes(units=("1", "4")))
    assert [each.id for each in made.course.assignments] == [each.id for each in kept]
    assert path.read_text(encoding="utf-8") == before
    told = {each.id: each for each in made.left}
    assert told["shardwise.class-strangers"].values["students"] == "Maria"
    assert told["shardwise.new-others-left"].values["assignments"] == "model-states"
