"""What of a notebook's JSON is looked at, without its outputs. It imports nothing but Python's own: `python slim.py`
reads a notebook on its input within bounds of memory and time, and answers in one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MEMORY = 3 * 2**30
CPU = 60
LONGEST = 2_000_000
"""Characters of a cell that are kept."""
MOST = 5_000
"""Cells that are kept."""


def slim(data: bytes) -> dict[str, Any]:
    """`{"format", "language", "cells": [{"type", "source", "nbgrader"}]}`, or `{"error"}` with what is wrong."""
    try:
        opened = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except json.JSONDecodeError as error:
        return {"error": f"{error.msg}, line {error.lineno}, column {error.colno}"}
    except RecursionError:
        return {"error": "nested too deeply"}
    except ValueError as error:
        return {"error": str(error)[:200]}
    if not isinstance(opened, dict):
        return {"error": f"{type(opened).__name__} instead of an object"}
    cells = opened.get("cells")
    if not isinstance(cells, list):
        sheets = opened.get("worksheets")
        if not isinstance(sheets, list):
            return {"error": "no cells"}
        cells = [cell for sheet in sheets for cell in _list(_dict(sheet).get("cells"))]
    version = opened.get("nbformat")
    said = _dict(_dict(opened.get("metadata")).get("shardwise")).get("language")
    return {
        "format": version if isinstance(version, int) and 0 < version < 100 else 4 if "cells" in opened else 3,
        "language": said if isinstance(said, str) else None,
        "cells": [_cell(each) for each in cells[:MOST] if isinstance(each, dict)],
    }


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    type_ = cell.get("cell_type")
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(each for each in source if isinstance(each, str))
    own = _dict(_dict(cell.get("metadata")).get("nbgrader"))
    return {
        "type": type_ if isinstance(type_, str) else "raw",
        "source": _clean(source) if isinstance(source, str) else "",
        "nbgrader": {key: each for key, each in own.items() if isinstance(each, str | int | float | bool)},
    }


def _clean(text: str) -> str:
    """Text that can be written: half of a pair of surrogates cannot."""
    return text[:LONGEST].encode("utf-8", "replace").decode("utf-8")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    json.dump(slim(sys.stdin.buffer.read()), sys.stdout)
