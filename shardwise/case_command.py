"""`shardwise case`: a published run worked through, from the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Context

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from labs.cases.worked import Case
    from translations import Translator


def add(app: typer.Typer, *, print_json: Printer) -> None:
    @app.command("case", help="cli-case")
    def case(
        context: Context,
        name: Annotated[str, Argument(metavar="NAME", help="cli-case-name")] = "bloom-176b",
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.cases import worked

        found = worked.case(name)
        if as_json:
            print_json(found.as_json())
        else:
            show(found, text=context.obj.text)


def show(case: Case, *, text: Translator) -> None:
    """The layout, what was computed beside what was printed with the reasons under it, and what had to be solved."""
    from rich.console import Console
    from rich.table import Table

    from labs.cases import worked_shown

    console, plan = Console(), case.plan
    console.print(text(f"labs.case-title-{case.name}"), style="bold")
    layout = text(
        "shardwise.case-layout",
        gpus=plan.gpus,
        gpu=case.gpu.title,
        dp=plan.dp,
        tp=plan.tp,
        pp=plan.pp,
        micro_batches=plan.micro_batches,
        micro_batch=plan.micro_batch,
        layers="/".join(map(str, sorted(set(plan.layers)))),
        recompute=text(f"shardwise.plan-recompute-{plan.recompute}"),
    )
    console.print(layout, highlight=False)
    table = Table()
    table.add_column(text("labs.telemetry-published-quantity"))
    for heading in ("printed", "computed"):
        table.add_column(text(f"labs.telemetry-published-{heading}"), justify="right")
    table.add_column(text("shardwise.case-why"), justify="right")
    reasons: list[str] = []
    for row in case.rows:
        mark = ""
        if row.why and row.off:
            if row.why not in reasons:
                reasons.append(row.why)
            mark = f"{reasons.index(row.why) + 1}"
        computed = worked_shown.value(row, row.computed, text.language)
        table.add_row(worked_shown.name(row, text), worked_shown.printed(row, text), computed, mark)
    console.print(table)
    for number, reason in enumerate(reasons, 1):
        console.print(f"{number}. " + text(f"labs.case-why-{reason}"), highlight=False)
    console.print("\n" + text("shardwise.case-solved"), style="bold")
    for id, source in case.solved.items():
        console.print(f"- {text(f'labs.case-{id}')} ({source})", highlight=False)
