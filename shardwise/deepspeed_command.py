"""`shardwise deepspeed-config FILE`: what the file says, what is wrong with it, and what it does to memory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer
from shardwise.tables import show
from translations import CourseError, Translator, formats

if TYPE_CHECKING:
    from labs.planner.deepspeed_config import Effect, Held, Reading, Remark
    from labs.planner.models import Model

MODEL = "gpt-7.5b"
"""A model for which settings are weighed where none is named."""

KEYS = {
    "stage": "zero_optimization.stage",
    "precision": "bf16, fp16",
    "offload_optimizer": "offload_optimizer.device",
    "offload_param": "offload_param.device",
    "live": "stage3_max_live_parameters",
    "grad_accum": "data_types.grad_accum_dtype",
}
"""What a setting is called in the file, where not by its own name."""


def add(app: typer.Typer, *, print_json: Printer, right_use: Any) -> None:
    """The command, in the course's command line. It ends with 1 where DeepSpeed would refuse the file or ignore part
    of it.
    """

    @app.command("deepspeed-config", help="cli-deepspeed-config")
    def deepspeed_config(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-deepspeed-file")],
        ranks: Annotated[int, Option("--ranks", help="cli-deepspeed-ranks")] = 8,
        model: Annotated[str, Option("--model", help="cli-plan-model")] = MODEL,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import deepspeed_config as planner
        from labs.planner.models import model as find

        with right_use():
            shape = find(model)
            try:
                reading = planner.read(file.read_text(encoding="utf-8"), ranks=ranks)
            except (OSError, UnicodeDecodeError) as error:
                raise CourseError("labs.deepspeed-file", file=file, detail=error) from error
        held = planner.held(reading.settings, parameters=shape.parameters, ranks=ranks)
        changed = planner.effects(reading.settings, parameters=shape.parameters, ranks=ranks)
        text: Translator = context.obj.text
        if as_json:
            print_json(_as_json(reading, held, changed, shape, ranks=ranks, text=text))
        else:
            _show(reading, held, changed, shape, ranks=ranks, text=text)
        raise typer.Exit(1 if reading.errors else 0)


def _as_json(
    reading: Reading, held: Held, changed: tuple[Effect, ...], shape: Model, *, ranks: int, text: Translator
) -> dict[str, Any]:
    def remarks(those: tuple[Remark, ...]) -> list[dict[str, Any]]:
        return [
            {"id": each.id.partition(".")[2], "line": each.line or None, "message": text(each.id, **each.values)}
            for each in those
        ]

    return {
        "errors": remarks(reading.errors),
        "notes": remarks(reading.notes),
        "ranks": ranks,
        "batch": None if reading.batch is None else asdict(reading.batch),
        "settings": asdict(reading.settings),
        "model": shape.name,
        "bytes": asdict(held),
        "effects": [asdict(each) for each in changed],
    }


def _show(
    reading: Reading, held: Held, changed: tuple[Effect, ...], shape: Model, *, ranks: int, text: Translator
) -> None:
    console, language = Console(), text.language
    for remark in (*reading.errors, *reading.notes):
        said = text(remark.id, **remark.values)
        console.print(
            text("shardwise.deepspeed-line", line=remark.line, said=said) if remark.line else said, highlight=False
        )
    if not reading.errors:
        console.print(text("shardwise.deepspeed-right"), highlight=False)
    if reading.batch is not None:
        console.print(text("shardwise.deepspeed-batch-solved", **asdict(reading.batch)), highlight=False)
    title = text(
        "shardwise.deepspeed-memory", model=shape.title, ranks=ranks, size=formats.bytes_(held.device, language)
    )
    table = Table(title=title, title_justify="left")
    for name in ("setting", "value"):
        table.add_column(text(f"shardwise.deepspeed-{name}"))
    for name in ("device", "host-column"):
        table.add_column(text(f"shardwise.deepspeed-{name}"), justify="right")
    for each in changed:
        sizes = (_signed(each.device, language), _signed(each.host, language))
        table.add_row(KEYS.get(each.key, each.key), _value(each.value), *sizes)
    if changed:
        show(table, console, language)
    else:
        console.print(title, highlight=False)
        console.print(text("shardwise.deepspeed-nothing"), highlight=False)
    if held.host:
        console.print(text("shardwise.deepspeed-host", size=formats.bytes_(held.host, language)), highlight=False)


def _signed(size: int, language: Any) -> str:
    return f"{'−' if size < 0 else '+' if size > 0 else ''}{formats.bytes_(abs(size), language)}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else str(value)
