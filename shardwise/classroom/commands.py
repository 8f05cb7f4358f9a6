"""`shardwise classroom`: what a teacher does from a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.classroom import student_commands
from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from translations import Language, Translator


def add(app: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the course's command line."""
    classroom = typer.Typer(name="classroom", help="cli-classroom", no_args_is_help=True)
    app.add_typer(classroom)

    @classroom.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Only declares the option."""

    student_commands.add(classroom, print_json=print_json, right_use=right_use)

    @classroom.command("grade-one", help="cli-grade-one")
    def grade_one(
        context: Context,
        submission: Annotated[Path, Argument(metavar="SUBMISSION", help="cli-grade-submission")],
        exercise: Annotated[str, Option("--exercise", metavar="EXERCISE", help="cli-check-exercise")],
        out: Annotated[Path | None, Option("--out", metavar="FILE", help="cli-grade-out")] = None,
        seed: Annotated[int | None, Option("--seed", min=0, help="cli-grade-seed")] = None,
        unsafe: Annotated[bool, Option("--unsafe", help="cli-grade-unsafe")] = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.exercises import exercise as find
        from labs.exercises.reading import source_of
        from quiz.rendering import plain
        from shardwise.classroom import grading
        from translations import CourseError

        text: Translator = context.obj.text
        language: Language = context.obj.language
        with right_use():
            find(exercise)
            source_of(submission)
            if out is not None and not out.absolute().parent.is_dir():
                raise CourseError("shardwise.no-folder", path=str(out.parent))
        result = grading.grade_one(submission, exercise_id=exercise, language=language, seed=seed, sandboxed=not unsafe)
        if out is not None:
            result.write(out)
        if as_json:
            print_json(result.as_json())
        else:
            print(plain(result.verdict.message, language))
            if unsafe:
                print(text("shardwise.grade-was-unsafe"))
        raise typer.Exit(0 if result.verdict.passed else 1)
