"""A notebook as far as grading needs it: its cells' texts and ids, out of any bytes that call themselves a notebook.

nbformat and nbgrader refuse what they don't know, and with it a whole batch; here each thing that is no cell is left
out. A large file is read in a process of its own with a bound on memory and time: what is large is its outputs, and
those are not looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardwise.classroom import slim

HERE = 8_000_000
"""Bytes of a notebook that are read in this process."""
SECONDS = 90
LARGE_OUTPUTS = 20_000_000
SCHEMA = 3
"""nbgrader's own, of the metadata of cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell. `grade_id` is nbgrader's, None where it has none; `points` are those that it says it counts for."""

    type: str
    source: str
    grade_id: str | None = None
    points: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """The cells, the language that it says it is in, and what was odd: ids of messages with their values."""

    cells: tuple[Cell, ...]
    language: str | None
    remarks: tuple[tuple[str, Mapping[str, Any]], ...] = ()


class Unreadable(Exception):
    """Bytes that are no notebook; `id` is a message and `values` are its."""

    def __init__(self, id: str, **values: Any) -> None:
        super().__init__(id)
        self.id, self.values = id, values


@dataclass(slots=True)
class _Odd:
    remarks: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def notebook(data: bytes) -> Notebook:
    """The notebook. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("handed-in-empty")
    slimmed = _apart(data) if len(data) > HERE else _said(slim.slim(data))
    odd = _Odd()
    if len(data) > LARGE_OUTPUTS:
        odd.remarks["handed-in-large"] = {"megabytes": round(len(data) / 1e6)}
    if slimmed["format"] < 4:
        odd.remarks["handed-in-old-format"] = {"version": slimmed["format"]}
    cells = tuple(_cell(each, odd) for each in slimmed["cells"])
    return Notebook(cells=cells, language=slimmed["language"], remarks=tuple(odd.remarks.items()))


def cells_of(opened: Mapping[str, Any]) -> tuple[Cell, ...]:
    """The cells of a notebook that is open already, as nbformat 4."""
    return notebook(json.dumps(opened).encode()).cells


def _apart(data: bytes) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", str(Path(slim.__file__))]
    try:
        ended = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
        if ended.returncode == 0:
            return _said(json.loads(ended.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pass
    raise Unreadable("handed-in-too-large", megabytes=round(len(data) / 1e6))


def _said(slimmed: dict[str, Any]) -> dict[str, Any]:
    if "error" in slimmed:
        raise Unreadable("handed-in-broken", detail=slimmed["error"])
    return slimmed


def _cell(each: Mapping[str, Any], odd: _Odd) -> Cell:
    own = each["nbgrader"]
    if own and own.get("schema_version") != SCHEMA:
        odd.remarks["handed-in-old-schema"] = {}
    points = own.get("points")
    return Cell(
        type=each["type"],
        source=each["source"],
        grade_id=own.get("grade_id") if isinstance(own.get("grade_id"), str) else None,
        points=float(points) if isinstance(points, int | float) and not isinstance(points, bool) else None,
    )
