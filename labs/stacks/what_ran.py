"""What a launch really did, told from what it left, against what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Ran = Literal["as-asked", "replicated", "alone"]
"""`replicated`: sharding was asked for, and each rank keeps all of Adam's states. `alone`: no rank heard of another."""

ADAM = 8
"""Bytes of Adam's two fp32 moments for one parameter."""


def what_ran(asked: str, found: Mapping[str, Any], *, parameters: int, ranks: int) -> Ran:
    """What became of a way of `lab run accelerated` on so many ranks.

    `found` is what its rank 0 reports: bytes `kept` between two steps, and the last step's `collectives`. Names of
    wrappers are not asked: bytes and messages cannot be mistaken.
    """
    if ranks > 1 and not any(count["bytes"] for count in found["collectives"].values()):
        return "alone"
    whole = found["kept"]["optimizer_states"] >= ADAM * parameters
    return "replicated" if whole and shards(asked) and ranks > 1 else "as-asked"


def shards(asked: str) -> bool:
    """Whether the name of a way promises sharded optimizer states."""
    return "zero" in asked or "fsdp" in asked
