"""`shardwise names`: what libraries call the same ideas, and how FairScale's became PyTorch's."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from typer import Context

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from translations import Translator


def add(app: typer.Typer, *, print_json: Printer) -> None:
    """The command, in the course's command line."""

    @app.command("names", help="cli-names")
    def names(context: Context, as_json: Json = False, _lang: Lang = None) -> None:
        from labs.stacks import names as known

        if as_json:
            print_json(
                {
                    "libraries": [asdict(each) for each in known.libraries()],
                    "ideas": [asdict(each) for each in known.ideas()],
                    "history": [asdict(each) for each in known.history()],
                }
            )
            return
        _show(context.obj.text)


def _show(text: Translator) -> None:
    from rich.console import Console
    from rich.table import Table

    from labs.stacks import names as known
    from shardwise.tables import show

    console = Console()
    table = Table(title=text("labs.names-title"), title_justify="left")
    for column in ("idea", "library", "name"):
        table.add_column(text(f"labs.names-{column}"), overflow="fold")
    for idea in known.ideas():
        table.add_section()
        for place, library in enumerate(known.libraries()):
            title = "" if place else text(f"labs.names-{idea.id}")
            table.add_row(title, library.title, known.told(idea.names[library.id], text))
    show(table, console, text.language)
    past = Table(title=text("labs.names-history"), title_justify="left")
    for column in ("date", "event"):
        past.add_column(text(f"labs.names-{column}"), no_wrap=column == "date")
    for event in known.history():
        past.add_row(event.date, text(f"labs.names-history-{event.id}"))
    show(past, console, text.language)
