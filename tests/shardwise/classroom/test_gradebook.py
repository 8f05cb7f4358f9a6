"""Results reach nbgrader's gradebook: once, whole, one column a lab, without taking what a person gave."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from labs.exercises.verdict import Verdict
from shardwise import cli
from shardwise.classroom import course as classes
from shardwise.classroom import feedback, gradebook, handed_in
from shardwise.classroom.batch import result_path
from shardwise.classroom.gradebook import DATABASE, Entry, import_results
from shardwise.classroom.parts import OF, POINTS
from shardwise.classroom.result import Part, Result
from tests.shardwise.classroom.a_class import EXERCISE, OPEN, cell, hand_in, made, right_answers
from tests.shardwise.classroom.test_sandbox import BARRED

pytest.importorskip("nbgrader", reason="nbgrader is not here, so gradebooks are not tested (pip install nbgrader)")
pytestmark = pytest.mark.timeout(120)

DUE = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
LATE = "2026-11-22 10:00:00.000000 UTC"
"""Two days begun."""
EARNED = {"code": 6.4, "fault": 2.0, "numbers": 4.0, "explain": None}


def graded(
    folder: Path, student: str, *, language: str = "en", at: str = "2026-11-20 10:00:00.000000 UTC", **parts: Any
) -> Result:
    """A result as grading leaves it, beside what was handed in."""
    place = hand_in(folder, student, {"explain": parts.pop("text", "because")}, language=language, at=at)
    verdict = Verdict(
        passed=False, points=8, of=10, failed_at="step/sum", message="It is the sum.", finding="It is the sum.", rank=1
    )
    earned = EARNED | parts
    result = Result(
        exercise=EXERCISE,
        language=language,
        sha256="0" * 64,
        seed=7_654_321,
        sandboxed=True,
        verdict=verdict,
        seconds=1.0,
        parts=tuple(
            Part(name=name, cell=name, points=earned[name], of=POINTS[name], message=f"about {name}") for name in POINTS
        ),
        file=f"{EXERCISE}.ipynb",
        digest=handed_in.digest(place),
        course="dst-test",
        assignment=EXERCISE,
        student=student,
        handed_in=datetime.strptime(at, "%Y-%m-%d %H:%M:%S.%f %Z").replace(tzinfo=UTC).isoformat(),
        graded="2026-11-23T00:00:00+00:00",
    )
    out = result_path(folder, student=student, assignment=EXERCISE)
    out.parent.mkdir(parents=True, exist_ok=True)
    result.write(out)
    return result


def content(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the gradebook."""
    with sqlite3.connect(folder / DATABASE) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return {name: sorted(database.execute(f"select * from {name}").fetchall(), key=repr) for name in tables}


def entry(entries: Sequence[Entry], student: str) -> Entry:
    (found,) = [each for each in entries if each.student == student]
    return found


def by_hand(folder: Path, student: str, *, cell: str = "explain", score: float = 3.0, comment: str = "") -> None:
    """What formgrader writes when a person gives points."""
    with gradebook.opened(folder / DATABASE, classes.read(folder)) as book:
        grade = book.find_grade(cell, EXERCISE, EXERCISE, student)
        grade.manual_score, grade.needs_manual_grade = score, False
        if comment:
            book.find_comment("explain", EXERCISE, EXERCISE, student).manual_comment = comment
        book.db.commit()


def grade_of(folder: Path, student: str, cell: str = "explain") -> tuple[float | None, float | None, bool]:
    with gradebook.opened(folder / DATABASE, classes.read(folder)) as book:
        found = book.find_grade(cell, EXERCISE, EXERCISE, student)
        return found.auto_score, found.manual_score, found.needs_manual_grade


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made(tmp_path, students={"anna": "en", "bram": "nl", "celia": "ar"}, due=DUE)
    return tmp_path


def test_one_column_whatever_the_language_and_a_second_import_changes_nothing(folder: Path) -> None:
    for student, spoken in (("anna", "en"), ("bram", "nl"), ("celia", "ar")):
        graded(folder, student, language=spoken)
    entries = import_results(folder)
    assert [(each.score, each.of, each.waits, each.before) for each in entries] == [(12.4, OF, True, None)] * 3
    first = content(folder)
    assert len(first["assignment"]) == len(first["notebook"]) == 1
    assert len(first["grade"]) == 3 * len(POINTS)
    again = import_results(folder)
    assert all(each.same for each in again)
    assert content(folder) == first
    with gradebook.opened(folder / DATABASE, classes.read(folder)) as book:
        (column,) = book.assignments
        assert (column.name, column.max_score, column.duedate) == (EXERCISE, OF, DUE.replace(tzinfo=None))
        assert {each.id: each.score for each in book.students} == dict.fromkeys(("anna", "bram", "celia"), 12.4)
        assert book.find_student("anna").first_name == "Anna"


