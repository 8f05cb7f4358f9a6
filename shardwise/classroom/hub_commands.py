"""`shardwise classroom install-hub|formgrader`: what whoever keeps a Hub does once, and a teacher's own machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from translations import Translator


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the group `classroom`."""

    @classroom.command("install-hub", help="cli-classroom-hub")
    def install_hub(
        context: Context,
        course: Annotated[Path | None, Argument(metavar="COURSE", help="cli-hub-course")] = None,
        prefix: Annotated[Path | None, Option("--prefix", metavar="FOLDER", help="cli-hub-prefix")] = None,
        server: Annotated[Path | None, Option("--server", metavar="FOLDER", help="cli-hub-server")] = None,
        instructors: Annotated[str, Option("--instructors", metavar="NAMES", help="cli-hub-instructors")] = "",
        port: Annotated[int | None, Option("--port", min=1, max=65535, help="cli-hub-port")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import course as classes
        from shardwise.classroom import hub, needs
        from translations import formats

        text: Translator = context.obj.text
        with right_use():
            found = classes.read(course) if course is not None else None
            teacher = hub.teacher_of(course) if course is not None else ""
        names = tuple(each.strip() for each in instructors.split(",") if each.strip())
        plan = hub.Plan(
            prefix=(prefix or hub.default_prefix()).absolute(),
            server=server.absolute() if server is not None else None,
            course=found,
            folder=course.absolute() if course is not None else None,
            teacher=teacher,
            instructors=names,
            port=port or hub.PORT,
        )
        done = hub.install(plan)
        if as_json:
            print_json({"config": str(done.config), "extensions": list(done.extensions)})
            return
        print(text("shardwise.hub-installed", path=str(plan.prefix)))
        print(f"  load_subconfig({str(done.config)!r})")
        memory = formats.bytes_(needs.memory(), text.language)
        print(text("shardwise.hub-limits", memory=memory, cores=needs.cores(), lab=needs.needs()[0].lab))
        if done.hides_formgrader:
            print(text("shardwise.hub-hides"))
        if found is not None:
            who = ", ".join(names) or text("shardwise.hub-nobody")
            path = f"/services/{hub.service(found)}/"
            print(text("shardwise.hub-formgrader", account=teacher, instructors=who, path=path))

    @classroom.command("formgrader", help="cli-classroom-formgrader")
    def formgrader(
        context: Context,
        course: Annotated[Path, Argument(metavar="COURSE", help="cli-classroom-course")] = Path(),
        browser: Annotated[bool, Option("--browser/--no-browser", help="cli-learn-browser")] = True,
        port: Annotated[int | None, Option(help="cli-learn-port", min=1, max=65535)] = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import course as classes
        from shardwise.classroom import formgrader as room

        with right_use():
            classes.read(course)
        room.open_here(course.absolute(), context.obj.text, port=port, browser=browser)
