"""`shardwise classroom list|fetch|submit`: what a student does from a terminal; and what the teacher shows to them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from translations import Translator

InClass = Annotated[str | None, Option("--class", metavar="CLASS", help="cli-classroom-class")]


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the group `classroom`."""

    @classroom.command("list", help="cli-classroom-list")
    def list_(context: Context, in_class: InClass = None, as_json: Json = False, _lang: Lang = None) -> None:
        from shardwise import tables
        from shardwise.classroom import student, told

        text: Translator = context.obj.text
        with right_use():
            here = student.the_class(in_class)
        assignments = here.assignments()
        if as_json:
            print_json(told.listed(here, assignments))
        else:
            tables.listed(
                told.rows(assignments, text),
                header=told.header(text),
                title=told.title(here, text),
                language=text.language,
            )

    @classroom.command("fetch", help="cli-classroom-fetch")
    def fetch(
        context: Context,
        assignment: Annotated[str | None, Argument(metavar="ASSIGNMENT", help="cli-classroom-assignment")] = None,
        in_class: InClass = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import student

        text: Translator = context.obj.text
        with right_use():
            here = student.the_class(in_class)
            ids = [here.assignment(assignment).id] if assignment else [each.id for each in here.assignments()]
        for id in ids:
            place = here.fetch(id).notebook(text.language)
            if place is not None:
                print(text("shardwise.hand-in-fetched", assignment=id, path=str(place)))
        here.fetch_feedback()

    @classroom.command("submit", help="cli-classroom-submit")
    def submit(
        context: Context,
        assignment: Annotated[str, Argument(metavar="ASSIGNMENT", help="cli-classroom-assignment")],
        in_class: InClass = None,
        yes: Annotated[bool, Option("--yes", help="cli-classroom-yes")] = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import student, told

        text: Translator = context.obj.text
        with right_use():
            here = student.the_class(in_class)
            own = here.assignment(assignment)
            looked = here.look(assignment)
        for line in told.look(looked, own, text):
            print(line, file=sys.stderr if as_json else sys.stdout)
        if not yes:
            print(text("shardwise.hand-in-sure"), end=" ", flush=True, file=sys.stderr if as_json else sys.stdout)
            answer = sys.stdin.readline().strip().casefold()
            if answer not in {text("shardwise.hand-in-yes").casefold(), "y"}:
                raise typer.Exit(1)
        receipt = here.submit(assignment)
        if as_json:
            print_json(receipt.as_json())
        else:
            for line in told.receipt(receipt, here, text):
                print(line)

    @classroom.command("announce", help="cli-classroom-announce")
    def announce(
        context: Context,
        course: Annotated[Path, Argument(metavar="COURSE", help="cli-classroom-course")] = Path(),
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import announcing
        from shardwise.classroom import course as classes
        from translations import CourseError

        text: Translator = context.obj.text
        with right_use():
            found = classes.read(course)
            if found.exchange is None:
                raise CourseError("shardwise.announce-no-exchange", example="/srv/nbgrader/exchange")
        listed = [each.id for each in classes.students(course)]
        unable = announcing.announce(found, exchange=Path(found.exchange), students=listed)
        print(text("shardwise.announced", course=found.id, count=len(listed)))
        if unable:
            print(text("shardwise.announced-not-own", students=", ".join(unable)))
