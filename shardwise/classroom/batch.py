"""A class is graded: every student gets a result with a reason, whatever happens to the grader, and nobody two.

Workers are processes that have imported torch once; each submission has a sandbox of its own. A worker that dies takes
one submission's try with it and no more. What a run has done is in the results and the journal: a killed grader goes
on where it was, and what has not changed since is not graded again unless it is asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from shardwise.classroom import course as classes
from shardwise.classroom import handed_in, journal
from shardwise.classroom.course import Course
from shardwise.classroom.result import Part, Result, State, nothing, read
from translations import CourseError, translator
from translations import language as find_language

SUBMITTED = "submitted"
RESULTS = "results"
FEEDBACK = "feedback"
TOLD = ("fault", "numbers")
"""The parts whose right answers feedback names."""
TRIES = 3
"""How often one submission is begun before it is said that it ends the grader."""
_NOTED = re.compile(r"(\S+[ T][\d:.]+) *([A-Za-z/_+-]*)")
LONGEST = 900.0
"""Seconds after which a worker is ended that has not answered: its sandbox ends long before."""


_PATHS = ("folder", "path", "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One student's work on one assignment. `path` is what was handed in, `out` the file of its result; `language` is
    the student's, for what is said where the work itself does not tell; `handed_in` is ISO 8601 with a zone.
    """

    folder: Path
    course: str
    assignment: str
    exercise: str
    student: str
    language: str
    path: Path
    out: Path
    digest: str
    handed_in: str | None

    def as_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Job:
        known: dict[str, Any] = {key: Path(each) if key in _PATHS else each for key, each in data.items()}
        return Job(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one job. `now` is False where an earlier run's result still holds; `detail` is for the teacher."""

    job: Job
    result: Result
    now: bool = True
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a run is: after this outcome, so many of so many."""

    done: int
    of: int
    outcome: Outcome


class Came(Protocol):
    """Is told of each job's end."""

    def __call__(self, job: Job, result: Result, *, now: bool = True, detail: str = "") -> None: ...


def grade(
    folder: Path,
    *,
    assignment: str | None = None,
    student: str | None = None,
    workers: int | None = None,
    again: bool = False,
    sandboxed: bool = True,
    on_step: Callable[[Step], None] | None = None,
) -> tuple[Outcome, ...]:
    """Grades what was handed in to a class, in the order of assignments and students. Raises CourseError where there is
    no class, no such assignment or student, another grader at work, or no sandbox.
    """
    if sandboxed:
        from shardwise.classroom.sandbox import sandbox

        with sandbox():  # nothing is begun where none can be made
            pass
    results = folder / RESULTS
    with journal.locked(results) as lock:
        found = jobs(folder, assignment=assignment, student=student)
        book = journal.Journal(results)
        outcomes: dict[Path, Outcome] = {}

        def came(job: Job, result: Result, *, now: bool = True, detail: str = "") -> None:
            if now:
                book.ended(job.student, job.assignment, job.digest, state=result.state, detail=detail)
            outcomes[job.out] = Outcome(job=job, result=result, now=now, detail=detail)
            if on_step is not None:
                on_step(Step(done=len(outcomes), of=len(found), outcome=outcomes[job.out]))

        waiting: deque[Job] = deque()
        for job in found:
            if not again and (earlier := before(job)) is not None:
                came(job, earlier, now=False)
            elif job.path.exists():
                waiting.append(job)
            else:
                came(job, _without(job, "nothing", "shardwise.handed-in-nothing"))
        if waiting:
            count = min(workers or default_workers(), len(waiting))
            with _Pool(count, lock=lock, sandboxed=sandboxed) as pool:
                pool.work(waiting, book, came)
        return tuple(outcomes[job.out] for job in found)


def default_workers() -> int:
    """A submission runs up to four ranks, which mostly wait for one another: half of the cores keeps all busy."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def jobs(folder: Path, *, assignment: str | None = None, student: str | None = None) -> tuple[Job, ...]:
    """Who is to be graded on what: the students of the list, and whoever else handed something in."""
    course = classes.read(folder)
    chosen = [course.assignment(assignment)] if assignment is not None else list(course.assignments)
    roster = {each.id: each for each in classes.students(folder)}
    handed = folder / SUBMITTED
    there = (
        {each.name for each in handed.iterdir() if each.is_dir() and each.name[0] != "."} if handed.is_dir() else set()
    )
    if student is not None and student not in roster and student not in there:
        raise CourseError("shardwise.grade-no-student", student=student)
    found = []
    for each in chosen:
        for name in sorted({*roster, *there}) if student is None else [student]:
            path = handed / name / each.id
            listed = roster.get(name)
            if not path.exists() and (listed is None or not course.is_for(name, each.id)):
                continue
            found.append(
                Job(
                    folder=folder,
                    course=course.id,
                    assignment=each.id,
                    exercise=each.exercise,
                    student=name,
                    language=(listed.language if listed is not None else "") or course.language,
                    path=path,
                    out=result_path(folder, student=name, assignment=each.id),
                    digest=handed_in.digest(path) if path.exists() else "",
                    handed_in=_timestamp(path, course),
                )
            )
    return tuple(found)


def result_path(folder: Path, *, student: str, assignment: str) -> Path:
    """Where a student's result lies."""
    return folder / RESULTS / student / f"{assignment}.json"


def results(folder: Path, *, assignment: str | None = None, student: str | None = None) -> tuple[Result, ...]:
    """The results that lie there, of assignments in the class's order. What cannot be read is left out."""
    course = classes.read(folder)
    found = []
    for each in course.assignments:
        for path in sorted((folder / RESULTS).glob(f"*/{each.id}.json")):
            if (assignment is None or each.id == assignment) and (student is None or path.parent.name == student):
                with contextlib.suppress(CourseError):
                    found.append(read(path).about(course=course.id, assignment=each.id, student=path.parent.name))
    return tuple(found)


def graded(job: Job, *, sandboxed: bool) -> Result:
    """Grades one and writes its result: what a worker does."""
    from shardwise.classroom.grading import grade_one

    result = grade_one(
        job.path,
        exercise_id=job.exercise,
        language=find_language(job.language),
        sandboxed=sandboxed,
        course=job.folder,
        student=job.student,
        assignment=job.assignment,
    )
    return _kept(job, settled(job, result))


def settled(job: Job, result: Result) -> Result:
    """The result with no more points in `TOLD` than the work had for which feedback was made: that names the answers.

    The same work graded again is another matter: then a check was wrong, or is now.
    """
    try:
        known = read(job.out)
    except CourseError:
        return result
    pages = job.folder / FEEDBACK / job.student / job.assignment
    if known.state != "graded" or known.digest == job.digest or not any(pages.glob("*.html")):
        return result
    said = translator(find_language(result.language))("shardwise.grade-told-before")
    return result.about(parts=tuple(_at_most(each, known.part(each.name), said) for each in result.parts))


def _at_most(part: Part, before: Part | None, said: str) -> Part:
    most = 0.0 if before is None else before.points or 0.0
    if part.name not in TOLD or part.points is None or part.points <= most:
        return part
    return replace(part, points=most, message=said)


def _kept(job: Job, result: Result) -> Result:
    """The result with what is known of the job, written. The digest is that of the job: if what was handed in changed
    meanwhile, it is graded again the next time.
    """
    known = {"course": job.course, "assignment": job.assignment, "student": job.student}
    result = result.about(**known, handed_in=job.handed_in, digest=job.digest)
    job.out.parent.mkdir(parents=True, exist_ok=True)
    result.write(job.out)
    return result


def _without(job: Job, state: State, message: str, **values: Any) -> Result:
    """A result for one whose work was not run."""
    language = find_language(job.language)
    reason = translator(language)(message, **values)
    return _kept(job, nothing(state=state, reason=reason, exercise_id=job.exercise, language=language))


def before(job: Job) -> Result | None:
    """The result of an earlier run, if it is of just this. One that crashed is tried again."""
    try:
        result = read(job.out)
    except CourseError:
        return None
    return result if result.digest == job.digest and result.state != "crashed" else None


def _timestamp(path: Path, course: Course) -> str | None:
    """When it was handed in, by nbgrader's own note; a time without a zone is UTC, as nbgrader means it."""
    try:
        text = (path / "timestamp.txt").read_text(encoding="utf-8")[:100].strip()
        found = _NOTED.fullmatch(text)
        moment = datetime.fromisoformat(found[1] if found else text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=classes.zone_of(found[2]) if found and found[2] else UTC)
    except (OSError, ValueError):
        return None
    except CourseError:  # the short name of a zone: it can only be the class's own
        moment = moment.replace(tzinfo=classes.zone_of(course.zone))
    return moment.isoformat()


# --- workers


class _Worker:
    """A process that grades, and what it is at."""

    def __init__(self, *, lock: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shardwise.classroom.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
        )
        self.job: Job | None = None
        self.since = 0.0
        self.came = b""

    def take(self, job: Job, *, sandboxed: bool) -> bool:
        """Whether it took the order; it may just have died."""
        assert self.process.stdin is not None
        self.job, self.since = job, time.monotonic()
        try:
            self.process.stdin.write(json.dumps({"job": job.as_json(), "sandboxed": sandboxed}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def answer(self) -> dict[str, Any] | None:
        """What it said, None while the line is not whole. Raises EOFError where it has ended."""
        assert self.process.stdout is not None
        piece = os.read(self.process.stdout.fileno(), 1 << 16)
        if not piece:
            raise EOFError
        self.came += piece
        if b"\n" not in self.came:
            return None
        line, _, self.came = self.came.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Pool:
    """Workers, for as long as the block lasts."""

    def __init__(self, count: int, *, lock: int, sandboxed: bool) -> None:
        self._lock, self._sandboxed = lock, sandboxed
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._count = count

    def __enter__(self) -> _Pool:
        for _ in range(self._count):
            self._hire()
        return self

    def __exit__(self, *about: object) -> None:
        for worker in self._workers:
            worker.end()
        self._selector.close()

    def work(self, waiting: deque[Job], book: journal.Journal, came: Came) -> None:
        """Until all is done. Every job comes to its end exactly once."""
        while waiting or any(worker.job is not None for worker in self._workers):
            for worker in [each for each in self._workers if each.job is None]:
                self._give(worker, waiting, book, came)
            for worker, said in self._answers():
                job, worker.job = worker.job, None
                if job is None:
                    continue
                if said is None:
                    self._replace(worker)
                    waiting.appendleft(job)
                elif (refused := said.get("refused")) is not None:
                    raise CourseError(refused["id"], **refused["values"])
                elif "failed" in said:
                    came(job, _without(job, "crashed", "shardwise.grade-went-wrong"), detail=str(said["failed"]))
                else:
                    came(job, read(job.out))

    def _give(self, worker: _Worker, waiting: deque[Job], book: journal.Journal, came: Came) -> None:
        """The next job, if there is one that did not end the grader too often."""
        while waiting:
            job = waiting.popleft()
            if (tries := book.tries(job.student, job.assignment, job.digest)) >= TRIES:
                came(job, _without(job, "crashed", "shardwise.grade-crashed", count=tries))
                continue
            book.begun(job.student, job.assignment, job.digest)
            worker.take(job, sandboxed=self._sandboxed)
            return

    def _answers(self) -> Iterator[tuple[_Worker, dict[str, Any] | None]]:
        """Each worker that answered, with what it said; None where it ended or took too long."""
        for key, _ in self._selector.select(timeout=1.0):
            worker: _Worker = key.data
            try:
                if (said := worker.answer()) is not None:
                    yield worker, said
            except (EOFError, OSError, ValueError):
                yield worker, None
                if worker.job is None and worker in self._workers and worker.process.poll() is not None:
                    self._replace(worker)
        for worker in list(self._workers):
            if worker.job is not None and time.monotonic() - worker.since > LONGEST:
                yield worker, None

    def _hire(self) -> None:
        worker = _Worker(lock=self._lock)
        self._workers.append(worker)
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)

    def _replace(self, worker: _Worker) -> None:
        """Another in the place of one that ended, or is ended here."""
        if worker not in self._workers:
            return
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        worker.end()
        self._hire()


def summary(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many were graded now, kept from before, had nothing, were unreadable, crashed."""
    kept = sum(not each.now for each in outcomes)
    now = [each.result.state for each in outcomes if each.now]
    return {"graded": now.count("graded"), "kept": kept, **{name: now.count(name) for name in _LESS}}


_LESS: tuple[State, ...] = ("nothing", "unreadable", "crashed")
