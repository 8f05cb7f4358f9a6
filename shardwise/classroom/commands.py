"""`shardwise classroom`: what a teacher does from a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from shardwise.classroom import (
    cluster_command,
    grading_commands,
    hub_commands,
    marks_commands,
    new_command,
    student_commands,
)
from shardwise.plan_options import Lang, Printer


def add(app: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the course's command line."""
    classroom = typer.Typer(name="classroom", help="cli-classroom", no_args_is_help=True)
    app.add_typer(classroom)

    @classroom.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Declares the option. nbgrader calls alembic by its name: it is found, whoever calls this from wherever."""
        beside = str(Path(sys.executable).parent)
        if beside not in os.environ.get("PATH", "").split(os.pathsep):
            os.environ["PATH"] = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))

    new_command.add(classroom, print_json=print_json, right_use=right_use)
    student_commands.add(classroom, print_json=print_json, right_use=right_use)
    hub_commands.add(classroom, print_json=print_json, right_use=right_use)
    marks_commands.add(classroom, print_json=print_json, right_use=right_use)
    grading_commands.add(classroom, print_json=print_json, right_use=right_use)
    cluster_command.add(classroom, print_json=print_json, right_use=right_use)
