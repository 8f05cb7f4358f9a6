"""`shardwise quiz`: a unit's quiz, what is due again, analysis, exchange, and the tools of a private bank's author."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option
from typer.core import TyperGroup

from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError

if TYPE_CHECKING:
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


def _words(context: Context) -> tuple[Translator, Language]:
    return context.obj.text, context.obj.language
