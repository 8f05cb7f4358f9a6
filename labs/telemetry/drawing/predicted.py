"""What a lab's formulas said of each rank beside what was measured: at rest, at the most, and moved on each axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.telemetry.drawing.legend import Words, listed_ranks
from labs.telemetry.drawing.table import Table
from labs.telemetry.drawing.traffic import axis_name, sorted_axes

STATES = ("parameters", "gradients", "optimizer_states")


def rows_beside(data: Mapping[str, Any], words: Words) -> list[list[str]]:
    """What, on which ranks, measured, by the formula; ranks for which both are the same share a row. `data` is a lab's
    JSON. Empty for a lab that predicts none of it.
    """
    alike: dict[str, dict[tuple[int, int], list[int]]] = {}

    def note(what: str, rank: int, measured: int, formula: int) -> None:
        alike.setdefault(what, {}).setdefault((measured, formula), []).append(rank)

    reports = [each for each in data.get("ranks", ()) if "peak" in (each.get("predicted") or {})]
    for report in reports:
        told, rank = report["predicted"], report["rank"]
        note(words("beside-rest"), rank, sum(report["bytes"]["rest"][name] for name in STATES), told["rest"])
        note(words("beside-peak"), rank, report["peak_total"], told["peak"])
    for axis in sorted_axes({axis for report in reports for axis in report["predicted"]["traffic"]}):
        for report in reports:
            counts = report["axes"].get(axis, {})
            moved = sum(count["bytes"] for name, count in counts.items() if name != "clipping")
            formula = report["predicted"]["traffic"].get(axis, 0)
            note(words("beside-moved", axis=axis_name(axis, words)), report["rank"], moved, formula)
    return [
        [what, listed_ranks(ranks, words), words.bytes(measured), words.bytes(formula)]
        for what, found in alike.items()
        for (measured, formula), ranks in found.items()
    ]


def header_beside(words: Words) -> list[str]:
    """Of the columns of these rows."""
    return ["", words("table-ranks"), words("table-measured"), words("formula")]


def table_beside(data: Mapping[str, Any], words: Words) -> str:
    """The same as an HTML table; empty where there are no rows."""
    rows = rows_beside(data, words)
    if not rows:
        return ""
    return Table(rows, header=header_beside(words), language=words.language, caption=words("beside-title")).html
