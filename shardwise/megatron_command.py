"""`shardwise megatron-flags FILE`: what a launch of Megatron-LM asks for, and whether it fits. `shardwise
megatron-launch NAME`: the file that starts a published layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError


def add(app: typer.Typer, *, print_json: Printer, right_use: Any) -> None:
    """Both commands, in the course's command line."""

    @app.command("megatron-flags", help="cli-megatron-flags")
    def megatron_flags(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-megatron-file")],
        ranks: Annotated[int, Option("--ranks", help="cli-megatron-ranks", min=1)],
        gpu: Annotated[str | None, Option("--gpu", help="cli-plan-gpu")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import memory as planner
        from labs.planner.hardware import accelerator
        from labs.planner.megatron_flags import read
        from shardwise import plan_shown

        with right_use():
            card = None if gpu is None else accelerator(gpu)
            try:
                found = read(file.read_text(encoding="utf-8"), ranks=ranks)
            except (OSError, UnicodeDecodeError) as error:
                raise CourseError("labs.deepspeed-file", file=file, detail=error) from error
            held = planner.memory(found.plan, gpu=card)
        plan, text = found.plan, context.obj.text
        layout = {
            name: getattr(plan, name) for name in ("dp", "tp", "pp", "cp", "zero", "micro_batch", "micro_batches")
        }
        if as_json:
            print_json(
                {
                    "parameters": plan.model.parameters,
                    "layout": {**layout, "interleave": plan.interleave, "recompute": plan.recompute},
                    "global_batch": plan.global_batch,
                    "unread": list(found.unread),
                    "memory": held.as_json(),
                }
            )
            return
        console = Console()
        console.print(
            text("shardwise.megatron-asks", parameters=f"{plan.model.parameters:,}", ranks=plan.gpus, **layout),
            highlight=False,
        )
        shared = plan.shards if plan.zero else None
        plan_shown.memory(held, plan, stack=plan.stack, zero_over=shared, gpu=card, text=text)

    @app.command("megatron-launch", help="cli-megatron-launch")
    def megatron_launch(
        context: Context,  # noqa: ARG001
        name: Annotated[str, Argument(metavar="MODEL", help="cli-megatron-name")],
        _lang: Lang = None,
    ) -> None:
        from labs.clusters.megatron import launch

        with right_use():
            typer.echo(launch(name), nl=False)
