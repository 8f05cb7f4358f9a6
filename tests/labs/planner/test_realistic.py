"""Layouts under real lengths: equal lengths give the planner's step; unequal ones equal a schedule that is followed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.planner import realistic
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator
from labs.planner.memory import memory
from labs.planner.models import model
from labs.planner.throughput import seconds, step_flops

GPU = accelerator("h100-80")


def plan(*, name: str = "gpt-39b", **options: int) -> Configuration:
    return Configuration(model=model(name), stack=STACKS["megatron"], **options)


@pytest.mark.parametrize("name", ["gpt-39b", "llama-3-8b"])
@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 8, "pp": 8, "micro_batches": 32},
        {"dp": 4, "tp": 4, "pp": 4, "micro_batches": 16, "micro_batch": 2},
        {"tp": 8, "dp": 2, "micro_batches": 4},
        {"pp": 4, "tp": 2, "micro_batches": 8, "interleave": 2},
    ],
)
def test_equal_lengths_are_the_planners_step(name: str, layout: dict[str, int]) -> None:
    each = plan(name=name, **layout)
    found = realistic.step(each, [each.length] * each.global_batch, gpu=GPU)
    assert found.seconds == pytest.approx(seconds(each, gpu=GPU))
    assert found.tokens == each.global_batch * each.length


def flow_shop(times: list[float], stages: int) -> float:
    """Jobs in one order through machines, followed job by job."""
    free = [0.0] * stages
    for time in times:
        ready = 0.0
        for stage in range(stages):
            ready = free[stage] = max(free[stage], ready) + time
    return free[-1]


@settings(deadline=None)
@given(times=st.lists(st.floats(0.1, 10), min_size=1, max_size=12), stages=st.integers(1, 8))
def test_sum_and_longest_are_what_a_pipeline_takes(times: list[float], stages: int) -> None:
    assert flow_shop(times, stages) == pytest.approx(sum(times) + (stages - 1) * max(times))


def test_all_copies_wait_for_the_slowest() -> None:
    each = plan(dp=2, tp=8, micro_batches=2)
    even = realistic.step(each, [1024, 3072, 3072, 1024], gpu=GPU).seconds
    uneven = realistic.step(each, [3072, 3072, 1024, 1024], gpu=GPU).seconds
    assert uneven > even


def test_operations_of_a_length_are_those_of_the_planner() -> None:
    """The longest sequence alone, without any traffic: its operations over those of the usual one."""
    each = plan(micro_batches=1)
    long = replace(each, sequence=16384)
    ratio = realistic.step(each, [16384], gpu=GPU).seconds / realistic.step(each, [2048], gpu=GPU).seconds
    assert ratio == pytest.approx(step_flops(long) / step_flops(each))


def test_lengths_have_the_mean_that_was_asked_for() -> None:
    drawn = realistic.lengths(20_000, mean=2048, spread=1.0, most=10**6, seed=1)
    assert sum(drawn) / len(drawn) == pytest.approx(2048, rel=0.03)
    assert realistic.lengths(3, mean=2048, spread=0, most=16384) == [2048] * 3
    assert max(realistic.lengths(5000, mean=2048, spread=1.5, most=8192)) == 8192


def test_quantiles_by_hand() -> None:
    values = [float(each) for each in range(1, 101)]
    assert realistic.quantile(values, 0.99) == 99
    assert realistic.quantile(values, 0.5) == 50
    assert realistic.quantile(values, 1.0) == 100
    assert realistic.quantile([7.0], 0.01) == 7
    with pytest.raises(ValueError, match="share"):
        realistic.quantile(values, 0.0)


def test_one_long_sequence_in_flight_is_more_than_none_and_less_than_all() -> None:
    each = plan(dp=8, pp=8, micro_batches=32, zero=1)
    assert memory(each).total < realistic.longest_bytes(each, longest=8192)
    assert realistic.longest_bytes(each, longest=8192) < memory(replace(each, sequence=8192)).total
    assert realistic.longest_bytes(each, longest=each.length) == memory(each).total


def test_wrong_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="make a batch"):
        realistic.step(plan(dp=2), [2048], gpu=GPU)
