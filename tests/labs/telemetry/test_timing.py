"""Collectives by the clock, on real ranks."""

from __future__ import annotations

from labs.runner import run

SCRIPT = """
from labs.runner import rank
from labs.telemetry import timing

with rank.group():
    rank.report(timing.collectives([2**10, 2**23]))
rank.leave()
"""


def test_each_collective_takes_time_and_a_large_one_more() -> None:
    found = run(SCRIPT, ranks=2).ranks[0].value
    assert list(found) == ["all_reduce", "reduce_scatter", "all_gather"]
    for (small, short), (large, long) in found.values():
        assert (small, large) == (2**10, 2**23)
        assert 0 < short < long
