"""The exchange, in which a student put what is not theirs; and autograde, which runs nothing."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from shardwise.classroom import course as classes
from shardwise.classroom import offline
from tests.shardwise.classroom.a_class import EXERCISE, made

pytest.importorskip("nbgrader", reason="nbgrader is not here, so collecting is not tested (pip install nbgrader)")
pytestmark = pytest.mark.timeout(120)

AT = "2026-11-20 10:00:00.000000 UTC"


def handed(inbound: Path, student: str, *, at: str = AT, note: str | None = None, **files: str) -> Path:
    """A folder of the inbound folder, as nbgrader's submit makes it."""
    place = inbound / f"{student}+{EXERCISE}+{at}+{'a' * 8}"
    place.mkdir(parents=True)
    (place / "timestamp.txt").write_text(at if note is None else note, encoding="utf-8")
    for name, text in files.items():
        (place / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return place


@pytest.fixture
def inbound(tmp_path: Path) -> Path:
    made(tmp_path / "course", students={"ann": "en", "bo": "nl"})
    place = tmp_path / "exchange" / "dst-test" / "inbound"
    place.mkdir(parents=True)
    return place


def api(tmp_path: Path) -> Any:
    from nbgrader.apps import NbGraderAPI  # type: ignore[import-untyped]
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(tmp_path / "course")
    config.CourseDirectory.course_id = "dst-test"
    config.Exchange.root = str(tmp_path / "exchange")
    offline.configure(config)
    return NbGraderAPI(config=config)


def collected(tmp_path: Path) -> tuple[Path, str]:
    told = api(tmp_path).collect(EXERCISE)
    assert told["success"], told
    return tmp_path / "course" / "submitted", str(told.get("log", ""))


def test_links_lead_nowhere_and_everything_else_is_collected(inbound: Path, tmp_path: Path) -> None:
    secret = tmp_path / "course" / "secret.ipynb"
    secret.write_text("only for the teacher", encoding="utf-8")
    place = handed(inbound, "ann", mine="my work")
    (place / f"{EXERCISE}.ipynb").symlink_to(secret)
    (place / "all").symlink_to(tmp_path / "course", target_is_directory=True)
    os.mkfifo(place / "pipe")
    (place / "deep").mkdir()
    (place / "deep" / "more.ipynb").write_text("more", encoding="utf-8")
    (inbound / f"bo+{EXERCISE}+{AT}+link").symlink_to(tmp_path / "course", target_is_directory=True)
    submitted, log = collected(tmp_path)
    own = submitted / "ann" / EXERCISE
    found = {path.relative_to(own).as_posix() for path in own.rglob("*") if path.is_file()}
    assert found == {"timestamp.txt", "mine.ipynb", "deep/more.ipynb"}
    assert not (submitted / "bo").exists()
    assert f"all, {EXERCISE}.ipynb, pipe" in log


def test_a_folder_counts_for_the_account_that_owns_it(inbound: Path, tmp_path: Path) -> None:
    other = next(
        each.pw_name for each in pwd.getpwall() if each.pw_uid != os.getuid() and classes.is_student(each.pw_name)
    )
    handed(inbound, other, mine="somebody else's name")
    handed(inbound, "..", mine="up")
    handed(inbound, "ann", mine="my work")
    submitted, log = collected(tmp_path)
    assert [each.name for each in submitted.iterdir()] == ["ann"]
    assert not (tmp_path / "course" / EXERCISE).exists()
    assert f"{other}+{EXERCISE}" in log


def test_one_student_does_not_stop_the_collection_of_others(inbound: Path, tmp_path: Path) -> None:
    (inbound / f"zoe+{EXERCISE}+no moment at all+x").mkdir()
    handed(inbound, "ann", note="garbage", mine="my work")
    handed(inbound, "bo", mine="mine")
    handed(inbound, "zed", mine="0" * 2_000)
    with (inbound / f"zed+{EXERCISE}+{AT}+{'a' * 8}" / "endless.ipynb").open("wb") as opened:
        opened.truncate(200_000_000_000)
    submitted, _ = collected(tmp_path)
    assert sorted(each.parts[-3] for each in submitted.glob("*/*/mine.ipynb")) == ["ann", "bo", "zed"]
    assert not list(submitted.rglob("endless.ipynb"))
    assert (submitted / "ann" / EXERCISE / "timestamp.txt").read_text(encoding="utf-8") == AT
    assert api(tmp_path).collect(EXERCISE)["success"]


def test_a_moment_long_before_the_files_came_is_told(inbound: Path, tmp_path: Path) -> None:
    handed(inbound, "ann", at="2020-01-01 10:00:00.000000 UTC", mine="my work")
    assert "2020-01-01 10:00 UTC" in collected(tmp_path)[1]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_autograde_runs_nothing_of_the_classs_assignments(inbound: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    notebook = json.loads(
        (tmp_path / "course" / "release" / EXERCISE / f"{EXERCISE}.ipynb").read_text(encoding="utf-8")
    )
    cell: dict[str, Any] = {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(0, cell | {"source": f"open({str(ran)!r}, 'w').close()"})
    handed(inbound, "ann", **{EXERCISE: json.dumps(notebook)})
    collected(tmp_path)
    from nbgrader.api import Gradebook  # type: ignore[import-untyped]

    with Gradebook(f"sqlite:///{tmp_path / 'course' / 'gradebook.db'}", "dst-test") as book:
        book.add_assignment(EXERCISE)
        book.add_notebook(EXERCISE, EXERCISE)
    told = api(tmp_path).autograde(EXERCISE, "ann")
    assert not told["success"]
    assert "shardwise classroom grade" in told["log"]
    assert not ran.exists()


def test_nothing_is_released_into_somebody_elses_folder(
    inbound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shardwise.classroom import releasing

    monkeypatch.setattr(releasing, "owner", lambda _: os.getuid() + 4242)
    told = api(tmp_path).release_assignment(EXERCISE)
    assert not told["success"]
    assert str(inbound.parent) in told["log"]
    assert not (inbound.parent / "outbound" / EXERCISE).exists()
    monkeypatch.undo()
    assert api(tmp_path).release_assignment(EXERCISE)["success"]
