"""What becomes of the grades: the table of a class, files for other systems, quizzes and exams brought in, a report,
similar code in pairs, and everything of a student taken away again. With nbgrader's real gradebook.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import shutil
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from shardwise import cli, practice
from shardwise.classroom import exports, imports, report, retention, similar
from shardwise.classroom.course import Course, read, read_students, students
from shardwise.classroom.sheet import Sheet, sheet
from shardwise.record import Record
from tests.shardwise import answers
from translations import CourseError, language, translator

notebook_hash = pytest.importorskip("nbgrader.utils").notebook_hash
api = pytest.importorskip("nbgrader.api", reason="nbgrader is not here (make classroom), so this test is skipped.")

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own adding of submissions
ENGLISH = language("en")
CLASS = """
version: 1
id: ml101
languages: [en, nl, ar]
zone: Europe/Amsterdam
assignments:
  - {id: zero-1, due: 2026-10-01 23:59 Europe/Amsterdam}
  - {id: zero-2, students: [ann, bo]}
  - {id: zero-1-again, exercise: zero-1, resit_of: zero-1}
  - {id: recompute}
marks: {scale: [[0, 1], [55, 5.5], [100, 10]], decimals: 1, pass: 55}
extensions: {bo: {zero-1: 2026-10-03 23:59 Europe/Amsterdam}}
"""
STUDENTS = """id,first_name,last_name,email,lms_user_id
ann,Ann,Ámos,ann@example.org,7001
bo,Bo,=HYPERLINK("http://x"),bo@example.org,7002
زينب,زينب,علي,sara@example.org,7003
""".replace("زينب,زينب", "sara,زينب")


def put(book: object, assignment: str, student: str, points: float | None, *, penalty: float = 0.0) -> None:
    """A submission with ten points by machine and ten by hand, where `points` is None still without these."""
    book.update_or_create_assignment(assignment)  # type: ignore[attr-defined]
    book.update_or_create_notebook(assignment, assignment)  # type: ignore[attr-defined]
    for cell in ("code", "explain"):
        book.update_or_create_grade_cell(cell, assignment, assignment, max_score=10, cell_type="code")  # type: ignore[attr-defined]
    moment = datetime(2026, 10, 1, 12)
    row = book.update_or_create_submission(assignment, student, timestamp=moment)  # type: ignore[attr-defined]
    (notebook,) = row.notebooks
    notebook.late_submission_penalty = penalty
    code, explain = (book.find_grade(cell, assignment, assignment, student) for cell in ("code", "explain"))  # type: ignore[attr-defined]
    code.auto_score, code.needs_manual_grade = 10, False
    explain.manual_score, explain.needs_manual_grade = (points - 10, False) if points is not None else (None, True)
    book.db.commit()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of three: sara's explanation waits, bo was late and did better in the resit, ann handed in everything."""
    place = tmp_path_factory.mktemp("class") / "ml101"
    place.mkdir()
    (place / "class.yaml").write_text(CLASS, encoding="utf-8")
    (place / "students.csv").write_text(STUDENTS, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with api.Gradebook(f"sqlite:///{place / 'gradebook.db'}", "ml101") as book:
            for each in read_students(place / "students.csv"):
                book.update_or_create_student(each.id, first_name=each.first_name, last_name=each.last_name)
            put(book, "zero-1", "ann", 18)
            put(book, "zero-1", "bo", 12, penalty=2)
            put(book, "zero-1", "sara", None)
            put(book, "zero-2", "ann", 20)
            put(book, "zero-1-again", "bo", 16)
            book.update_or_create_assignment("recompute")  # made, and not yet given out
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "ml101"))


