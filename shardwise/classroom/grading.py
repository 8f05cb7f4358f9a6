"""One submission in, one result out: the exercise's own check, in a sandbox, with inputs made after the code is fixed.

The same function serves a teacher's batch, an exam's practical part, a Slurm array and a Kubernetes Job. A file of code
has one part; the work on an assignment has all of them, of which only the code is ever run. Whatever was handed in,
there is a result, with a reason where there was nothing to grade.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import secrets
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.exercises import Verdict, check, exercise
from labs.exercises.checking import Execute, on_this_machine
from labs.exercises.content import Exercise
from labs.exercises.reading import prepared, source_of
from labs.runner import Run
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.course import read as read_course
from shardwise.classroom.notebook_file import Cell, Unreadable, cells_of
from shardwise.classroom.own import Marked, Own, grade_fault, grade_numbers
from shardwise.classroom.parts import BY_HAND, PARTS, POINTS, answer_cell
from shardwise.classroom.result import Finding, Part, Result, State, not_run, nothing, now
from shardwise.classroom.sandbox import Broken, Limits, Sandbox, sandbox
from shardwise.classroom.submission import CODE, Form, Submission, Wanted, read
from shardwise.classroom.visible import visible
from translations import CourseError, Language, languages, translator
from translations import language as find_language

__all__ = ["Result", "form", "grade_one"]

SEEDS = 2**31
COUNTED = ("release", "source")
"""Folders of a course in which an assignment lies as it was given out, the first that has it counting."""


def grade_one(
    submission: Path,
    *,
    exercise_id: str,
    language: Language,
    seed: int | None = None,
    limits: Limits | None = None,
    sandboxed: bool = True,
    course: Path | None = None,
    student: str | None = None,
    assignment: str | None = None,
) -> Result:
    """The result of one submission: a file of code, a notebook, or a folder. With `course`, a course folder, and
    `student` it has every part of the assignment (the exercise's own, unless named); without, the code's.

    Raises CourseError where there is no such exercise, file, course or assignment, or no sandbox.
    """
    own = exercise(exercise_id, language)
    if course is None and submission.is_file() and submission.suffix == ".py":
        source = source_of(submission)
        sha256 = hashlib.sha256(submission.read_bytes()).hexdigest()
        verdict, seed, seconds = _run(source, own, language, seed, limits, sandboxed)
        return Result(
            exercise=exercise_id,
            language=language.code,
            sha256=sha256,
            seed=seed,
            sandboxed=sandboxed,
            verdict=verdict,
            seconds=seconds,
            parts=(_code(verdict, of=float(verdict.of)),),
            equal_to_solution=_is_published(source, own),
            file=submission.name,
            digest=sha256,
            graded=now(),
        )
    if not submission.exists():
        raise CourseError("labs.check-no-file", file=str(submission), detail="")
    whose = None
    given: Course | None = None
    if course is not None:
        given = read_course(course)
        chosen = given.assignment(assignment or exercise_id)
        whose = Own(course=given.id, assignment=chosen, student=student) if student else None
        asked = form(course, chosen)
    else:
        asked = Form(name=exercise_id, exercise=exercise_id, wanted=(_wanted(CODE, {}),))
    return _whole(
        read(submission, asked, language=language.code),
        own,
        language,
        seed,
        limits,
        sandboxed,
        whose=whose,
        course=given,
    )


def form(folder: Path, assignment: Assignment) -> Form:
    """What was given out of an assignment, in every language, as it lies in the course folder: the teacher's own edits
    are in it. Raises CourseError where nothing lies there.
    """
    found: dict[str, tuple[Cell, ...]] = {}
    for step in COUNTED:
        place = folder / step / assignment.id
        for path in [place / f"{assignment.id}.ipynb", *sorted(place.glob(f"languages/{assignment.id}.*.ipynb"))]:
            if not path.is_file():
                continue
            try:
                found.setdefault(language_of(path, assignment.id), cells_of(json.loads(path.read_bytes())))
            except (OSError, ValueError, Unreadable) as error:
                raise CourseError("shardwise.class-unreadable", path=str(path), reason=str(error)[:200]) from None
    if not found:
        raise CourseError("shardwise.grade-nothing-given-out", assignment=assignment.id, folder=str(folder))
    wanted = tuple(
        _wanted(name, {code: cell for code, cells in found.items() for cell in cells if cell.grade_id == answer})
        for name in PARTS
        for answer in (answer_cell(name),)
    )
    return Form(name=assignment.id, exercise=assignment.exercise, wanted=wanted, cells=found)


def language_of(path: Path, name: str) -> str:
    """The language of a notebook that was given out: what it says itself, else its name, else the course's first."""
    metadata = json.loads(path.read_bytes()).get("metadata", {})
    said = metadata.get("shardwise", {}).get("language")
    if isinstance(said, str):
        return said
    middle = path.name.removeprefix(f"{name}.").removesuffix(".ipynb").strip(".")
    return middle if middle in {each.code for each in languages()} else "en"


def _wanted(name: str, cells: Mapping[str, Cell]) -> Wanted:
    kind = next((cell.type for cell in cells.values()), "markdown" if name in BY_HAND else "code")
    texts = {code: cell.source for code, cell in cells.items()}
    return Wanted(name=name, cell=answer_cell(name), type=kind, texts=texts)  # type: ignore[arg-type]


# --- the whole of a submission


def _whole(
    found: Submission,
    own: Exercise,
    language: Language,
    seed: int | None,
    limits: Limits | None,
    sandboxed: bool,
    *,
    whose: Own | None,
    course: Course | None,
) -> Result:
    """Every part of what was handed in, in the language in which it was worked on."""
    if found.language is not None:
        language = find_language(found.language)
        own = exercise(own.id, language)
    text = translator(language)
    findings = tuple(_told(each, language) for each in found.findings)
    if found.problem is not None:
        state: State = "nothing" if found.problem.id == "handed-in-nothing" else "unreadable"
        reason = _told(found.problem, language).text
        none = nothing(state=state, reason=reason, exercise_id=own.id, language=language, digest=found.digest)
        only = none.parts if course is not None else (_code(none.verdict, of=float(own.of)),)
        return none.about(findings=findings, sandboxed=sandboxed, parts=only)
    begun = time.monotonic()
    published = False
    if (source := found.answers.get(CODE)) is None:
        verdict, seed = not_run(own, "file/missing", text("shardwise.grade-no-code", exercise=own.id)), 0
    else:
        published = _is_published(source, own)
        verdict, seed, _ = _run(source, own, language, seed, limits, sandboxed)
    parts = [_code(verdict, of=POINTS["code"] if course is not None else float(own.of))]
    if published and course is not None and course.published_solution == "no-marks":
        said = text("shardwise.grade-published")
        parts[0] = Part(name=CODE, cell=CODE, points=0.0, of=parts[0].of, message=said)
    if whose is not None:
        parts += _read_parts(found, whose, language)
    if course is not None:
        parts += [_by_hand(name, found, language) for name in BY_HAND]
    return Result(
        exercise=own.id,
        language=language.code,
        sha256=found.sha256,
        seed=seed,
        sandboxed=sandboxed,
        verdict=verdict,
        seconds=round(time.monotonic() - begun, 3),
        parts=tuple(parts),
        findings=findings,
        equal_to_solution=published,
        file=visible(found.file, longest=200),
        digest=found.digest,
        course=course.id if course is not None else None,
        assignment=whose.assignment.id if whose is not None else None,
        student=whose.student if whose is not None else None,
        graded=now(),
    )


def _read_parts(found: Submission, whose: Own, language: Language) -> list[Part]:
    """The parts whose answers are read and compared with what is the student's own."""
    parts = []
    for name, graded in (("fault", grade_fault), ("numbers", grade_numbers)):
        source = found.answers.get(name)
        if source is None:
            said = translator(language)("shardwise.handed-in-cell-deleted", cell=answer_cell(name))  # type: ignore[arg-type]
            parts.append(Part(name=name, cell=name, points=0.0, of=POINTS[name], message=said))  # type: ignore[index]
            continue
        marked: Marked = graded(whose, source, language)
        said = "\n\n".join(marked.feedback)
        parts.append(Part(name=name, cell=name, points=round(marked.points, 2), of=marked.of, message=said))
    return parts


def _by_hand(name: str, found: Submission, language: Language) -> Part:
    """A part that a person marks; nothing written is no work for anyone."""
    of, text = POINTS[name], translator(language)  # type: ignore[index]
    if name in found.untouched or not found.answers.get(name, "").strip():
        return Part(name=name, cell=name, points=0.0, of=of, message=text("shardwise.grade-not-written"))
    return Part(name=name, cell=name, points=None, of=of, message=text("shardwise.grade-by-hand"))


def _code(verdict: Verdict, *, of: float) -> Part:
    points = of if verdict.passed else round(of * verdict.points / verdict.of, 2)
    return Part(
        name=CODE,
        cell=CODE,
        points=points,
        of=of,
        message=verdict.message,
        failed_at=verdict.failed_at,
        rank=verdict.rank,
    )


def _told(finding: Finding, language: Language) -> Finding:
    values = {
        key: visible(each, longest=200) if isinstance(each, str) else each for key, each in finding.values.items()
    }
    said = translator(language)(f"shardwise.{finding.id}", **values)
    return Finding(id=finding.id, values=values, text=said)


# --- the code


def _run(
    source: str, own: Exercise, language: Language, seed: int | None, limits: Limits | None, sandboxed: bool
) -> tuple[Verdict, int, float]:
    """The verdict, the seed, and the seconds that it took. The seed is drawn here, when the source is fixed."""
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    begun = time.monotonic()
    with contextlib.ExitStack() as until_done:
        execute = _Boxed(limits, until_done) if sandboxed else on_this_machine
        verdict = _verdict(source, own.id, language, seed, execute)
    return verdict, seed, round(time.monotonic() - begun, 3)


class _Boxed:
    """Runs cases in one sandbox, made for the first of them: of what cannot be run none is needed."""

    def __init__(self, limits: Limits | None, until_done: contextlib.ExitStack) -> None:
        self._limits, self._until_done = limits, until_done
        self._box: Sandbox | None = None

    def __call__(
        self, exercise: str, file: Path, number: int, *, ranks: int, seed: int, timeout: float, patience: float
    ) -> Run:
        if self._box is None:
            self._box = self._until_done.enter_context(sandbox(self._limits))
        return self._box.execute(exercise, file, number, ranks=ranks, seed=seed, timeout=timeout, patience=patience)


def _verdict(source: str, id: str, language: Language, seed: int, execute: Execute) -> Verdict:
    try:
        return check(id, source, language, seed=seed, execute=execute)
    except Broken as error:
        return not_run(exercise(id, language), f"sandbox/{error.limit}", error.in_language(translator(language)))


def _is_published(source: str, own: Exercise) -> bool:
    """Whether the code is the published solution, but for comments, docstrings and layout."""
    try:
        handed_in_ = _shape(prepared(source, own))
        return handed_in_ == _shape((own.folder / "solution.py").read_text(encoding="utf-8"))
    except (CourseError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _shape(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(statement: Any) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant | ast.JoinedStr)
