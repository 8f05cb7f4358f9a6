"""Alpa's published layouts beside this search: the rows are whole, and what the comparison says is computed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from labs.planner.beside import TIE, Beside, beside, cluster
from labs.planner.memory import memory
from labs.planner.recomputed import published
from labs.planner.throughput import seconds, step_flops
from translations.wording import ROOT, messages

WORDS = messages(ROOT / "shardwise")
FOUND = {each.model.name: each for each in beside()}


def test_every_published_row_is_there_and_its_stages_are_the_whole_model() -> None:
    table = published("alpa_osdi22")["gpt"]
    names = [*table["config_cols"], *table["value_cols"]]
    for values in table["rows"]:
        row = dict(zip(names, values, strict=True))
        assert sum(row["layers_of_stages"]) == row["layers"] == FOUND[row["model"]].model.layers
        parts = zip(row["dp_of_stages"], row["tp_of_stages"], strict=True)
        assert sum(dp * tp for dp, tp in parts) == row["gpus"]
    assert [each.gpus for each in FOUND.values()] == [2, 4, 8, 16, 32, 64]
    assert [name for name, each in FOUND.items() if each.unequal] == ["2.6B"]


def test_names_of_the_models_are_their_parameters() -> None:
    for name, each in FOUND.items():
        printed = float(name[:-1]) * (1e6 if name.endswith("M") else 1e9)
        assert each.model.parameters == pytest.approx(printed, rel=0.03)


def test_the_published_rates_are_within_a_tenth_of_the_predicted() -> None:
    """Nothing is fitted: the share of the peak is an A100's, of another paper."""
    for each in FOUND.values():
        assert each.predicted == pytest.approx(each.measured, rel=0.1)


def test_their_operations_are_counted_by_their_formula() -> None:
    each = FOUND["39B"]
    plan, h = each.published.plan, each.model.hidden
    by_hand = 96 * 1024 * 1024 * 48 * h**2 * (1 + 1024 / (6 * h) + 51200 / (16 * 48 * h))
    assert step_flops(plan) == pytest.approx(by_hand, rel=0.01)


@pytest.mark.parametrize("each", FOUND.values(), ids=list(FOUND))
def test_ours_is_the_fastest_that_fits_under_their_rules(each: Beside) -> None:
    card = cluster()
    for ranked in (each.published, each.ours, each.free):
        assert ranked.memory.fits
        assert ranked.plan.gpus == each.gpus
        assert ranked.plan.global_batch == 1024
        assert ranked.seconds == pytest.approx(seconds(ranked.plan, gpu=card))
    assert each.ours.plan.micro_batches == each.published.plan.micro_batches
    assert each.free.seconds < each.ours.seconds <= each.published.seconds
    assert all(not memory(rival.plan, gpu=card).fits for rival in each.rivals)


def test_same_tied_and_other_layouts_are_told_apart() -> None:
    reasons = {name: each.reason for name, each in FOUND.items()}
    assert reasons["39B"] == "same"
    for name, each in FOUND.items():
        assert each.costs < 0.05
        if reasons[name] not in ("same", "tie"):
            assert each.costs >= TIE
            assert f"plan-why-{reasons[name]}" in WORDS
    assert FOUND["39B"].costs == 0
    assert replace(FOUND["6.7B"], ours=FOUND["6.7B"].published).reason == "same"
    json.dumps([each.as_json() for each in FOUND.values()])
