"""The figures of the stages of ZeRO: what they draw is what the planner's formulas say, in every language."""

from __future__ import annotations

import pytest

from labs.planner import zero
from lessons.figures import batches_within, collectives_in_a_step, gradients_through_backward
from translations import language
from translations.formats import bytes_

LANGUAGES = ["en", "nl", "ar"]


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_step_moves_what_the_formula_says(code: str, count: int) -> None:
    shown = collectives_in_a_step(micro_batches=count)(language(code))
    for stage in (1, 2, 3):
        moved = zero.traffic(parameters=1, stage=stage, precision="bf16", micro_batches=count) // 2
        assert f"{moved} P" in shown.alt
        assert f"{moved} P" in shown.html


@pytest.mark.parametrize("code", LANGUAGES)
def test_gradients_never_pile_higher_than_shards_and_the_largest_bucket(code: str) -> None:
    sizes, ranks = [6_000_000, *[2_000_000] * 5, 8_000_000], 4
    shown = gradients_through_backward(sizes, ranks=ranks)(language(code))
    held = [sum(sizes[at + 1 :]) / ranks + sizes[at] for at in range(len(sizes))]
    assert max(held) <= sum(sizes) / ranks + max(sizes)
    assert bytes_(max(held), code) in shown.alt
    assert bytes_(sum(sizes), code) in shown.alt


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_largest_batches_stand_beside_their_bars(code: str) -> None:
    found = {
        "ddp": {"micro_batch": 0, "states": 17_900_000, "peaks": {"1": 19_000_000}},
        "zero-3": {"micro_batch": 8, "states": 6_900_000, "peaks": {"8": 17_500_000, "9": 18_700_000}},
    }
    shown = batches_within({"found": found, "layout": {"budget": 18.0}})(language(code))
    assert "DDP" in shown.alt
    assert bytes_(17_500_000, code) in shown.html
