"""What the terminal shows of the labs on Accelerate and on the precision gap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from translations import Translator, formats


def accelerated(data: Mapping[str, Any], text: Translator) -> Iterator[RenderableType]:
    """Each way to train, what was not as asked, and the largest batches beside the published."""
    ways, alone = data["ways"], data["reference_losses"]
    names = ("way", "wrapped", "states", "apart", "batch")
    table = _table(text("shardwise.lab-accelerated-title", ranks=len(data["ranks"])), names, text, left=2)
    for name, found in ways.items():
        kept = found["kept"]
        held = kept["parameters"] + kept["gradients"] + kept["optimizer_states"]
        apart = max(abs(a - b) for a, b in zip(found["losses"], alone, strict=True))
        amounts = formats.bytes_(held, text.language), f"{apart:.0e}", str(found["micro_batch"])
        table.add_row(name, found["wrapped"], *amounts)
    yield table
    for each in data["told"]:
        yield text(f"labs.{each['id']}", **each["values"])
    if not {"ddp", "zero-2"} <= set(ways):
        return
    yield text("shardwise.lab-accelerated-published")
    table = _table("", ("where", "ddp", "zero-2", "times"), text, left=1)
    for where, ddp, zero in larger(data, text):
        table.add_row(where, str(ddp), str(zero), formats.number(zero / ddp, text.language) if ddp else "-")
    yield table


def larger(data: Mapping[str, Any], text: Translator) -> Iterator[tuple[str, int, int]]:
    """The largest batch of DDP and of ZeRO-2: as published, and here."""
    from labs.planner.recomputed import published

    printed = published("hf_accelerate_deepspeed")
    columns, rows = [*printed["t1"]["config_cols"], *printed["t1"]["value_cols"]], printed["t1"]["rows"]
    most = {row[0]: row[columns.index("max_bs")] for row in rows}
    yield text("shardwise.lab-accelerated-there"), most["ddp"], most["zero2"]
    ddp = data["ways"]["ddp"]["micro_batch"]
    for name, found in data["ways"].items():
        if name.endswith("zero-2") and found["ran"] == "as-asked":
            yield name, ddp, found["micro_batch"]


def gap(data: Mapping[str, Any], text: Translator) -> Iterator[RenderableType]:
    """Each way to fine-tune: the loss at the end, what was rounded away, Adam's bytes, and how fast it was."""
    names = ("way", "loss", "lost", "still", "adam", "speed")
    table = _table(text("shardwise.lab-gap-title", ranks=len(data["ranks"])), names, text, left=1)
    of = {(row["name"], row["of"]): row["value"] for row in data["results"]}
    table.add_row("fp32", formats.number(of["gap-loss", "fp32"], text.language, digits=4), *("" for _ in names[2:]))
    for name in data["ways"]:
        table.add_row(
            name,
            formats.number(of["gap-loss", name], text.language, digits=4),
            *(formats.percent(of[f"gap-{each}", name], text.language) for each in ("lost", "still")),
            formats.bytes_(int(of["gap-adam", name]), text.language),
            formats.number(of["gap-speed", name], text.language),
        )
    yield table
    lost, still = (formats.percent(of[f"gap-{each}", "fsdp2-bf16"], text.language) for each in ("lost", "still"))
    yield text("shardwise.lab-gap-why", lost=lost, still=still)


def _table(title: str, names: tuple[str, ...], text: Translator, *, left: int) -> Table:
    """Columns from the left: words, then numbers."""
    table = Table(title=title or None, title_justify="left")
    for number, name in enumerate(names):
        table.add_column(
            text(f"shardwise.lab-column-{name}"), justify="left" if number < left else "right", no_wrap=not number
        )
    return table
