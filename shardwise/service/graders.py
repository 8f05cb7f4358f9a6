"""Grading what was handed in: a bounded number of processes, fed from the table of submissions, which is the queue.

Whoever grades holds a lease. A server or grader that is killed lets it run out (or gives it back as it starts anew),
and the submission is graded again, with the seed that it has: the same verdict. What no grader survives `TRIES` times
gets no points and says so.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import select as waiting
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import IO, Any

from sqlalchemy import and_, or_, select, update

from labs.exercises import exercise
from shardwise.service import attempts, issuing
from shardwise.service.core import Core
from shardwise.service.store import audit
from shardwise.service.tables import Attempt, Submission
from translations import CourseError

SECONDS = 240
"""The longest that a grader may take: the sandbox's own limit, and some."""
TRIES = 3
LOOK = 0.5
SWEEP = 5.0
_log = logging.getLogger("shardwise.service")


class Graders:
    """The threads that lead the graders, and one that ends attempts whose time is over. `start`, then `stop`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._stopping = threading.Event()
        count = core.settings.graders
        self._threads = [
            *(threading.Thread(target=self._lead, name=f"grader-{n}", daemon=True) for n in range(count)),
            threading.Thread(target=self._sweep, name="sweep", daemon=True),
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Ends the graders; what they were grading is in line again."""
        self._stopping.set()
        for each in self._threads:
            if each.ident is not None:
                each.join(10)

    def _lead(self) -> None:
        grader: Grader | None = None
        try:
            while not self._stopping.is_set():
                try:
                    taken = take(self._core)
                    if taken is None:
                        self._stopping.wait(LOOK)
                        continue
                    grader = grader if grader is not None and grader.alive else Grader()
                    found = grader.grade(taken, stopping=self._stopping)
                    if self._stopping.is_set() and found is None:
                        give_back(self._core, taken["id"])
                        return
                    finish(self._core, taken, found)
                except Exception as error:  # one that can't be graded must not end the grading of others
                    _log.error("grading-failed", exc_info=error)
                    self._stopping.wait(SWEEP)
        finally:
            if grader is not None:
                grader.end()

    def _sweep(self) -> None:
        while not self._stopping.wait(SWEEP):
            try:
                attempts.sweep(self._core)
                issuing.recover(self._core)
            except Exception as error:  # the database may be away for a moment; the next round tries again
                _log.error("sweep-failed", exc_info=error)


def take(core: Core) -> dict[str, Any] | None:
    """The next submission that waits, or whose lease ran out, under a lease. None where none waits."""
    at = core.clock()
    free = or_(Submission.state == "queued", and_(Submission.state == "running", Submission.lease < at))
    with core.store.reading() as session:  # looking takes no lock that somebody's answer waits for
        if session.scalar(select(Submission.id).where(free).limit(1)) is None:
            return None
    with core.store.writing() as session:
        found = session.scalar(
            select(Submission).where(free).order_by(Submission.made).limit(1).with_for_update(skip_locked=True)
        )
        if found is None:
            return None
        attempt = session.get_one(Attempt, found.attempt)
        if found.tries >= TRIES:
            _settle(found, None)
            audit(session, actor=None, action="grading-given-up", about=found.id)
            return None
        found.state, found.tries, found.lease = "running", found.tries + 1, at + timedelta(seconds=SECONDS + 30)
        return {
            "id": found.id,
            "attempt": found.attempt,
            "exercise": found.task,
            "language": attempt.language,
            "seed": found.seed,
            "source": base64.b64encode(found.source).decode("ascii"),
        }


def give_back(core: Core, id: str) -> None:
    """In line again, and the try doesn't count."""
    with core.store.writing() as session:
        found = session.get(Submission, id, with_for_update=True)
        if found is not None and found.state == "running":
            found.state, found.lease, found.tries = "queued", None, max(0, found.tries - 1)


def reclaim(core: Core) -> int:
    """As a server starts that is alone: what its predecessor was grading is in line again; how many there were."""
    with core.store.writing() as session:
        found = session.execute(
            update(Submission).where(Submission.state == "running").values(state="queued", lease=None)
        )
        return int(found.rowcount)  # type: ignore[attr-defined]


def finish(core: Core, taken: dict[str, Any], answer: dict[str, Any] | None) -> None:
    """Writes a verdict, once; without one the submission is in line again until its tries are used up."""
    with core.store.writing() as session:
        found = session.get(Submission, taken["id"], with_for_update=True)
        if found is None or found.state != "running":
            return
        if answer is None and found.tries < TRIES:
            found.state, found.lease = "queued", None
            return
        _settle(found, answer)
    attempts.settle(core, taken["attempt"])


def _settle(found: Submission, answer: dict[str, Any] | None) -> None:
    result = (answer or {}).get("result")
    if result is None:
        # No file that could be graded, or no grader that survived it: no points, and the reason.
        said = (answer or {}).get("said") or str(CourseError("shardwise.service-grading-failed"))
        verdict = {"passed": False, "points": 0, "of": _points(found.task), "failed_at": "grading", "message": said}
        result = {"version": 1, "exercise": found.task, "sha256": found.sha256, "seed": found.seed, "verdict": verdict}
    found.state = "graded" if (answer or {}).get("result") is not None else "failed"
    found.result, found.lease = result, None


def _points(id: str) -> float:
    return float(exercise(id).of)


class Grader:
    """One grading process, used for many submissions, replaced when it ends or takes too long."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shardwise.service.grader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def grade(self, order: dict[str, Any], *, stopping: threading.Event) -> dict[str, Any] | None:
        """The answer to an order; None where the process ended, took too long, or the service stops."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
            line = _line(stdout, seconds=SECONDS, stopping=stopping)
            answer: dict[str, Any] = json.loads(line) if line else {}
        except (OSError, ValueError):
            answer = {}
        if answer.get("id") != order["id"]:
            self.end()
            return None
        return answer

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _line(stdout: IO[bytes], *, seconds: float, stopping: threading.Event) -> bytes:
    """The next line, or nothing where none came in time."""
    until, found = time.monotonic() + seconds, bytearray()
    while not found.endswith(b"\n"):
        if time.monotonic() > until or stopping.is_set():
            return b""
        if waiting.select([stdout], [], [], LOOK)[0]:
            part = stdout.read1(65536)  # type: ignore[attr-defined]
            if not part:
                return b""
            found += part
    return bytes(found)
