"""A queue: the formula beside requests that are drawn, and its inverse."""

from __future__ import annotations

import pytest

from labs.planner.queueing import drawn, largest_load, mean_seconds, quantile_seconds
from labs.planner.realistic import quantile


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_drawn_requests_follow_the_formula(load: float) -> None:
    found = drawn(200_000, load=load, service=2.0, seed=3)
    assert sum(found) / len(found) == pytest.approx(mean_seconds(load=load, service=2.0), rel=0.05)
    expected = quantile_seconds(load=load, service=2.0, share=0.99)
    assert quantile(found, 0.99) == pytest.approx(expected, rel=0.08)


def test_without_load_there_is_only_the_service() -> None:
    assert mean_seconds(load=0, service=3) == 3
    with pytest.raises(ValueError, match="load"):
        mean_seconds(load=1.0, service=3)


def test_the_largest_load_reaches_the_target_exactly() -> None:
    load = largest_load(service=0.05, share=0.99, target=0.5)
    assert quantile_seconds(load=load, service=0.05, share=0.99) == pytest.approx(0.5)
    assert largest_load(service=1, share=0.99, target=0.5) == 0