def test_a_dry_run_says_the_same_and_writes_nothing(folder: Path) -> None:
    graded(folder, "anna")
    before = sorted(folder.rglob("*"))
    dry = import_results(folder, dry_run=True)
    assert sorted(folder.rglob("*")) == before
    assert import_results(folder) == dry
    graded(folder, "anna", code=8.0, text="otherwise")
    before_, stands = sorted(folder.rglob("*")), content(folder)
    assert [(each.before, each.score) for each in import_results(folder, dry_run=True)] == [(12.4, 14.0)]
    assert sorted(folder.rglob("*")) == before_
    assert content(folder) == stands


def test_marks_by_hand_stay_and_ask_again_only_where_the_work_changed(folder: Path) -> None:
    graded(folder, "anna")
    import_results(folder)
    assert grade_of(folder, "anna") == (None, None, True)
    by_hand(folder, "anna")
    by_hand(folder, "anna", cell="code", score=7.0)
    assert entry(import_results(folder), "anna").score == 7.0 + 2.0 + 4.0 + 3.0
    assert grade_of(folder, "anna") == (None, 3.0, False)
    graded(folder, "anna", text="quite another answer")
    found = entry(import_results(folder), "anna")
    assert (found.score, found.waits) == (16.0, True)
    assert grade_of(folder, "anna") == (None, 3.0, True)
    assert grade_of(folder, "anna", "code") == (6.4, 7.0, True)


def test_nothing_written_is_no_work_for_a_person(folder: Path) -> None:
    graded(folder, "anna", explain=0.0)
    assert not entry(import_results(folder), "anna").waits
    assert grade_of(folder, "anna") == (0.0, None, False)


def test_lateness_follows_the_class_as_it_stands_now(folder: Path) -> None:
    graded(folder, "anna", at=LATE)
    graded(folder, "bram")
    course = classes.read(folder)
    late = entry(import_results(folder), "anna")
    assert (late.score, late.penalty) == (round(12.4 * 0.8, 2), 2.48)
    by_hand(folder, "anna", score=4.0)
    assert gradebook.penalties(folder) == 1
    assert entry(import_results(folder), "anna").penalty == round(16.4 * 0.2, 2)
    assert gradebook.penalties(folder) == 0
    moved = replace(course.assignments[0], due=datetime(2026, 11, 30, tzinfo=UTC))
    classes.write(replace(course, assignments=(moved,)), folder)
    assert entry(import_results(folder), "anna").penalty == 0.0
    classes.write(replace(course, extensions={"anna": {EXERCISE: datetime(2026, 11, 22, 9, tzinfo=UTC)}}), folder)
    assert entry(import_results(folder), "anna").penalty == round(16.4 * 0.1, 2)
    assert entry(import_results(folder), "bram").penalty == 0.0


def test_who_handed_in_nothing_has_no_entry_and_who_was_unreadable_has_zero(folder: Path) -> None:
    none = replace(graded(folder, "anna"), state="nothing", reason="Nothing was handed in.")
    none.write(result_path(folder, student="anna", assignment=EXERCISE))
    zero = graded(folder, "bram", code=0.0, fault=0.0, numbers=0.0, explain=0.0)
    replace(zero, state="unreadable", reason="It is damaged.").write(
        result_path(folder, student="bram", assignment=EXERCISE)
    )
    (only,) = import_results(folder)
    assert (only.student, only.score, only.waits) == ("bram", 0.0, False)


