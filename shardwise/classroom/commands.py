"""`shardwise classroom`: what a teacher does from a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from shardwise.classroom import grading_commands, hub_commands, marks_commands, new_command, student_commands
from shardwise.plan_options import Lang, Printer


def add(app: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the course's command line."""
    classroom = typer.Typer(name="classroom", help="cli-classroom", no_args_is_help=True)
    app.add_typer(classroom)

    @classroom.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Only declares the option."""

    new_command.add(classroom, print_json=print_json, right_use=right_use)
    student_commands.add(classroom, print_json=print_json, right_use=right_use)
    hub_commands.add(classroom, print_json=print_json, right_use=right_use)
    marks_commands.add(classroom, print_json=print_json, right_use=right_use)
    grading_commands.add(classroom, print_json=print_json, right_use=right_use)
