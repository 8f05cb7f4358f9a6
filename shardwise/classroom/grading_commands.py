"""`shardwise classroom grade-one|grade|feedback`: grading from a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from shardwise.classroom.batch import Outcome, Step
    from shardwise.classroom.gradebook import Entry
    from shardwise.classroom.result import Result
    from translations import Language, Translator

Folder = Annotated[Path, Option("--course", metavar="FOLDER", help="cli-grade-course")]
Which = Annotated[str | None, Argument(metavar="ASSIGNMENT", help="cli-grade-assignment")]
Who = Annotated[str | None, Option("--student", metavar="NAME", help="cli-grade-student")]
HERE = Path()


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the group `classroom`."""

    @classroom.command("grade-one", help="cli-grade-one")
    def grade_one(
        context: Context,
        submission: Annotated[Path, Argument(metavar="SUBMISSION", help="cli-grade-submission")],
        exercise: Annotated[str, Option("--exercise", metavar="EXERCISE", help="cli-check-exercise")],
        out: Annotated[Path | None, Option("--out", metavar="FILE", help="cli-grade-out")] = None,
        seed: Annotated[int | None, Option("--seed", min=0, help="cli-grade-seed")] = None,
        course: Annotated[Path | None, Option("--course", metavar="FOLDER", help="cli-grade-course")] = None,
        student: Annotated[str | None, Option("--student", metavar="NAME", help="cli-grade-whose")] = None,
        assignment: Annotated[str | None, Option("--assignment", metavar="NAME", help="cli-grade-assignment")] = None,
        unsafe: Annotated[bool, Option("--unsafe", help="cli-grade-unsafe")] = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.exercises import exercise as find
        from labs.exercises.reading import source_of
        from quiz.rendering import plain
        from shardwise.classroom import cluster, grading
        from shardwise.classroom import course as classes
        from translations import CourseError

        text: Translator = context.obj.text
        language: Language = context.obj.language
        with right_use():
            find(exercise)
            if course is not None:
                classes.read(course).assignment(assignment or exercise)
                if student is None:
                    raise CourseError("shardwise.grade-needs-student")
            if not submission.is_dir():
                source_of(submission) if submission.suffix == ".py" else submission.open("rb").close()
            if out is not None and not out.absolute().parent.is_dir():
                raise CourseError("shardwise.no-folder", path=str(out.parent))
        result = grading.grade_one(
            submission,
            exercise_id=exercise,
            language=language,
            seed=seed,
            sandboxed=not unsafe,
            course=course,
            student=student,
            assignment=assignment,
        )
        if course is not None and student is not None:
            result = cluster.placed(result, course, student=student, assignment=assignment or exercise)
        if out is not None:
            result.write(out)
        if as_json:
            print_json(result.as_json())
        else:
            for each in _said(result):
                print(plain(each, language))
            if unsafe:
                print(text("shardwise.grade-was-unsafe"))
        raise typer.Exit(0 if result.verdict.passed else 1)

    @classroom.command("grade", help="cli-grade")
    def grade(
        context: Context,
        assignment: Which = None,
        student: Who = None,
        workers: Annotated[int | None, Option("--workers", min=1, help="cli-grade-workers")] = None,
        again: Annotated[bool, Option("--again", help="cli-grade-again")] = False,
        dry_run: Annotated[bool, Option("--dry-run", help="cli-grade-dry")] = False,
        course: Folder = HERE,
        unsafe: Annotated[bool, Option("--unsafe", help="cli-grade-unsafe")] = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import batch, gradebook
        from shardwise.classroom import course as classes

        text: Translator = context.obj.text
        with right_use():
            batch.jobs(course, assignment=assignment, student=student)
        if unknown := classes.strangers(classes.read(course), classes.students(course)):
            typer.echo(text("shardwise.class-strangers", students=", ".join(unknown)), err=True)

        def step(told: Step) -> None:
            typer.echo(_progress(told, text), err=True)

        outcomes = batch.grade(
            course,
            assignment=assignment,
            student=student,
            workers=workers,
            again=again,
            sandboxed=not unsafe,
            on_step=step,
        )
        entries = gradebook.import_results(course, assignment=assignment, student=student, dry_run=dry_run)
        if as_json:
            print_json(_as_json(outcomes, entries, dry_run=dry_run))
        else:
            for line in _summed(outcomes, entries, text, dry_run=dry_run):
                print(line)
            if unsafe:
                print(text("shardwise.grade-was-unsafe"))
        raise typer.Exit(1 if any(each.result.state == "crashed" for each in outcomes) else 0)

    @classroom.command("feedback", help="cli-feedback")
    def feedback(
        context: Context,
        assignment: Which = None,
        student: Who = None,
        course: Folder = HERE,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import course as classes
        from shardwise.classroom import feedback as pages

        text: Translator = context.obj.text
        with right_use():
            known = classes.read(course)
            if assignment is not None:
                known.assignment(assignment)
        written = pages.write_pages(course, assignment=assignment, student=student)
        if as_json:
            print_json([str(each) for each in written])
        else:
            print(text("shardwise.feedback-written", count=len(written)))


def _said(result: Result) -> list[str]:
    """What one result says: the code's verdict, or why there is none, and what was found."""
    said = [result.reason or result.verdict.message, *(each.text for each in result.findings)]
    return [*said, *(f"{each.name}: {each.points:g} / {each.of:g}" for each in _marked(result))]


def _marked(result: Result) -> list[Any]:
    return [each for each in result.parts if each.points is not None] if len(result.parts) > 1 else []


def _progress(told: Step, text: Translator) -> str:
    job, result = told.outcome.job, told.outcome.result
    values = {"points": f"{result.points:g}", "total": f"{result.of:g}"} if result.state == "graded" else {}
    state = text(f"shardwise.grade-state-{result.state}", **values)
    where = text("shardwise.grade-progress", done=told.done, of=told.of, assignment=job.assignment, student=job.student)
    return " · ".join(each for each in (where, state, told.outcome.detail) if each)


def _as_json(outcomes: Sequence[Outcome], entries: Sequence[Entry], *, dry_run: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from shardwise.classroom import batch

    told = [
        {
            "student": each.job.student,
            "assignment": each.job.assignment,
            "state": each.result.state,
            "points": each.result.points,
            "of": each.result.of,
            "now": each.now,
            "result": str(each.job.out),
            "detail": each.detail,
        }
        for each in outcomes
    ]
    return {
        "summary": batch.summary(outcomes),
        "results": told,
        "gradebook": [asdict(each) for each in entries],
        "written": not dry_run,
    }


def _summed(outcomes: Sequence[Outcome], entries: Sequence[Entry], text: Translator, *, dry_run: bool) -> list[str]:
    from shardwise.classroom import batch

    changed = sum(not each.same for each in entries)
    imported = "grade-would-import" if dry_run else "grade-imported"
    said = [
        text("shardwise.grade-summary", **batch.summary(outcomes)),
        text(f"shardwise.{imported}", count=changed, same=len(entries) - changed),
    ]
    if waiting := sum(each.waits for each in entries):
        said.append(text("shardwise.grade-waiting", count=waiting))
    equal = sorted({each.job.student for each in outcomes if each.result.equal_to_solution})
    if equal:
        said.append(text("shardwise.grade-equal", count=len(equal), students=", ".join(equal)))
    return said
