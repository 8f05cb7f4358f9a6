"""`shardwise classroom cluster`: files with which a cluster grades."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from translations import Translator

HERE = Path()


class Kind(StrEnum):
    """What runs the tasks."""

    slurm = "slurm"
    kubernetes = "kubernetes"


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The command, in the group `classroom`."""

    @classroom.command("cluster", help="cli-cluster")
    def cluster(
        context: Context,
        kind: Annotated[Kind, Argument(metavar="slurm|kubernetes", help="cli-cluster-kind", show_choices=False)],
        course: Annotated[Path, Option("--course", metavar="FOLDER", help="cli-grade-course")] = HERE,
        assignment: Annotated[str | None, Option("--assignment", metavar="NAME", help="cli-grade-assignment")] = None,
        student: Annotated[str | None, Option("--student", metavar="NAME", help="cli-grade-student")] = None,
        again: Annotated[bool, Option("--again", help="cli-grade-again")] = False,
        at_once: Annotated[int, Option("--at-once", min=1, help="cli-cluster-at-once")] = 20,
        cpus: Annotated[int, Option("--cpus", min=1, help="cli-cluster-cpus")] = 2,
        memory: Annotated[int, Option("--memory", metavar="MiB", help="cli-cluster-memory")] = 6144,
        minutes: Annotated[int, Option("--minutes", help="cli-cluster-minutes")] = 10,
        image: Annotated[str, Option("--image", metavar="IMAGE", help="cli-cluster-image")] = "shardwise:latest",
        claim: Annotated[str, Option("--claim", metavar="NAME", help="cli-cluster-claim")] = "class",
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import cluster as files

        text: Translator = context.obj.text
        plan = files.Plan(at_once=at_once, cpus=cpus, memory=memory, minutes=minutes, image=image, claim=claim)
        with right_use():
            written = files.write(course, kind.value, plan, assignment=assignment, student=student, again=again)
        if as_json:
            print_json({"jobs": written.jobs, "files": [str(each) for each in written.files], "start": written.start})
            return
        print(text("shardwise.cluster-written", count=written.jobs))
        for path in written.files:
            print(f"  {path}")
        print(text("shardwise.cluster-start"))
        print(f"  {written.start}")
        print(text("shardwise.cluster-afterwards"))
        print("  shardwise classroom grade")
