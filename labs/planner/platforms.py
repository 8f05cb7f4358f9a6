"""What changes on AMD's GPUs, as data (`platforms.yaml`, each row with its source), for lessons and the terminal."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from translations import Translator

KINDS = ("nothing", "name", "number", "kernels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row: what it is on NVIDIA's GPUs and on AMD's, in code, and which of KINDS the change is."""

    id: str
    changes: str
    nvidia: str
    amd: str
    source: str

    def what(self, text: Translator) -> str:
        return text(f"labs.amd-{self.id}-what")

    def told(self, text: Translator) -> str:
        """The sentence that says what to do."""
        return text(f"labs.amd-{self.id}")


@functools.cache
def differences() -> tuple[Difference, ...]:
    """In the order in which one meets them: first what stays the same, last what needs native code."""
    text = (Path(__file__).parent / "platforms.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = yaml.safe_load(text)["rows"]
    return tuple(Difference(**{name: str(value) for name, value in row.items()}) for row in rows)
