"""`shardwise quiz`: a unit's quiz, what is due again, analysis, exchange, and the tools of a private bank's author."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option
from typer.core import TyperGroup

from shardwise import banking
from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError

if TYPE_CHECKING:
    from quiz.exchange import Loss
    from shardwise.record import Record
    from translations import Language, Translator

UNIT = "unit"


class _Group(TyperGroup):
    """Commands by name; what is no name is a unit, whose quiz is taken."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [UNIT, *args]
        return super().resolve_command(ctx, args)


def add(
    app: typer.Typer,
    *,
    print_json: Printer,
    right_use: Callable[[], Any],
    record: Callable[[Context], Record],
) -> None:
    """The commands, in the course's command line. `record` opens the learner's."""
    quiz = typer.Typer(
        name="quiz",
        cls=_Group,
        help="cli-quiz-group",
        no_args_is_help=True,
        context_settings={"ignore_unknown_options": True},
        subcommand_metavar="UNIT | COMMAND ...",
    )
    app.add_typer(quiz)

    @quiz.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Only declares the option."""

    @quiz.command(UNIT, help="cli-quiz", hidden=True)
    def of_unit(
        context: Context,
        unit: Annotated[str, Argument(metavar="UNIT", help="cli-unit")],
        _lang: Lang = None,
    ) -> None:
        from quiz import units
        from shardwise import practice, terminal
        from shardwise.units import unit as find

        text, language = _words(context)
        with right_use():
            chosen = find(unit).taught(language, text).id
            if chosen not in units():
                raise CourseError("quiz.unknown-unit", unit=chosen, known=", ".join(units()))
        session = practice.quiz(record(context), unit=chosen, language=language)
        raise typer.Exit(0 if terminal.quiz(session, text) else 1)

    @quiz.command("review", help="cli-quiz-review")
    def review(context: Context, _lang: Lang = None) -> None:
        from shardwise import practice, shown, terminal

        text, language = _words(context)
        own = record(context)
        session = practice.review(own, language=language)
        if session is None:
            print(shown.nothing_due(practice.waiting(own), text))
            return
        terminal.review(session, text)
        if practice.waiting(own).due:
            print(text("shardwise.review-more"))

    @quiz.command("analyse", help="cli-quiz-analyse")
    def analyse(
        context: Context,
        files: Annotated[list[Path], Argument(metavar="FILE ...", help="cli-quiz-files")],
        csv: Annotated[Path | None, Option("--csv", metavar="FILE", help="cli-quiz-csv")] = None,
        plots: Annotated[Path | None, Option("--plots", metavar="FOLDER", help="cli-quiz-plots")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from quiz import items, units
        from quiz.analysis import analyse, known
        from quiz.responses import response, responses
        from shardwise import analysis_shown

        text, language = _words(context)
        found = []
        with right_use():
            for each in files:
                if str(each) == "record" and not each.exists():
                    own = record(context)
                    found += [response({"learner": own.learner, **row}) for row in own.all_answers()]
                else:
                    found += responses(each)
            for place in (csv, plots):
                if place is not None and not place.absolute().parent.is_dir():
                    raise CourseError("shardwise.no-folder", path=str(place.parent))
        if not found:
            raise CourseError("shardwise.analyse-nothing")
        made = analyse(found, known=known(item for unit in units() for item in items(unit)))
        if csv is not None:
            analysis_shown.write_csv(made, csv)
        if plots is not None:
            for path in analysis_shown.write_plots(made, plots, language):
                print(path, file=sys.stderr)
        if as_json:
            print_json(made.as_json())
        else:
            analysis_shown.show(made, text)

    @quiz.command("export", help="cli-quiz-export")
    def export(
        context: Context,
        bank: Annotated[str, Argument(metavar="UNIT | FILE", help="cli-quiz-bank")],
        format: Annotated[str, Option("--format", metavar="FORMAT", help="cli-quiz-format")],
        out: Annotated[Path, Option("--out", metavar="FILE", help="cli-quiz-out")],
        seed: Annotated[int, Option("--seed", min=0, help="cli-quiz-seed")] = 0,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from quiz.exchange import exported, format_named, losses_in

        text, language = _words(context)
        with right_use():
            chosen = format_named(format)
            held = banking.items_of(bank)
            _free(out)
        made = [exported(item, seed=seed, language=language) for item in held]
        data, lost = chosen.write([question for question, _ in made])
        losses = losses_in([*lost, *(each for _, own in made for each in own)])
        banking.keep(out, data)
        if as_json:
            print_json({"file": str(out), "questions": len(made), "lost": [[each.id, each.what] for each in losses]})
            return
        print(text("shardwise.quiz-exported", count=len(made), path=str(out)))
        banking.tell(losses, text)

    @quiz.command("import", help="cli-quiz-import")
    def import_(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-quiz-in")],
        format: Annotated[str, Option("--format", metavar="FORMAT", help="cli-quiz-format")],
        unit: Annotated[str, Option("--unit", metavar="UNIT", help="cli-quiz-unit")],
        out: Annotated[Path, Option("--out", metavar="FILE", help="cli-quiz-out")],
        objective: Annotated[str | None, Option("--objective", metavar="ID", help="cli-quiz-objective")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        with right_use():
            _free(out)
            made, losses = banking.brought_in(file, format=format, unit=unit, objective=objective)
        banking.keep(out, made.text().encode())
        _brought(context, len(made.items), out, losses, as_json=as_json)

    exam = typer.Typer(name="exam", help="cli-quiz-exam", no_args_is_help=True)
    quiz.add_typer(exam)

    @exam.callback()
    def in_exams(_lang: Lang = None) -> None:
        """Only declares the option."""

    @exam.command("template", help="cli-exam-template")
    def template(
        context: Context,
        folder: Annotated[Path, Argument(metavar="FOLDER", help="cli-exam-folder")],
        unit: Annotated[str, Option("--unit", metavar="UNIT", help="cli-quiz-unit")],
        _lang: Lang = None,
    ) -> None:
        text, _ = _words(context)
        with right_use():
            path = banking.template(folder, unit=unit)
        print(text("shardwise.exam-template-made", path=str(path)))

    @exam.command("import", help="cli-exam-import")
    def exam_import(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-quiz-in")],
        folder: Annotated[Path, Option("--folder", metavar="FOLDER", help="cli-exam-folder")],
        format: Annotated[str, Option("--format", metavar="FORMAT", help="cli-quiz-format")],
        unit: Annotated[str, Option("--unit", metavar="UNIT", help="cli-quiz-unit")],
        objective: Annotated[str | None, Option("--objective", metavar="ID", help="cli-quiz-objective")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        with right_use():
            made, losses = banking.brought_in(file, format=format, unit=unit, objective=objective)
            path, added = banking.added(folder, made)
        _brought(context, added, path, losses, as_json=as_json)

    @exam.command("check", help="cli-exam-check")
    def exam_check(
        context: Context,
        folders: Annotated[list[Path] | None, Argument(metavar="[FOLDER ...]", help="cli-exam-folder")] = None,
        policy: Annotated[Path | None, Option("--policy", metavar="FILE", help="cli-exam-policy")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        text, _ = _words(context)
        with right_use():
            found = banking.checked(folders or [], policy=policy)
        if as_json:
            print_json(found.as_json())
        else:
            for line in found.lines(text):
                print(line)
        raise typer.Exit(0 if found.ready else 1)

    def _brought(context: Context, count: int, path: Path, losses: Sequence[Loss], *, as_json: bool) -> None:
        if as_json:
            print_json({"file": str(path), "questions": count, "lost": [[each.id, each.what] for each in losses]})
            return
        text, _ = _words(context)
        print(text("shardwise.quiz-imported", count=count, path=str(path)))
        banking.tell(losses, text)


def _free(path: Path) -> None:
    if path.exists():
        raise CourseError("shardwise.quiz-file-exists", path=str(path))
    if not path.absolute().parent.is_dir():
        raise CourseError("shardwise.no-folder", path=str(path.parent))


def _words(context: Context) -> tuple[Translator, Language]:
    return context.obj.text, context.obj.language
