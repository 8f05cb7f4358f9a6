"""The GRPO lab: an update is the same on any number of ranks, what is handed over is counted, nothing is lost by being
killed, and the reward rises.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from labs.cases.grpo_runs import KEPT, OPTIONS, SEEDS, runs
from labs.catalogue import LabRun, formula, run_lab
from labs.options.grpo import GrpoOptions
from labs.runner import RankFailed, run
from translations import CourseError

SCRIPT = Path(__file__).parent / "grpo_cases.py"
BOUND = 1e-10
SMALL: dict[str, Any] = {"layers": 1, "hidden": 32, "warm_up": 4, "steps": 3, "group_size": 4, "micro_batch": 2}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_an_update_equals_one_process(ranks: int) -> None:
    kinds = itertools.product((0, 1, 2, 3), (1, 2))
    cases = json.dumps([{"stage": stage, "accumulate": accumulate} for stage, accumulate in kinds])
    for result in run(SCRIPT, ranks=ranks, arguments=["updates", cases], timeout=90).ranks:
        for each in result.value:
            assert each["loss"] < BOUND, each
            assert each["parameters"] < BOUND, each
            assert each["reference"] == 0, each


@pytest.mark.parametrize("stage", [0, 3])
def test_the_generator_has_the_weights_and_the_first_ratio_is_one(stage: int) -> None:
    words = GrpoOptions(stage=stage, **SMALL).arguments()
    for result in run(SCRIPT, ranks=2, arguments=["first-ratio", *words], timeout=90).ranks:
        found = result.value
        assert found["weights"]
        assert found["before"]
        assert found["after"] > 1e-4
        assert found["transfer"] == found["predicted"]
        assert ("all_gather" in found["transfer"]) == (stage == 3)


@pytest.mark.parametrize(("stage", "updates", "accumulate"), [(0, 1, 1), (1, 1, 2), (2, 2, 1), (3, 2, 2)])
def test_bytes_and_traffic_are_the_formulas(stage: int, updates: int, accumulate: int) -> None:
    options = {**SMALL, "stage": stage, "updates": updates, "accumulate": accumulate}
    ran = run_lab("grpo", ranks=2, **options)
    expected = formula("grpo", ranks=2, **options)
    assert ran.model_states() == expected.model_states
    assert ran.bytes("optimizer_states") == expected.optimizer_states
    assert ran.bytes("parameters") == expected.parameters
    assert ran.bytes("parameters", when="peak") == expected.parameters
    predicted = ran.data["ranks"][0]["predicted"]
    assert ran.collectives() == predicted["collectives"]
    assert ran.data["ranks"][0]["moved"] == predicted["transfer"]
    assert len(ran.data["curve"]) == 3
    assert set(ran.data["parts"]) == {"transfer", "generation", "scoring", "training"}
    assert 0 < ran.data["generation_share"] < 1
    assert ran.data["curve"][0]["kl"] == 0


def test_what_is_written_does_not_depend_on_the_ranks() -> None:
    options = {**SMALL, "precision": "fp64", "warm_up": 30}
    curves = [run_lab("grpo", ranks=n, **{**options, "micro_batch": 4 // n}).data["curve"] for n in (1, 2)]
    for one, two in zip(*curves, strict=True):
        assert one == pytest.approx(two, abs=1e-9)


def test_a_run_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    options = {**SMALL, "steps": 5, "save_every": 2}
    whole = run_lab("grpo", ranks=2, **options, keep=str(tmp_path / "whole")).data
    words = GrpoOptions(**options, keep=str(tmp_path / "killed")).arguments()
    with pytest.raises(RankFailed) as caught:
        run(SCRIPT, ranks=2, arguments=["killed", "3", *words], timeout=90)
    assert caught.value.kind == "died"
    assert (tmp_path / "killed" / "grpo" / "latest").read_text().strip()
    resumed = run_lab("grpo", ranks=2, **options, keep=str(tmp_path / "killed")).data
    assert resumed["curve"] == whole["curve"]
    assert resumed["start"] == whole["start"]
    assert resumed["end"] == whole["end"]
    assert [each for each in resumed["events"] if each["event"] == "resumed"]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    options = {**SMALL, "steps": 2, "save_every": 1, "keep": str(tmp_path)}
    curves = [run_lab("grpo", ranks=2, **options).data["curve"] for _ in range(2)]
    assert curves[0] == curves[1]


@pytest.fixture(scope="module")
def risen() -> LabRun:
    options: dict[str, Any] = {"warm_up": 250, "steps": 30, "micro_batch": 16, "lr": 5e-4}
    return run_lab("grpo", ranks=2, **options)


@pytest.mark.timeout(300)  # on a busy machine
def test_the_reward_rises(risen: LabRun) -> None:
    start, end = risen.data["start"], risen.data["end"]
    assert end["reward"] > start["reward"] + 0.06
    rewards = [point["reward"] for point in risen.data["curve"]]
    assert sum(rewards[-10:]) > sum(rewards[:10]) + 0.4


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epsilon": 0.0}, "grpo-epsilon"),
        ({"epsilon": 1.0}, "grpo-epsilon"),
        ({"beta": -0.1}, "grpo-beta"),
        ({"beta": float("nan")}, "grpo-beta"),
        ({"lr": 0.0}, "lr-not-positive"),
        ({"lr": float("nan")}, "lr-not-positive"),
        ({"stage": 4}, "unknown-stage"),
        ({"group_size": 1}, "option-at-least"),
        ({"sequence": 20}, "option-at-least"),
    ],
)
def test_what_cannot_run_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(CourseError) as caught:
        GrpoOptions(**options).checked(ranks=2)
    assert caught.value.id == f"labs.{error}"


def test_the_kept_runs_rise_on_every_seed() -> None:
    kept = runs()
    assert KEPT.is_file()
    assert kept["options"] == OPTIONS
    assert [each["seed"] for each in kept["runs"]] == list(SEEDS)
    for each in kept["runs"]:
        rewards = [point["reward"] for point in each["curve"]]
        assert len(rewards) == OPTIONS["steps"]
        assert sum(rewards[-20:]) / 20 > sum(rewards[:20]) / 20 + 0.15
        assert each["end"]["reward"] > each["start"]["reward"] + 0.08
        assert each["end"]["right"] > 1.3 * each["start"]["right"]
        assert each["seconds"] < 900
        assert each["versions"]["torch"]
