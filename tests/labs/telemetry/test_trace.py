"""A trace becomes lanes: what is hidden is counted from spans of time, and the slow link is as slow as it says."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.runner import run
from labs.telemetry.drawing.trace import trace_over_time
from labs.telemetry.trace import Lanes, both, lanes, length, union, without

spans_of = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda at: (float(at[0]), float(at[0] + at[1]))), max_size=8
)


def moments(spans: list[tuple[float, float]]) -> set[int]:
    return {at for start, end in spans for at in range(int(start), int(end))}


@given(one=spans_of, other=spans_of)
def test_spans_are_sets_of_moments(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> None:
    for made, expected in (
        (union(one), moments(one)),
        (both(union(one), union(other)), moments(one) & moments(other)),
        (without(union(one), other), moments(one) - moments(other)),
    ):
        assert moments(made) == expected
        assert length(made) == len(expected)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(made))


def event(name: str, start: float, end: float, cat: str = "user_annotation") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": start * 1e6, "dur": (end - start) * 1e6}


def test_a_trace_of_the_cpu() -> None:
    """Forward 10-12, backward 12-16, of which 15-16 waits; a reduce-scatter 13-16 on the link, which gloo makes of an
    all-reduce.
    """
    events = [
        event("forward", 10, 12),
        event("backward", 12, 16),
        event("wait", 15, 16),
        event("gloo:all_reduce", 13, 14),
        event("link:reduce_scatter", 13, 16),
        event("link:all_reduce", 20, 21),  # the report's, after the step
        {"ph": "M", "name": "process_name"},
    ]
    found = lanes(events)
    assert [(block.name, block.start, block.end) for block in found.compute] == [
        ("forward", 0, 2),
        ("backward", 2, pytest.approx(5)),
    ]
    assert [block.name for block in found.communication] == ["reduce_scatter"]
    assert found.communicating == pytest.approx(3)
    assert found.hidden == pytest.approx(2 / 3)
    assert found.seconds == pytest.approx(6)
    assert Lanes.of(found.as_dict()) == found


def test_without_a_link_gloo_tells_what_ran() -> None:
    found = lanes([event("backward", 0, 2), event("gloo:all_reduce", 1, 2)])
    assert [block.name for block in found.communication] == ["all_reduce"]
    assert found.hidden == pytest.approx(1)


def test_a_trace_of_a_gpu() -> None:
    """There, what counts are kernels, and the phases as the GPU passes through them."""
    events = [
        event("backward", 0, 1),  # as the CPU calls it
        event("backward", 2, 8, "gpu_user_annotation"),
        event("gemm", 2, 5, "kernel"),
        event("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 4, 8, "kernel"),
    ]
    found = lanes(events)
    assert [(block.name, block.start, block.end) for block in found.compute] == [("backward", 0, pytest.approx(3))]
    assert [block.name for block in found.communication] == ["reduce_scatter"]
    assert found.hidden == pytest.approx(0.25)


def test_a_trace_without_phases_has_no_lanes() -> None:
    found = lanes([event("gloo:all_reduce", 0, 1)])
    assert found == Lanes(compute=(), communication=())
    assert found.hidden == 1
    assert found.seconds == 0


@pytest.mark.serial
def test_the_link_is_slow_and_a_rank_that_does_not_wait_computes() -> None:
    """4 MB at 20 MB/s, all-reduced by 2 ranks, are 0.2 s on the wire."""
    for rank in run(Path(__file__).with_name("linked.py"), ranks=2, timeout=60).ranks:
        value = rank.value
        assert value["values"] == [1.5, 3.0]
        assert value["blocking"] >= 0.2, value
        assert 0.2 <= value["beside"] < 0.38, value  # beside 0.19 s of computation
        assert value["two"] >= 0.4, value  # one after the other, as on one wire
        assert all(half >= 0.1 for half in value["halves"].values()), value
        assert value["hidden"] > 0.6, value
        assert value["names"] == ["all_reduce"], value
        assert value["after"] < 0.2, value


def test_the_figure_says_what_is_hidden() -> None:
    own = lanes([event("backward", 0, 4), event("wait", 3, 4), event("link:all_reduce", 1, 4)])
    figure = trace_over_time({0: own, 1: own}, language="en")
    ElementTree.fromstring(figure.markup)
    assert figure.alt.startswith("Computation hides 67% of the communication.")
    assert "Rank 1 computes for 3.0\u202fs and communicates for 3.0\u202fs, 67% of it beside computation." in figure.alt
    assert "<table" in figure.html
    silent = trace_over_time({0: lanes([event("forward", 0, 1)])}, language="en")
    assert silent.alt.startswith("The ranks compute and do not communicate")
    assert trace_over_time({}, language="en").alt == "The trace shows no step."


def test_two_figures_can_have_one_axis() -> None:
    own = lanes([event("backward", 0, 1)])
    assert ">2\u202fs<" in trace_over_time({0: own}, language="en", length=2).markup
