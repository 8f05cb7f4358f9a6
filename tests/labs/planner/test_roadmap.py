"""A road map: each target is held against what the planner computes, and what is missing is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.planner import roadmap
from labs.planner.goodput import checkpoint_bytes
from labs.planner.hardware import accelerator
from labs.planner.inference import Serving
from labs.planner.layouts import trained
from labs.planner.models import model
from labs.planner.recomputed import facts
from labs.planner.roadmap import Prices, RoadMap, Targets, check, costs
from translations import CourseError

DAY = 86400.0
BLOOM = facts("bloom_176b")


def road(**changes: object) -> RoadMap:
    step = BLOOM["log"]["sec"]
    found = RoadMap(
        targets=Targets(
            tokens=BLOOM["duration"]["tokens"], days=118, budget=5e6, goodput=0.95, lost_hours=4, token=0.5
        ),
        prices=Prices(gpu_hour=2.0, kwh=0.1, tb_month=20, person_year=1e5),
        plan=trained("bloom-176b").plan,
        gpu=accelerator("a100-80"),
        failure=7 * DAY,
        save=40,
        restart=1800,
        repair=DAY,
        spares=4,
        save_every=100 * step,
        kept=6,
        noticed=12 * 3600,
        longest=2048,
        people=10,
        before_days=60,
        serving=Serving(model=model("bloom"), gpu=accelerator("a100-80"), gpus=8),
        sequences=1,
        positions=60,
        load=0.5,
        alarms=roadmap.ALARMS,
        loads=("safetensors",),
        rehearsed=True,
        step_seconds=step,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def missed(each: RoadMap) -> set[str]:
    return {finding.id for finding in check(each) if not finding.met}


def test_the_published_run_keeps_its_targets() -> None:
    assert missed(road()) == set()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"save_every": 250 * 105.22}, "lost-hours"),
        ({"kept": 2}, "rollback"),
        ({"alarms": ("straggler",)}, "alarms"),
        ({"loads": ("safetensors", "pickle")}, "loads"),
        ({"rehearsed": False}, "rehearsed"),
        ({"load": 0.95}, "token"),
        ({"people": 100.0}, "budget"),
        ({"step_seconds": 130.0}, "days"),
        ({"longest": 65536}, "longest"),
        ({"spares": 0, "repair": 7 * DAY}, "goodput"),
    ],
)
def test_each_target_can_be_missed(changes: dict[str, object], name: str) -> None:
    assert name in missed(road(**changes))


def test_what_is_missing_is_named() -> None:
    found = {each.id: each for each in check(road(alarms=("straggler",)))}
    assert found["alarms"].names == ("bad-gradient", "loss-spike")
    with pytest.raises(CourseError, match="alarms"):
        check(road(alarms=("smoke",)))


def test_costs_by_hand() -> None:
    each = road(spares=0, before_days=0.0, people=0.0)
    told = costs(each)
    assert told["progress"] + told["lost"] == pytest.approx(384 * each.days * 24 * 2.0)
    assert told["spares"] == told["before"] == told["people"] == 0
    size = checkpoint_bytes(parameters=each.plan.model.parameters)
    assert told["storage"] == pytest.approx(6 * size / 1e12 * each.days / (365 / 12) * 20)
    assert told["energy"] == pytest.approx(384 * each.days * 24 * 0.4 * 0.1)


def test_groups_and_parts() -> None:
    assert roadmap.groups(trained("bloom-176b").plan) == {"data": 48, "pipeline": 32, "tensor": 96}
    assert roadmap.all_up(each=0.5, parts=3) == 0.125
    assert roadmap.times_the_mean(norm=1e9, ranks=4) == pytest.approx(4)
    assert roadmap.times_the_mean(norm=1, ranks=4) == 1


def test_kept_checkpoints_reach_behind_the_fault() -> None:
    assert [roadmap.kept_for(noticed=each, interval=3) for each in (1, 3, 6, 7)] == [2, 2, 3, 4]
