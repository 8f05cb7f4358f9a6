"""The seconds of collectives: against a step-by-step simulation of each algorithm, and the laws between them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner import collectives
from labs.planner.overlap import backward_with_reduction, ring_bytes

SIZES = st.floats(1.0, 1e12)
RANKS = st.integers(1, 64)


def a_ring_step_by_step(links: list[float], size: float, latency: float) -> float:
    """A step is over when the slowest link has delivered its N-th of the buffer."""
    ranks = len(links)
    return sum(max(latency + size / ranks / link for link in links) for _ in range(2 * (ranks - 1)))


@given(size=SIZES, links=st.lists(st.floats(1e6, 1e12), min_size=1, max_size=16), latency=st.floats(0, 1e-3))
def test_a_ring_is_as_fast_as_its_slowest_link(size: float, links: list[float], latency: float) -> None:
    expected = a_ring_step_by_step(links, size, latency)
    assert collectives.ring_over(links, size=size, latency=latency) == pytest.approx(expected)


@given(size=SIZES, levels=st.integers(1, 6))
def test_halving_sends_half_then_a_quarter_and_back(size: float, levels: int) -> None:
    ranks = 2**levels
    down = sum(size / 2**level for level in range(1, levels + 1))
    assert collectives.sent(size=size, ranks=ranks, algorithm="halving") == pytest.approx(2 * down)
    assert collectives.messages(ranks=ranks, algorithm="halving") == 2 * levels


@given(size=SIZES, ranks=RANKS)
def test_a_ring_sends_the_bytes_of_the_overlap_formula(size: float, ranks: int) -> None:
    whole = ring_bytes("all_reduce", buffer=size, ranks=ranks)
    assert collectives.sent(size=size, ranks=ranks) == pytest.approx(whole)
    taken = collectives.half_seconds(size=size, ranks=ranks, bandwidth=1e9)
    assert taken == pytest.approx(ring_bytes("all_gather", buffer=size, ranks=ranks) / 1e9)


@pytest.mark.parametrize("slower", ["tree", "direct"])
def test_above_the_crossing_the_ring_wins(slower: str) -> None:
    link: dict[str, Any] = {"ranks": 8, "bandwidth": 450e9, "latency": 3.4e-6}
    at = collectives.crossing(**link, slower=slower)
    for size, wins in ((at / 2, slower), (at * 2, "ring")):
        times = {each: collectives.all_reduce_seconds(size=size, algorithm=each, **link) for each in ("ring", slower)}
        assert min(times, key=times.__getitem__) == wins
    assert collectives.crossing(ranks=8, bandwidth=1e9, latency=0.0, slower=slower) == 0


def test_no_crossing_where_nothing_is_saved() -> None:
    with pytest.raises(ValueError, match="no fewer bytes"):
        collectives.crossing(ranks=8, bandwidth=1e9, latency=1e-6, faster="tree", slower="ring")


@given(size=SIZES, ranks=st.integers(2, 64), bandwidth=st.floats(1e6, 1e12))
def test_bus_bandwidth_of_a_perfect_ring_is_the_links(size: float, ranks: int, bandwidth: float) -> None:
    seconds = collectives.all_reduce_seconds(size=size, ranks=ranks, bandwidth=bandwidth)
    assert collectives.bus_bandwidth(size=size, seconds=seconds, ranks=ranks) == pytest.approx(bandwidth)


def test_at_half_speed_half_of_the_time_is_latency() -> None:
    link: dict[str, Any] = {"ranks": 16, "bandwidth": 50e9, "latency": 14e-6}
    size = collectives.half_speed(**link)
    seconds = collectives.all_reduce_seconds(size=size, **link)
    assert collectives.bus_bandwidth(size=size, seconds=seconds, ranks=16) == pytest.approx(25e9)


@given(ranks=st.integers(2, 64), bandwidth=st.floats(1e8, 1e12), latency=st.floats(1e-6, 1e-3))
def test_two_measurements_of_a_ring_tell_its_latency_and_its_bandwidth(
    ranks: int, bandwidth: float, latency: float
) -> None:
    link: dict[str, Any] = {"ranks": ranks, "bandwidth": bandwidth, "latency": latency}
    sizes = (1e12, 1.0, 1e3)  # in any order; what lies between does not count
    told = [(size, collectives.all_reduce_seconds(size=size, **link) * (2 if size == 1e3 else 1)) for size in sizes]
    assert collectives.fitted(told, ranks=ranks) == pytest.approx((latency, bandwidth), rel=0.02)


@given(size=SIZES, per_node=st.integers(1, 16), nodes=st.integers(1, 32))
def test_a_hierarchy_sends_what_one_ring_sends(size: float, per_node: int, nodes: int) -> None:
    """(g - 1) / g + (m - 1) / (g m) = (g m - 1) / (g m): no byte more, and only 1 / g of them cross."""
    found = collectives.hierarchical(size=size, per_node=per_node, nodes=nodes, node=450e9, network=50e9)
    flat = collectives.sent(size=size, ranks=per_node * nodes)
    assert found.node_bytes + found.network_bytes == pytest.approx(flat)
    same = collectives.hierarchical(size=size, per_node=per_node, nodes=nodes, node=1e9, network=1e9).seconds
    assert same == pytest.approx(collectives.all_reduce_seconds(size=size, ranks=per_node * nodes, bandwidth=1e9))


def test_enough_tokens_are_just_enough() -> None:
    """A layer of P parameters computes for as long as its gradients are on their way."""
    rate, link, ranks, parameters = 400e12, 50e9, 64, 1e8
    tokens = collectives.hiding_tokens(operations=rate, bandwidth=link, ranks=ranks)
    backward = 4 * parameters * tokens / rate
    assert backward == pytest.approx(collectives.all_reduce_seconds(size=2 * parameters, ranks=ranks, bandwidth=link))


@given(computing=st.floats(0.01, 10), size=st.floats(1e6, 1e10), buckets=st.integers(1, 64))
def test_buckets_follow_the_link_unit_by_unit(computing: float, size: float, buckets: int) -> None:
    link: dict[str, Any] = {"ranks": 8, "bandwidth": 1e9, "latency": 1e-3}
    each = collectives.all_reduce_seconds(size=size / buckets, **link)
    slow = backward_with_reduction([computing / buckets] * buckets, [each] * buckets)
    assert collectives.bucketed_backward(computing=computing, size=size, buckets=buckets, **link) == pytest.approx(slow)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="one of"):
        collectives.messages(ranks=4, algorithm="star")
    with pytest.raises(ValueError, match="at least one rank"):
        collectives.messages(ranks=0)
    with pytest.raises(ValueError, match="above zero"):
        collectives.all_reduce_seconds(size=1, ranks=2, bandwidth=0)
    with pytest.raises(ValueError, match="at least one bucket"):
        collectives.bucketed_backward(computing=1, size=1, buckets=0, ranks=2, bandwidth=1, latency=0)
