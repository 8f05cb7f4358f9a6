"""What a case has found, as rows: a name, a number, its unit, and the versions under which it came out.

The name is the id of a message, `labs.result-<name>`, in which `of` may stand. Units: "B" bytes, "share" of a whole,
"x" times as much, "s" seconds, "" a count.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch


def versions() -> dict[str, str]:
    """Of what every lab runs on."""
    return {"python": platform.python_version(), "torch": torch.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    value: float
    unit: str = ""
    of: str = ""
    versions: Mapping[str, str] = field(default_factory=versions)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows_of(data: Mapping[str, Any]) -> list[Row]:
    """The rows in a lab's JSON."""
    return [Row(**each) for each in data["results"]]
