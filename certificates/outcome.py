"""What one step of a verification found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """``result``: ``pass``, ``fail`` or ``not-checked``; ``reason``: the message (with its values) that explains it."""

    result: str
    reason: str
    values: Mapping[str, object] | None = None
