"""What the terminal shows of FSDP2 beside our ZeRO, and the names that libraries give to the same ideas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from translations import Translator, formats

KEPT = ("parameters", "gradients", "optimizer_states")


def shown(data: Mapping[str, Any], text: Translator) -> Iterator[Table | str]:
    """The table of a run of the lab, by how much losses differ, and whether offload had anywhere to go."""
    yield shardings(data, text)
    alone = data["reference_losses"]
    off = max(abs(a - b) for each in data["shardings"] for a, b in zip(each["fsdp"]["losses"], alone, strict=True))
    yield text("shardwise.lab-fsdp-differs", differs=f"{off:.1e}")
    if data["layout"]["cpu_offload"] and data["device"] == "cpu":
        yield text("shardwise.lab-fsdp-offload-here")


def shardings(data: Mapping[str, Any], text: Translator) -> Table:
    """Each choice of sharding under FSDP2, and the stage of ours that does the same."""
    title = text("shardwise.lab-fsdp-title", ranks=len(data["ranks"]), wrap=data["layout"]["wrap"])
    table = Table(title=title, title_justify="left")
    table.add_column(text("shardwise.lab-fsdp-sharding"))
    table.add_column(text("shardwise.lab-deepspeed-who"))
    for heading in ("lab-fsdp-states", "lab-fsdp-gathered", "lab-fsdp-formula", "lab-highest", "lab-deepspeed-traffic"):
        table.add_column(text(f"shardwise.{heading}"), justify="right")
    for each in data["shardings"]:
        for who, found in (("PyTorch", each["fsdp"]), (text("shardwise.lab-deepspeed-ours"), each["ours"])):
            if found is not None:
                foretold = found["predicted"].get("gathered", found["predicted"].get("communication"))
                states = sum(found["rest"][name] for name in KEPT)
                sizes = [states, found["gathered"], foretold, found["peak_total"], found["traffic"]]
                table.add_row(each["sharding"], who, *(formats.bytes_(size, text.language) for size in sizes))
    return table
