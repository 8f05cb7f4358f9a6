"""The practical part: real code in the real sandbox, graded once whatever is killed, and counted with the questions."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from labs.exercises import exercise
from shardwise.record.tables import now
from shardwise.service import attempts, graders, issuing
from shardwise.service.core import Core
from shardwise.service.store import Conflict, Forbidden
from shardwise.service.tables import Submission
from tests.shardwise.service.making import QUESTIONS, Clock, begun, core_of, exam_folder, person, right
from translations import CourseError

EXERCISE = "global-norm"
PRACTICAL = {"tasks": 1, "exercises": [EXERCISE], "kinds": ["repair"], "pass_mark": 0.8}


@pytest.fixture
def practical(tmp_path: Path) -> Path:
    exam_folder(tmp_path / "exams", practical=PRACTICAL)
    return tmp_path


def core_in(folder: Path) -> Core:
    return core_of(folder, clock=Clock(at=now()))


@pytest.mark.bwrap
@pytest.mark.timeout(150)
def test_code_is_graded_in_the_sandbox_and_a_passed_exam_says_both_parts(practical: Path) -> None:
    with closing(core_in(practical)) as core:
        who, _ = person(core)
        standing = begun(core, who)
        task = attempts.task(core, who, standing.id, EXERCISE)
        assert task.start("en") == exercise(EXERCISE, "en").code("broken")
        attempts.submit(core, who, standing.id, EXERCISE, b"import os\nos._exit(1)\n")
        solution = exercise(EXERCISE, "en").code("solution").encode()
        handed = attempts.submit(core, who, standing.id, EXERCISE, solution)
        assert (handed.revision, handed.points) == (2, None)  # nothing is told before the end
        for number in range(1, QUESTIONS + 1):
            attempts.answer(core, who, standing.id, number, right(core, standing.id, number))
        assert attempts.hand_in(core, who, standing.id).state == "ended"
        with pytest.raises(Conflict, match="still being graded"):
            attempts.outcome(core, who, standing.id)
        work = graders.Graders(core)
        work.start()
        end = time.monotonic() + 120
        while attempts.standing(core, who, standing.id).state != "graded":
            assert time.monotonic() < end
            time.sleep(0.2)
        work.stop()
        found = attempts.outcome(core, who, standing.id)
        assert found.practical is not None
        assert (found.passed, found.practical["share"], found.quiz["share"]) == (True, 1, 1)
        certificate = issuing.payload(issuing.request(core, who, standing.id).jwt)
        names = [each["id"] for each in certificate["credentialSubject"]["achievement"]["resultDescription"]]
        assert f"urn:shardwise:exam:short:lab:{EXERCISE}" in names


def test_what_a_killed_server_was_grading_is_in_line_again_with_its_seed(practical: Path) -> None:
    with closing(core_in(practical)) as core:
        who, _ = person(core)
        standing = begun(core, who)
        attempts.submit(core, who, standing.id, EXERCISE, b"x = 1\n")
        taken = graders.take(core)
        assert taken is not None
        assert graders.take(core) is None  # under a lease
        core.clock.on(seconds=graders.SECONDS + 31)  # type: ignore[attr-defined]
        again = graders.take(core)
        assert again == taken  # the lease ran out: the same order, the same seed
    with closing(core_in(practical)) as core:
        assert graders.reclaim(core) == 1
        third = graders.take(core)
        assert third == taken
        graders.finish(core, third, None)  # no grader survived it three times
        assert graders.take(core) is None
        with core.store.reading() as session:
            (kept,) = session.query(Submission).all()
            assert kept.state in ("queued", "failed")
        core.clock.on(minutes=31)  # type: ignore[attr-defined]
        attempts.sweep(core)
        found = attempts.outcome(core, who, standing.id)
        assert found.practical is not None
        assert (found.practical["share"], found.passed) == (0, False)


def test_a_grader_that_ends_is_replaced_and_what_it_cannot_read_has_a_reason() -> None:
    grader = graders.Grader()
    assert grader.alive
    grader._process.kill()
    grader._process.wait()
    assert grader.grade({"id": "1", "source": ""}, stopping=threading.Event()) is None
    grader.end()


def test_code_is_bounded_in_bytes_times_and_line(practical: Path) -> None:
    with closing(core_in(practical)) as core:
        who, _ = person(core)
        standing = begun(core, who)
        with pytest.raises(CourseError):
            attempts.submit(core, who, standing.id, EXERCISE, b"#" * (attempts.SOURCE_BYTES + 1))
        for number in range(attempts.SUBMISSIONS):
            attempts.submit(core, who, standing.id, EXERCISE, f"x = {number}\n".encode())
        with pytest.raises(Forbidden, match="as often"):
            attempts.submit(core, who, standing.id, EXERCISE, b"once more")
        with core.store.reading() as session:
            states = [each.state for each in session.query(Submission).order_by(Submission.revision)]
        assert states == ["replaced"] * (attempts.SUBMISSIONS - 1) + ["queued"]
