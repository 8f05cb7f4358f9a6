"""Failures that are drawn, beside the closed form; and what papers say of their own runs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.planner import goodput
from labs.planner.failures import simulate
from labs.planner.goodput import DEVICE_MTBF, Cluster, account, checkpoint_bytes, erlang_b, poisson
from labs.planner.models import model
from labs.planner.recomputed import facts
from translations import CourseError

DAY, HOUR = 86400.0, 3600.0
RUN = Cluster(devices=16384, device_mtbf=DEVICE_MTBF, cost=30, detection=60, restart=300)


@pytest.mark.parametrize("devices", [64, 1024, 16384, 131072, 204800, 1048576])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"spares": 0},
        {"spares": 3},
        {"spares": 40},
        {"elastic": True},
        {"elastic": True, "spares": 5, "replica": 64},
    ],
)
def test_what_is_drawn_agrees_with_the_closed_form(devices: int, kind: dict[str, Any]) -> None:
    """Within four standard errors of the mean of 32 runs (one test in 16,000 would fail by chance), and 0.1 % for the
    beginning, when nothing has failed yet.
    """
    cluster = replace(RUN, devices=devices, **kind)
    for interval in (cluster.best_interval, 3 * cluster.best_interval):
        told = account(cluster, interval=interval)
        drawn = simulate(cluster, interval=interval, seconds=90 * DAY, seed=1)
        assert abs(drawn.account.progress - told.progress) <= 4 * drawn.error + 1e-3
        for name, share in told.as_dict().items():
            assert getattr(drawn.account, name) == pytest.approx(share, abs=0.03), name
        assert sum(drawn.account.as_dict().values()) == pytest.approx(1)


def test_two_hundred_thousand_accelerators_for_90_days_take_less_than_two_seconds() -> None:
    cluster = replace(RUN, devices=200_000, spares=40)
    began = time.process_time()
    drawn = simulate(cluster, interval=cluster.best_interval, seconds=90 * DAY)
    assert time.process_time() - began < 2
    assert drawn.runs == 32


def test_a_seed_draws_the_same_failures_again() -> None:
    one, other, again = (simulate(RUN, interval=600, seconds=30 * DAY, seed=seed) for seed in (3, 4, 3))
    assert one == again != other
    assert one.failures == pytest.approx(30 * DAY / RUN.mtbf, rel=0.05)


clusters = st.builds(
    Cluster,
    devices=st.integers(1, 2000).map(lambda count: 64 * count),
    device_mtbf=st.floats(1e6, 1e9),
    cost=st.floats(1, 600),
    detection=st.floats(0, 600),
    restart=st.floats(0, 1200),
    repair=st.floats(60, 1e6),
    spares=st.none() | st.integers(0, 50),
    elastic=st.booleans(),
    replica=st.sampled_from([8, 64]),
)


@given(clusters, st.floats(10, 1e5))
@settings(max_examples=150, deadline=None)
def test_all_of_the_time_is_accounted_for(cluster: Cluster, interval: float) -> None:
    shares = account(cluster, interval=interval).as_dict()
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= -1e-9


@given(clusters)
@settings(max_examples=100, deadline=None)
def test_spares_never_hurt_and_elastic_is_never_worse_than_waiting(cluster: Cluster) -> None:
    interval = cluster.best_interval
    waits = replace(cluster, elastic=False, spares=2)
    progress = account(waits, interval=interval).progress
    assert account(replace(waits, spares=5), interval=interval).progress >= progress - 1e-12
    assert account(replace(waits, spares=None), interval=interval).progress >= progress - 1e-12


def test_few_spares_are_what_elastic_runs_do_without() -> None:
    waits = replace(RUN, spares=4)
    assert account(waits, interval=600).waiting > 0.4
    assert account(replace(waits, elastic=True), interval=600).progress > 0.85


@given(st.floats(0.01, 300), st.integers(1, 40))
def test_queues_are_those_of_the_textbooks(load: float, servers: int) -> None:
    """One server is busy load / (1 + load) of the time; a Poisson distribution adds up to 1 around its mean."""
    assert erlang_b(load, servers=1) == pytest.approx(load / (1 + load))
    assert 0 <= erlang_b(load, servers=servers + 1) <= erlang_b(load, servers=servers) <= 1
    assert sum(share for _, share in poisson(load)) == pytest.approx(1)
    assert sum(count * share for count, share in poisson(load)) == pytest.approx(load)


# --- what was published


def test_llama_3_comes_out_above_90_percent_as_its_paper_says() -> None:
    """419 failures in 54 days on 16,384 GPUs; 14 bytes a parameter to a file system of 2 TB/s; and after each failure
    the stall that the same company reports for a cluster six times as large.
    """
    told, storage = facts("llama3_405b")["interruptions"], facts("llama3_405b")["storage"]
    assert told["interruptions"] == told["planned"] + told["unexpected"]
    mtbf = told["days"] * DAY * told["gpus"] / told["unexpected"]
    assert mtbf == DEVICE_MTBF
    saved = checkpoint_bytes(parameters=model("llama3-405b").parameters) / (storage["sustained_tbs"] * 1e12)
    stall = facts("ft_hsdp")["stall"]["synchronous_minutes"] * 60
    run = Cluster(devices=told["gpus"], device_mtbf=mtbf, cost=saved, restart=stall)
    assert 0.90 < account(run, interval=run.best_interval).progress < 0.95
    drawn = simulate(run, interval=run.best_interval, seconds=told["days"] * DAY)
    assert drawn.account.progress == pytest.approx(0.926, abs=0.005)
    assert drawn.failures == pytest.approx(told["unexpected"], rel=0.05)


def test_megascale_comes_out_above_90_percent_as_its_paper_says() -> None:
    """More than 100 restarts in several weeks: with four weeks and 25 minutes for each, more than 90 % is left."""
    told = facts("megascale")["recovery"]
    away = (told["detection_minutes"] + told["catch_up_minutes"]) * 60
    assert 1 - told["restarts"] * away / (28 * DAY) > told["effective_pct"] / 100


def test_no_run_of_100_000_accelerators_was_better_than_the_formula_allows() -> None:
    """A failure every 18 minutes: what is left even if no work were ever lost bounds what was reached, 44 and 80 %."""
    stall, every = facts("ft_hsdp")["stall"], facts("ft_hsdp")["rate"]["minutes"] * 60.0
    for kind, reached in (("synchronous", stall["synchronous_pct"]), ("fault_tolerant", stall["fault_tolerant_pct"])):
        away = stall[f"{kind}_minutes"] * 60
        most = goodput.goodput(interval=1, cost=1e-6, mtbf=every, restart=away)
        assert most - 0.15 < reached / 100 < most


# --- wrong use


def test_what_cannot_be_is_refused() -> None:
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"devices": 0}, "option-at-least"),
        ({"spares": -1}, "option-at-least"),
        ({"elastic": True, "replica": 7}, "goodput-replica"),
    ]
    for wrong, id in wrongs:
        with pytest.raises(CourseError) as refused:
            account(replace(RUN, **wrong), interval=600)
        assert refused.value.id == f"labs.{id}"
    with pytest.raises(CourseError) as refused:
        simulate(replace(RUN, device_mtbf=1e3), interval=600, seconds=1e9)
    assert refused.value.id == "labs.goodput-too-many"
    with pytest.raises(ValueError, match="above zero"):
        account(replace(RUN, repair=0), interval=600)
    with pytest.raises(ValueError, match="two runs"):
        simulate(RUN, interval=600, seconds=DAY, runs=1)


def test_where_failures_come_faster_than_restarts_nothing_is_left() -> None:
    busy = replace(RUN, device_mtbf=16384.0, restart=1e6)
    assert account(busy, interval=600).progress == 0