def test_a_sheet_takes_resits_penalties_and_what_is_for_whom_into_account(folder: Path) -> None:
    marks = sheet(folder)
    assert [each.id for each in marks.columns] == ["zero-1", "zero-2"]
    points = {pair: score.points for pair, score in marks.scores.items()}
    assert points == {
        ("ann", "zero-1"): 18,
        ("bo", "zero-1"): 16,
        ("sara", "zero-1"): 10,
        ("ann", "zero-2"): 20,
        ("bo", "zero-2"): 0,
    }
    assert marks.waiting() == (("sara", "zero-1"),)
    assert marks.share("ann") == pytest.approx(38 / 40)
    assert marks.mark("ann") == 9.5
    assert marks.mark("sara") == 5.1  # 50 %, between 1 and 5.5
    with api.Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "ml101") as book:
        put(book, "zero-1-again", "bo", 11)
    assert sheet(folder).scores["bo", "zero-1"].points == 11
    (folder / "class.yaml").write_text(CLASS + "resits: latest\n", encoding="utf-8")
    with api.Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "ml101") as book:
        book.update_or_create_submission("zero-1", "bo", timestamp=datetime(2026, 10, 5))
    assert sheet(folder).scores["bo", "zero-1"].points == 10


def rows(marks: Sheet, format: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(exports.write(marks, format, translator(ENGLISH)))))


def test_each_system_gets_the_columns_that_it_asks_for(folder: Path) -> None:
    marks = sheet(folder)
    moodle = rows(marks, "moodle")
    assert moodle[0] == ["ID number", "Email address", "zero-1", "zero-2", "ml101 mark"]
    assert moodle[1] == ["7001", "ann@example.org", "18", "20", "9.5"]
    assert moodle[3] == ["7003", "sara@example.org", "10", "", "5.1"]
    canvas = rows(marks, "canvas")
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[1] == ["    Points Possible", "", "", "", "", "20", "20"]
    assert canvas[2] == ["Ámos, Ann", "7001", "", "ann", "", "18", "20"]
    assert canvas[3][0].startswith("'=HYPERLINK")
    brightspace = rows(marks, "brightspace")
    assert brightspace[0][2:4] == [f"zero-{n} Points Grade <Numeric MaxPoints:20>" for n in (1, 2)]
    assert brightspace[1] == ["#7001", "#ann", "18", "20", "#"]
    assert {line[-1] for line in brightspace[1:]} == {"#"}
    for format in exports.FORMATS:
        assert not any(cell[:1] in ("=", "+", "-", "@") for line in rows(marks, format) for cell in line)
        assert {len(line) for line in rows(marks, format)} == {len(rows(marks, format)[0])}


# --- quizzes


