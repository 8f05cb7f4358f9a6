"""Telemetry: what memory a rank holds, what it sends, and the pictures of both.

`Tracker` is loaded when first asked for: drawing and reading rows need no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.telemetry.categories import CATEGORIES, PHASES, Bytes, Count

if TYPE_CHECKING:
    from labs.telemetry.tracker import Tracker

__all__ = ["CATEGORIES", "PHASES", "Bytes", "Count", "Tracker"]


def __getattr__(name: str) -> Any:
    if name == "Tracker":
        from labs.telemetry.tracker import Tracker

        return Tracker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
