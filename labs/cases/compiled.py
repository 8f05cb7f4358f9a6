"""torch.compile measured once, for the table of what the cases found: the lab `compile` as it stands."""

from __future__ import annotations

from labs.cases.rows import Row
from labs.catalogue import run_lab


def results() -> list[Row]:
    """Ratios of one run, and what is counted in it."""
    found = run_lab("compile").data["compile"]
    operations, peak = found["operations"], found["peak"]
    return [
        Row(name="compile-first", value=found["first_in_eager_steps"]),
        Row(name="compile-speed", value=found["speedup"], unit="x"),
        Row(name="compile-graph-breaks", value=found["graph_breaks"]),
        Row(name="compile-operations", value=operations["eager"]),
        Row(name="compile-fused", value=operations["fused"]),
        Row(name="compile-library", value=operations["library"]),
        Row(name="compile-peak-eager", value=peak["eager"], unit="B"),
        Row(name="compile-peak", value=peak["compiled"], unit="B"),
        Row(name="compile-difference", value=found["largest_difference"]),
    ]