Taker = Callable[..., Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """A unit's quiz taken as a learner takes it, the first `right` answers by the key, and the record exported."""
    place = tmp_path_factory.mktemp("records")

    @functools.cache
    def export(unit: str, right: int) -> Path:
        record = Record.open(url=f"sqlite:///{place / f'{right}.db'}")
        answers.take(practice.quiz(record, unit=unit, language=ENGLISH), right=bool(right))
        record.export(place / f"{right}.json", key=False)
        record.close()
        return place / f"{right}.json"

    return export


@pytest.fixture
def taken(exported: Callable[[str, int], Path], tmp_path: Path) -> Taker:
    def take(student: str, unit: str, *, right: bool) -> Path:
        (tmp_path / "records").mkdir(exist_ok=True)
        return Path(shutil.copyfile(exported(unit, right), tmp_path / "records" / f"{student}.json"))

    return take


UNIT = "04-zero-1"


def test_a_quiz_comes_into_the_gradebook_once_and_forged_credit_counts_for_nothing(folder: Path, taken: Taker) -> None:
    files = {"ann": taken("ann", UNIT, right=True), "bo": taken("bo", UNIT, right=False)}
    forged = json.loads(files["bo"].read_text(encoding="utf-8"))
    assert forged["learner"]["key"] is None
    for row in forged["answers"]:
        row["credit"], row["correct"], row["misconception"] = 1.0, True, None
    files["bo"].write_text(json.dumps(forged), encoding="utf-8")
    found, findings = imports.quizzes(files)
    assert not findings
    shares = {each.student: each.share for each in found}
    assert shares["ann"] == 1
    assert shares["bo"] < 0.35  # a wrong line in an order or a match may still earn a part
    course = read(folder)
    changes = imports.plan(folder, course, found, points=10)
    assert [each.before for each in changes] == [None, None]
    assert f"quiz-{UNIT}" not in {each.id for each in sheet(folder).columns}, "planning has written"
    assert imports.apply(folder, course, changes) == 2
    assert imports.apply(folder, course, imports.plan(folder, course, found, points=10)) == 0
    assert sheet(folder).scores["ann", f"quiz-{UNIT}"].points == 10
    assert sheet(folder).columns[-1].id == f"quiz-{UNIT}"


def test_answers_to_other_questions_than_the_attempts_own_are_left_out(taken: Taker) -> None:
    path = taken("ann", UNIT, right=True)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["answers"][0]["seed"] += 1
    path.write_text(json.dumps(content), encoding="utf-8")
    found, findings = imports.quizzes({"ann": path})
    assert [(who, error.id) for who, error in findings] == [("ann", "shardwise.import-doubtful")]
    assert found[0].share < 1
    content["attempts"][0]["seed"] += 1  # not the seed that follows from this learner and try
    path.write_text(json.dumps(content), encoding="utf-8")
    assert imports.quizzes({"ann": path})[0][0].share == 0
    path.write_text("{}", encoding="utf-8")
    assert [error.id for _, error in imports.quizzes({"ann": path})[1]] == ["shardwise.record-file-not-one"]


def test_an_edited_question_never_marks_an_old_answer_and_its_typed_credit_counts_for_nothing(taken: Taker) -> None:
    path = taken("ann", UNIT, right=True)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["answers"][0] |= {"version": 9, "credit": 1.0}
    path.write_text(json.dumps(content), encoding="utf-8")
    ((whole,), findings) = imports.quizzes({"ann": path})
    count = len(content["answers"])
    assert [error.id for _, error in findings] == ["shardwise.import-doubtful"]
    assert whole.share == pytest.approx((count - 1) / count)


def test_invented_questions_count_for_nothing(taken: Taker) -> None:
    path = taken("bo", UNIT, right=False)
    honest = imports.quizzes({"bo": path})[0][0].share
    content = json.loads(path.read_text(encoding="utf-8"))
    for number, row in enumerate(list(content["answers"])):
        content["answers"].append(row | {"id": f"{row['id']}x", "item": f"made-up-{number}", "credit": 1.0})
    path.write_text(json.dumps(content), encoding="utf-8")
    assert imports.quizzes({"bo": path})[0][0].share == pytest.approx(honest)


EXAMS = """reference,email,name,attempt,begun,ended,state,quiz_share,practical_share,passed,supervised,certificate
ann,,Ann,1,2026-11-01T09:00:00+00:00,2026-11-01T10:00:00+00:00,graded,0.8,0.5,no,yes,
ann,,Ann,2,2026-11-08T09:00:00+00:00,2026-11-08T10:00:00+00:00,graded,0.9,0.4,yes,yes,urn:x
,BO@example.org,Bo,1,2026-11-01T09:00:00+00:00,2026-11-01T10:00:00+00:00,graded,0.4,,no,yes,
sara,,Sara,1,2026-11-01T09:00:00+00:00,,open,,,,yes,
"""


def test_exams_come_from_the_services_table_the_best_try_counts(folder: Path) -> None:
    course, known = read(folder), students(folder)
    changes = imports.plan(folder, course, imports.exams(EXAMS, exam="final", students=known), points=100)
    imports.apply(folder, course, changes)
    marks = sheet(folder)
    assert marks.scores["ann", "exam-final"].points == 90
    assert marks.scores["ann", "lab-final"].points == 50
    assert marks.scores["bo", "exam-final"].points == 40
    assert marks.scores["sara", "exam-final"].points == 0
    for broken, id in [
        ("reference,exam\nann,course\n", "import-columns"),
        (EXAMS.replace("0.9", "1.9"), "import-line"),
        (EXAMS.replace("2026-11-08T10:00:00+00:00", "2026-11-08T10:00:00"), "import-line"),
        (EXAMS.replace("BO@", "mallory@"), "import-stranger"),
    ]:
        with pytest.raises(CourseError) as refused:
            imports.exams(broken, exam="final", students=known)
        assert refused.value.id == f"shardwise.{id}"


# --- the report


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_a_report_says_where_a_class_stumbles_and_names_nobody(folder: Path, taken: Taker, code: str) -> None:
    quizzes = {
        who: tuple(imports.attempts(json.loads(taken(who, UNIT, right=right).read_text(encoding="utf-8"))))
        for who, right in (("ann", True), ("bo", False))
    }
    found = report.report(sheet(folder), (), quizzes)
    assert found.students == 3
    assert sum(found.marks) == 3
    assert found.waiting == 1
    assert found.misconceptions
    assert {each.students for each in found.misconceptions} == {1}
    assert 0 < found.objectives[0].share < 1
    page = report.page(found, language(code))
    assert f'lang="{code}"' in page
    assert "http" not in page.replace("http://www.w3.org", "")
    for name in ("Ámos", "ann@", "زينب", "HYPERLINK"):
        assert name not in page
    assert {each.id for each in found.objectives} <= set(page.replace("<", " ").replace(">", " ").split())


# --- similar code

TASK = "def step(units):\n    raise NotImplementedError\n"
ONE = '''def step(units):
    """Mine."""
    for unit in units:
        shard = unit.part(unit.gradients)  # my part
        dist.reduce_scatter_single(shard, unit.gradients, op=dist.ReduceOp.AVG, group=unit.group)
        unit.update(shard)
        dist.all_gather_single(unit.whole, unit.shard, group=unit.group)
'''
OTHER = """def step(units):
    pieces = [(each, each.part(each.gradients)) for each in units]
    for each, piece in pieces:
        dist.all_reduce(each.gradients, group=each.group)
        each.gradients.div_(dist.get_world_size(each.group))
    for each, piece in pieces:
        each.update(piece)
        dist.all_gather_single(each.whole, each.shard, group=each.group)
"""


def test_renaming_and_layout_hide_nothing_and_other_ways_are_not_alike() -> None:
    renamed = ONE.replace("unit", "u").replace("shard =", "my_own_piece =").replace("(shard", "(my_own_piece")
    renamed = renamed.replace("# my part", "").replace('"""Mine."""', '"""Wholly written by myself."""')
    sources = {"ann": ONE, "bo": renamed, "cas": OTHER, "dee": TASK, "eve": "def step(:\n" + "(" * 500}
    found = similar.likeness(sources, template=TASK, solution=ONE)
    assert [(each.first, each.second, each.share) for each in found.pairs] == [("ann", "bo", 1.0)]
    assert found.solution["ann"] == found.solution["bo"] == 1
    assert found.solution["cas"] < 0.8
    assert found.short == ("dee",)
    assert found.middle is not None
    assert found.middle < 0.9


def test_what_everybody_was_given_is_no_likeness() -> None:
    given = "\n".join(f"value_{n} = helper(first={n}, second=[{n}, {n}])" for n in range(30)) + "\n"
    found = similar.likeness({"a": given + ONE, "b": given + OTHER}, template=given, solution=ONE, alike=0)
    assert (
        found.pairs[0].share
        == similar.likeness({"a": ONE, "b": OTHER}, template="", solution="", alike=0).pairs[0].share
    )


# --- taking away


def test_all_of_a_student_goes_and_all_of_the_others_stays(folder: Path, tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    (folder / "class.yaml").write_text(CLASS + f"exchange: {exchange}\n", encoding="utf-8")
    for who in ("ann", "bo"):
        for name in ("submitted", "results", "autograded", "feedback"):
            (folder / name / who / "zero-1").mkdir(parents=True)
            (folder / name / who / "zero-1" / "zero-1.ipynb").write_text("{}", encoding="utf-8")
        (exchange / "ml101" / "inbound" / f"{who}+zero-1+2026-10-01 12:00:00 UTC+x").mkdir(parents=True)
        kept = folder / "feedback" / who / "zero-1"
        (kept / "zero-1.html").write_text("told", encoding="utf-8")
        (kept / "submission_secret.txt").write_text(f"secret of {who}", encoding="utf-8")
        (exchange / "ml101" / "feedback").mkdir(exist_ok=True)
        name = notebook_hash(secret=f"secret of {who}", notebook_id="zero-1")
        (exchange / "ml101" / "feedback" / f"{name}.html").write_text("told", encoding="utf-8")
    (folder / "class.yaml.before").write_text("extensions: {bo: {}}", encoding="utf-8")
    found = retention.find(folder, "bo")
    assert len(found.paths) == 7
    assert found.submissions == 2
    retention.purge(folder, ["bo"])
    assert not retention.find(folder, "bo").paths
    assert retention.find(folder, "bo").submissions == 0
    assert len(retention.find(folder, "ann").paths) == 6
    (left_page,) = (exchange / "ml101" / "feedback").iterdir()
    assert left_page.stem == notebook_hash(secret="secret of ann", notebook_id="zero-1")
    left = [path for path in [*folder.rglob("*"), *exchange.rglob("*")] if "bo" in path.name.split("+")]
    assert left == []
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        assert b"bo@example.org" not in path.read_bytes(), path
    course: Course = read(folder)
    assert "bo" not in course.extensions
    assert course.assignment("zero-2").students == ("ann",)
    assert {each.id for each in sheet(folder).students} == {"ann", "sara"}
    (line,) = (folder / retention.LOG).read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["students"] == 1


def test_old_data_is_found_by_the_last_moment_that_matters(folder: Path) -> None:
    assert retention.older(folder, 30, now=datetime.fromisoformat("2026-10-20T00:00:00+00:00")) == ()
    assert retention.older(folder, 30, now=datetime.fromisoformat("2026-11-02T00:00:00+00:00")) == ("ann", "sara")
    assert retention.older(folder, 30, now=datetime.fromisoformat("2026-11-20T00:00:00+00:00")) == ("ann", "bo", "sara")


# --- from the terminal


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["classroom", *words])
    return int(ended.value.code or 0)


def test_the_commands(folder: Path, taken: Taker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = ["--course", str(folder)]
    records = taken("ann", UNIT, right=True).parent
    assert run("import-quizzes", str(records), *course, "--dry-run") == 0
    assert "would change: 1" in capsys.readouterr().out
    assert run("import-quizzes", str(records), *course) == 0
    assert run("import-quizzes", str(records), *course) == 0
    assert "written: 0; the same already: 1" in capsys.readouterr().out
    assert run("export", *course, "--format", "canvas") == 0
    told = capsys.readouterr()
    assert f"quiz-{UNIT}" in told.out
    assert "wait" in told.err
    assert run("export", *course, "--format", "excel") == 2
    page = tmp_path / "report.html"
    assert run("report", *course, "--records", str(records), "--out", str(page)) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run("purge", *course) == 2
    assert run("purge", *course, "--student", "nobody") == 2
    assert run("purge", *course, "--student", "ann", "--dry-run") == 0
    assert retention.find(folder, "ann").submissions
    assert run("purge", *course, "--student", "ann", "--yes") == 0
    assert not retention.find(folder, "ann").submissions
    assert run("export", "--course", str(tmp_path)) == 2
