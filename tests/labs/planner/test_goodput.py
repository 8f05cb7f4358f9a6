"""The formulas of checkpoints and failures, against each other and against what a search finds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.goodput import checkpoint_bytes, cluster_mtbf, daly, goodput, lost_share, young
from labs.planner.zero import model_states

COST, MTBF = st.floats(1, 600), st.floats(3600, 1e7)


def test_a_checkpoint_is_the_model_states_without_gradients() -> None:
    for precision in ("bf16", "fp32", "fp64"):
        states = model_states(parameters=1000, stage=0, ranks=1, precision=precision)
        assert checkpoint_bytes(parameters=1000, precision=precision) == states.parameters + states.optimizer_states
    assert checkpoint_bytes(parameters=176_247_271_424) == 14 * 176_247_271_424


@given(cost=COST, mtbf=MTBF, factor=st.floats(0.2, 5), restart=st.floats(0, 3600))
def test_no_interval_loses_less_than_youngs(cost: float, mtbf: float, factor: float, restart: float) -> None:
    best = young(cost=cost, mtbf=mtbf)
    least = lost_share(interval=best, cost=cost, mtbf=mtbf, restart=restart)
    assert lost_share(interval=best * factor, cost=cost, mtbf=mtbf, restart=restart) >= least - 1e-12
    assert least == pytest.approx(math.sqrt(2 * cost / mtbf) + restart / mtbf)


@given(cost=COST, mtbf=st.floats(1800, 1e6), factor=st.floats(0.3, 3))
def test_dalys_interval_has_the_best_goodput(cost: float, mtbf: float, factor: float) -> None:
    best = daly(cost=cost, mtbf=mtbf)
    assert goodput(interval=best * factor, cost=cost, mtbf=mtbf) <= goodput(interval=best, cost=cost, mtbf=mtbf) * 1.003


@given(cost=st.floats(1, 60), mtbf=st.floats(1e5, 1e7))
def test_where_failures_are_rare_both_say_the_same(cost: float, mtbf: float) -> None:
    assert daly(cost=cost, mtbf=mtbf) == pytest.approx(young(cost=cost, mtbf=mtbf), rel=0.03)
    interval = young(cost=cost, mtbf=mtbf)
    assert 1 - goodput(interval=interval, cost=cost, mtbf=mtbf) == pytest.approx(
        lost_share(interval=interval, cost=cost, mtbf=mtbf), rel=0.1
    )


def test_more_devices_fail_more_often() -> None:
    assert cluster_mtbf(device_mtbf=1e6, devices=1000) == 1000


def test_what_is_not_above_zero_is_refused() -> None:
    for call in (
        lambda: young(cost=0, mtbf=1),
        lambda: daly(cost=1, mtbf=-1),
        lambda: goodput(interval=0, cost=1, mtbf=1),
        lambda: cluster_mtbf(device_mtbf=1, devices=0),
        lambda: lost_share(interval=1, cost=1, mtbf=float("nan")),
    ):
        with pytest.raises(ValueError, match="above zero"):
            call()


def test_a_save_that_outlasts_the_time_between_failures() -> None:
    assert daly(cost=100, mtbf=10) == 10
