"""`shardwise classroom new`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from shardwise.classroom.new import Made
    from translations import Translator

Listed = str | None


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The command, in the group `classroom`."""

    @classroom.command("new", help="cli-new")
    def new(
        context: Context,
        folder: Annotated[Path, Argument(metavar="COURSE", help="cli-new-course")],
        languages: Annotated[Listed, Option("--languages", metavar="LANG,LANG", help="cli-new-languages")] = None,
        units: Annotated[Listed, Option("--units", metavar="1-8", help="cli-new-units")] = None,
        due: Annotated[Path | None, Option("--due", metavar="FILE", help="cli-new-due")] = None,
        students: Annotated[Path | None, Option("--students", metavar="CSV", help="cli-new-students")] = None,
        zone: Annotated[Listed, Option("--zone", metavar="ZONE", help="cli-new-zone")] = None,
        title: Annotated[Listed, Option("--title", metavar="TITLE", help="cli-new-title")] = None,
        exchange: Annotated[Listed, Option("--exchange", metavar="FOLDER", help="cli-new-exchange")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from rich.console import Console
        from rich.progress import Progress

        from shardwise.classroom.new import Wishes, make

        text: Translator = context.obj.text
        wishes = Wishes(
            languages=None if languages is None else tuple(languages.split(",")),
            units=None if units is None else tuple(units.split(",")),
            due=due,
            students=students,
            zone=zone,
            title=title,
            exchange=exchange,
        )
        console = Console(stderr=True)
        with right_use(), Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
            task = progress.add_task(text("shardwise.new-making"), total=None)

            def step(id: str, number: int, of: int) -> None:
                progress.update(task, total=of, completed=number - 1, description=id)

            made = make(folder, wishes, language=context.obj.language, on_step=step)
        _announce(made)
        if as_json:
            print_json(made.as_json())
        else:
            _tell(made, text)


def _announce(made: Made) -> None:
    """Students of a class of which something was released see dates that moved at once."""
    from shardwise.classroom import announcing
    from shardwise.classroom import course as classes
    from translations import CourseError

    exchange = made.course.exchange
    if not exchange or not (Path(exchange) / made.course.id).is_dir():
        return
    listed = [each.id for each in classes.students(made.folder)]
    try:
        unable = announcing.announce(made.course, exchange=Path(exchange), students=listed)
    except CourseError as error:
        made.left.append(error)
        return
    if unable:
        made.left.append(CourseError("shardwise.announced-not-own", students=", ".join(unable)))


def _tell(made: Made, text: Translator) -> None:
    if made.wrote or made.ready:
        print(text("shardwise.new-wrote", count=len(made.wrote), folder=str(made.folder)))
    else:
        print(text("shardwise.new-nothing", folder=str(made.folder)))
    for file, newer in made.kept:
        known = {"file": file} if newer is None else {"file": file, "newer": newer}
        print(text("shardwise.new-kept" if newer is None else "shardwise.new-kept-newer", **known))
    for each in made.left:
        print(each.in_language(text))
    if made.ready:
        print(text("shardwise.new-ready", count=len(made.ready), assignments=", ".join(made.ready)))
        print(text("shardwise.new-next", assignment=made.ready[0]))
