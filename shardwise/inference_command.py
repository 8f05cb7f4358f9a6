"""`shardwise inference`: what a token of a large model costs, and the published table of BLOOM beside its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer import Context, Option

from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError, Translator, formats

if TYPE_CHECKING:
    from labs.planner.inference import Published, Serving

BATCHES = (1, 8, 16, 32, 64, 128, 256, 512)
"""Those of the published table."""
PARTS = ("weights", "cache", "arithmetic", "exchange")


def add(app: typer.Typer, *, print_json: Printer, right_use: Any) -> None:
    """The command, in the course's command line."""

    @app.command("inference", help="cli-inference")
    def inference(
        context: Context,
        model: Annotated[str, Option("--model", help="cli-plan-model")] = "bloom-176b",
        gpu: Annotated[str, Option("--gpu", help="cli-plan-gpu")] = "a100-80",
        gpus: Annotated[int, Option("--gpus", help="cli-plan-gpus", min=1)] = 8,
        precision: Annotated[str, Option("--precision", help="cli-inference-precision")] = "bf16",
        share: Annotated[str, Option("--share", help="cli-inference-share")] = "tensor",
        prompt: Annotated[int, Option("--prompt", help="cli-inference-prompt", min=1)] = 10,
        new: Annotated[int, Option("--new", help="cli-inference-new", min=2)] = 100,
        published: Annotated[bool, Option("--published", help="cli-inference-published")] = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import inference as planner
        from labs.planner.hardware import accelerator
        from labs.planner.models import model as named

        with right_use():
            for name, value, known in (("precision", precision, planner.BYTES), ("share", share, planner.SHARES)):
                if value not in known:
                    raise CourseError("labs.unknown-choice", name=name, value=value, known=", ".join(known))
            plan = planner.Serving(
                model=named(model), gpu=accelerator(gpu), gpus=gpus, precision=precision, share=share
            )
        if published:
            cells = list(planner.bloom_table())
            if as_json:
                print_json([_cell(each) for each in cells])
            else:
                _show_published(cells, context.obj.text)
        elif as_json:
            print_json([_row(plan, batch, prompt=prompt, new=new) for batch in BATCHES])
        else:
            _show(plan, prompt=prompt, new=new, text=context.obj.text)


def _row(plan: Serving, batch: int, *, prompt: int, new: int) -> dict[str, Any]:
    """One batch: the parts of a step in the middle of the generation, a step, and what a token costs over all."""
    from labs.planner.inference import seconds_per_token, step

    middle = step(plan, sequences=batch, positions=prompt + new // 2)
    return {
        "batch": batch,
        "fits": plan.fits(sequences=batch, positions=prompt + new),
        **{name: getattr(middle, name) for name in PARTS},
        "seconds": middle.seconds,
        "seconds_per_token": seconds_per_token(plan, sequences=batch, prompt=prompt, new=new),
    }


def _cell(cell: Published) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in cell.__slots__} | {"reached": cell.reached}


def _show(plan: Serving, *, prompt: int, new: int, text: Translator) -> None:
    console, language = Console(), text.language

    def milliseconds(seconds: float) -> str:
        return formats.number(1000 * seconds, language)

    title = text(
        "shardwise.inference-title",
        model=plan.model.title,
        weights=formats.bytes_(plan.weights, language),
        gpus=plan.gpus,
        gpu=plan.gpu.title,
    )
    table = Table(title=title, title_justify="left")
    for name in ("batch", *PARTS, "step", "token"):
        table.add_column(text(f"shardwise.inference-{name}"), justify="right")
    left_out = 0
    for batch in BATCHES:
        row = _row(plan, batch, prompt=prompt, new=new)
        if row["fits"]:
            times = [milliseconds(row[name]) for name in (*PARTS, "seconds", "seconds_per_token")]
            table.add_row(str(batch), *times)
        else:
            left_out += 1
    console.print(table)
    console.print(text("shardwise.inference-bounds"), highlight=False)
    if left_out:
        console.print(text("shardwise.inference-does-not-fit", count=left_out), highlight=False)


def _show_published(cells: list[Published], text: Translator) -> None:
    language = text.language
    table = Table(title=text("shardwise.inference-published"), title_justify="left")
    for name in ("stack", "format"):
        table.add_column(text(f"shardwise.inference-{name}"))
    for name in ("gpus", "batch", "measured", "bound", "reached"):
        table.add_column(text(f"shardwise.inference-{name}"), justify="right")
    for cell in cells:
        table.add_row(
            text(f"shardwise.inference-stack-{cell.stack.replace('_', '-')}"),
            cell.precision,
            str(cell.gpus),
            str(cell.sequences),
            formats.number(1000 * cell.measured, language),
            formats.number(1000 * cell.bound, language),
            formats.percent(cell.reached, language),
        )
    Console().print(table)