def test_nbgraders_own_column_is_used_where_it_is_there(folder: Path) -> None:
    """`nbgrader generate_assignment` has made it: cells keep their ids, and what it saved of them stays."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    shutil.copytree(folder / "release", folder / "source")
    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.course_id = "dst-test"
    config.ClearSolutions.enforce_metadata = False
    made_ = NbGraderAPI(config=config).generate_assignment(EXERCISE, force=True)
    assert made_["success"], made_
    before = content(folder)
    graded(folder, "anna")
    assert entry(import_results(folder), "anna").score == 12.4
    after = content(folder)
    for table in ("base_cell", "grade_cells", "solution_cell", "source_cell", "notebook"):
        assert after.get(table) == before.get(table)


def test_formgrader_gets_each_students_work(folder: Path) -> None:
    from nbgrader.nbgraderformat import MetadataValidator
    from nbgrader.nbgraderformat import read as read_nbgrader

    result = graded(folder, "celia", language="ar", text="لأن كل رتبة تحفظ <b>جزءها</b>")
    import_results(folder)
    place = folder / "autograded/celia" / EXERCISE
    with (place / f"{EXERCISE}.ipynb").open(encoding="utf-8") as opened:
        shown = read_nbgrader(opened, as_version=4)
    MetadataValidator().validate_nb(shown)
    assert cell(shown, "explain")["source"] == "لأن كل رتبة تحفظ <b>جزءها</b>"
    assert 'dir="rtl"' in cell(shown, "code")["outputs"][0]["data"]["text/html"]
    assert (place / "timestamp.txt").read_text() == "2026-11-20 10:00:00.000000 UTC"
    assert str(result.seed) not in "".join(path.read_text() for path in place.iterdir())
    moment = (place / f"{EXERCISE}.ipynb").stat().st_mtime_ns
    import_results(folder)
    assert (place / f"{EXERCISE}.ipynb").stat().st_mtime_ns == moment


def test_work_that_changed_since_it_was_graded_is_not_shown_under_its_marks(folder: Path) -> None:
    graded(folder, "anna", text="first")
    hand_in(folder, "anna", {"explain": "second"})
    import_results(folder)
    assert not (folder / "autograded/anna" / EXERCISE / f"{EXERCISE}.ipynb").exists()


# --- feedback


def test_feedback_is_found_by_nbgrader_and_holds_what_a_person_gave(folder: Path) -> None:
    graded(folder, "anna", at=LATE)
    graded(folder, "bram", language="nl")
    import_results(folder)
    by_hand(folder, "anna", comment="Well put: $2^{10}$ <script>alert(1)</script>")
    gradebook.penalties(folder)
    (folder / "submitted/bram" / EXERCISE / "submission_secret.txt").unlink()
    written = feedback.write_pages(folder)
    assert {path.parent.parent.name for path in written} == {"anna", "bram"}
    place = folder / "feedback/anna" / EXERCISE
    assert (place / "submission_secret.txt").read_text() == "secret of anna"
    page = (place / f"{EXERCISE}.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "Well put" in page
    assert "<msup>" in page
    assert ">12.32<" in page  # 15.4 less a fifth
    assert len((folder / "feedback/bram" / EXERCISE / "submission_secret.txt").read_text()) == 64


@pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning")  # nbgrader misspells one,
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # and leaves a file open
def test_released_feedback_is_found_under_the_name_of_a_renamed_notebook(folder: Path) -> None:
    from nbgrader.utils import notebook_hash

    result = graded(folder, "anna")
    handed = folder / "submitted/anna" / EXERCISE
    (handed / f"{EXERCISE}.ipynb").rename(handed / "mine.ipynb")
    replace(result, digest=handed_in.digest(handed)).write(result_path(folder, student="anna", assignment=EXERCISE))
    feedback.write_pages(folder)
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.course_id = "dst-test"
    exchange = folder / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    config.Exchange.root = str(exchange)
    released = NbGraderAPI(config=config).release_feedback(EXERCISE)
    assert released["success"], released
    for name in (EXERCISE, "mine"):
        hashed = notebook_hash(secret="secret of anna", notebook_id=name)
        assert (exchange / "dst-test/feedback" / f"{hashed}.html").is_file()


def test_links_beside_the_work_are_not_followed_into_what_others_read(folder: Path) -> None:
    graded(folder, "anna")
    handed = folder / "submitted/anna" / EXERCISE
    secret = folder / "other-secret"
    secret.write_text("secret of bram", encoding="utf-8")
    (handed / "submission_secret.txt").unlink()
    (handed / "submission_secret.txt").symlink_to(secret)
    import_results(folder)
    feedback.write_pages(folder)
    for path in (*folder.glob("feedback/anna/**/*.txt"), *folder.glob("autograded/anna/**/*.txt")):
        assert "bram" not in path.read_text(encoding="utf-8")


def test_results_of_another_class_are_left_out(folder: Path) -> None:
    graded(folder, "anna")
    path = result_path(folder, student="anna", assignment=EXERCISE)
    path.write_text(json.dumps({"version": 9}), encoding="utf-8")
    assert import_results(folder) == ()


@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(BARRED), reason=BARRED)
def test_the_commands_from_hand_in_to_feedback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = classes.read(folder)
    for student, spoken in (("anna", "en"), ("bram", "nl")):
        answers = {**right_answers(course, student), "code": OPEN}
        hand_in(folder, student, answers, language=spoken, at=LATE)
    words = ["--course", str(folder), "--json"]
    assert cli.run(["classroom", "grade", EXERCISE, "--dry-run", *words]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert "2 of 3" in printed.err
    assert told["summary"] == {"graded": 2, "kept": 0, "nothing": 1, "unreadable": 0, "crashed": 0}
    assert [each["score"] for each in told["gradebook"]] == [6.4, 6.4]  # eight points less two days
    assert not told["written"]
    assert not (folder / DATABASE).exists()
    assert cli.run(["classroom", "grade", *words[:2], "--lang", "nl"]) == 0
    assert "2 cijfers" in capsys.readouterr().out
    assert sorted(each.name for each in (folder / "autograded").iterdir()) == ["anna", "bram"]
    assert cli.run(["classroom", "feedback", *words]) == 0
    pages = [Path(each) for each in json.loads(capsys.readouterr().out)]
    assert [each.parent.parent.name for each in pages] == ["anna", "bram"]
    assert 'lang="nl"' in pages[1].read_text(encoding="utf-8")
    assert cli.run(["classroom", "feedback", "no-such", *words]) == 2
