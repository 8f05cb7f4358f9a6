"""A class is graded to its end, whatever its students handed in and whatever ends the grader, and nobody twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from shardwise import cli
from shardwise.classroom import batch, journal, result
from shardwise.classroom.batch import Outcome, grade, result_path
from tests.shardwise.classroom.a_class import EXERCISE, OPEN, hand_in, made, right_answers
from tests.shardwise.classroom.test_sandbox import BARRED
from translations import CourseError

pytestmark = [
    pytest.mark.skipif(bool(BARRED), reason=BARRED),
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("sandbox"),
]

STUB = {"code": OPEN}
"""Is graded without running anything."""


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results" / journal.NAME).read_text().splitlines()]


def ended(folder: Path) -> Counter[str]:
    return Counter(each["student"] for each in events(folder) if each["event"] == "ended")


def states(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    return {each.job.student: each.result.state for each in outcomes}


def test_everyone_gets_a_result_with_a_reason_and_nothing_is_graded_again(tmp_path: Path) -> None:
    course = made(tmp_path, students={"anna": "en", "bram": "nl", "celia": "ar", "dina": "en"})
    hand_in(tmp_path, "anna", right_answers(course, "anna"))
    place = hand_in(tmp_path, "bram", STUB)
    (place / f"{EXERCISE}.ipynb").write_text("{", encoding="utf-8")
    hand_in(tmp_path, "celia", STUB, language="ar")
    hand_in(tmp_path, "guest", STUB)
    steps = []
    outcomes = grade(tmp_path, on_step=steps.append)
    expected = {"anna": "graded", "bram": "unreadable", "celia": "graded", "dina": "nothing", "guest": "graded"}
    assert states(outcomes) == expected
    for each in outcomes:
        kept = result.read(result_path(tmp_path, student=each.job.student, assignment=EXERCISE))
        assert kept == each.result
        assert kept.reason or kept.verdict.message
        assert kept.student == each.job.student
    assert [each.done for each in steps] == [1, 2, 3, 4, 5]
    language = {each.job.student: each.result.language for each in outcomes}
    assert language == {"anna": "en", "bram": "nl", "celia": "ar", "dina": "en", "guest": "en"}
    assert outcomes[0].result.handed_in == "2026-11-20T10:00:00+00:00"

    again = grade(tmp_path)
    assert not any(each.now for each in again)
    assert [each.result for each in again] == [each.result for each in outcomes]
    assert set(ended(tmp_path).values()) == {1}

    hand_in(tmp_path, "dina", STUB)
    hand_in(tmp_path, "bram", STUB)
    hand_in(tmp_path, "celia", STUB, language="ar", at="2026-11-22 10:00:00.000000 Europe/Amsterdam")
    book = tmp_path / "results" / journal.NAME
    book.write_text("".join(book.read_text().splitlines(keepends=True)[:1]), encoding="utf-8")
    third = grade(tmp_path)  # nothing was noted, and another moment alone is no other work
    assert {each.job.student for each in third if each.now} == {"bram", "dina"}
    assert next(each.job.handed_in for each in third if each.job.student == "celia") == "2026-11-22T10:00:00+01:00"
    fourth = grade(tmp_path, student="celia", again=True)
    assert [(each.job.student, each.now) for each in fourth] == [("celia", True)]


@contextlib.contextmanager
def grader(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process of its own that can be killed."""
    command = [sys.executable, "-m", "shardwise.cli", "classroom", "grade", "--course", str(folder), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_a_killed_grader_goes_on_and_grades_nobody_twice(tmp_path: Path) -> None:
    """SIGKILL while submissions are in their sandboxes: what was done stays as it was, the rest is done once."""
    students = {f"s{number}": "en" for number in range(4)}
    course = made(tmp_path, students=students)
    for student in students:
        hand_in(tmp_path, student, right_answers(course, student))
    book = tmp_path / "results" / journal.NAME
    with grader(tmp_path) as process:
        until = time.monotonic() + 120
        while not (book.is_file() and ended(tmp_path)):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        while len(workers_of(process)) < 3:
            time.sleep(0.02)
        left = workers_of(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = set(ended(tmp_path))
        before = {each: result_path(tmp_path, student=each, assignment=EXERCISE).read_bytes() for each in done}
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive
    assert len(done) < len(students)
    with book.open("a", encoding="utf-8") as opened:
        opened.write('{"event": "beg')  # what a crash can leave
    outcomes = grade(tmp_path)
    assert set(states(outcomes).values()) == {"graded"}
    assert all(each.result.verdict.passed for each in outcomes)
    for student, data in before.items():
        assert result_path(tmp_path, student=student, assignment=EXERCISE).read_bytes() == data
    noted = [json.loads(line) for line in book.read_text().splitlines() if line.endswith("}")]
    assert set(Counter(each["student"] for each in noted if each["event"] == "ended").values()) == {1}
    assert not list((tmp_path / "results").rglob("*.part"))


def test_what_ends_the_grader_each_time_gets_a_result_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies takes one try of one submission with it; the others are graded."""
    made(tmp_path / "class", students={"anna": "en", "bram": "nl", "celia": "en"})
    for student in ("anna", "bram", "celia"):
        hand_in(tmp_path / "class", student, STUB)
    place = tmp_path / "startup"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'shardwise.classroom.worker' in ' '.join(sys.orig_argv):\n"
        "    from shardwise.classroom import batch\n"
        "    own = batch.graded\n"
        "    batch.graded = lambda job, **more: os._exit(7) if job.student == 'bram' else own(job, **more)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", f"{place}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    outcomes = grade(tmp_path / "class", workers=1)
    assert states(outcomes) == {"anna": "graded", "bram": "crashed", "celia": "graded"}
    assert str(batch.TRIES) in outcomes[1].result.reason
    assert all(part.by_hand for part in outcomes[1].result.parts)  # nobody loses points by our fault
    begun = Counter(each["student"] for each in events(tmp_path / "class") if each["event"] == "begun")
    assert begun == {"anna": 1, "bram": batch.TRIES, "celia": 1}
    monkeypatch.delenv("PYTHONPATH")
    assert {each.job.student for each in grade(tmp_path / "class") if each.now} == {"bram"}


def test_an_error_of_ours_is_a_reason_and_the_batch_goes_on(tmp_path: Path) -> None:
    made(tmp_path, exercises=(EXERCISE, "zero-1"), students={"anna": "en"})
    hand_in(tmp_path, "anna", STUB)
    hand_in(tmp_path, "anna", {"code": OPEN.replace(EXERCISE, "zero-1")}, assignment="zero-1")
    for path in (tmp_path / "release" / EXERCISE).rglob("*.ipynb"):
        path.write_text("no notebook", encoding="utf-8")
    outcomes = grade(tmp_path)
    assert [each.result.state for each in outcomes] == ["crashed", "graded"]
    assert outcomes[0].detail
    assert "anna" not in outcomes[0].result.reason


def test_two_graders_do_not_grade_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, students={"anna": "en"})
    monkeypatch.setattr(journal, "PATIENCE", 0.2)
    with journal.locked(tmp_path / "results"), pytest.raises(CourseError) as told:
        grade(tmp_path)
    assert told.value.id == "shardwise.grade-locked"
    assert grade(tmp_path)[0].result.state == "nothing"


@pytest.mark.parametrize(
    ("words", "told"),
    [(["no-such"], "no-such"), (["--student", "nobody"], "nobody"), (["--course", "/nowhere"], "class.yaml")],
)
def test_wrong_use_is_told(words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, students={"anna": "en"})
    given = words if "--course" in words else [*words, "--course", str(tmp_path)]
    assert cli.run(["classroom", "grade", *given]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_without_a_sandbox_nobody_is_graded_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, students={"anna": "en"})
    hand_in(tmp_path, "anna", STUB)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [sys.executable, "-m", "shardwise.cli", "classroom", "grade", "--course", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert "sandbox" in refused.stderr
    assert not result_path(tmp_path, student="anna", assignment=EXERCISE).exists()
    taken = subprocess.run([*command, "--unsafe"], capture_output=True, text=True, timeout=120, check=False)
    assert taken.returncode == 0, taken.stderr
    assert not result.read(result_path(tmp_path, student="anna", assignment=EXERCISE)).sandboxed


def test_feedback_settles_the_parts_whose_answers_it_names(tmp_path: Path) -> None:
    """What is handed in after it earns no more there; without feedback, or graded again as it was, it may."""
    course = made(tmp_path, students={"anna": "nl"})
    whole = right_answers(course, "anna")
    hand_in(tmp_path, "anna", STUB)
    (first,) = grade(tmp_path)
    place = hand_in(tmp_path, "anna", {name: text for name, text in whole.items() if name != "code"})
    (job,) = batch.jobs(tmp_path, student="anna")
    parts = tuple(replace(each, points=each.of) if each.name in batch.TOLD else each for each in first.result.parts)
    better = first.result.about(parts=parts, digest=job.digest)
    assert batch.settled(job, better) == better
    pages = tmp_path / batch.FEEDBACK / "anna" / EXERCISE
    pages.mkdir(parents=True)
    (pages / f"{EXERCISE}.html").write_text("told", encoding="utf-8")
    (again,) = grade(tmp_path)
    for name in batch.TOLD:
        part, before = again.result.part(name), first.result.part(name)
        assert part is not None
        assert before is not None
        assert part.points == before.points == 0
        assert "feedback" in part.message.lower()
    assert batch.settled(batch.jobs(tmp_path, student="anna")[0], better) == better, "the same work, graded again"
    assert place.is_dir()
