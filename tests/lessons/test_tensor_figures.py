"""The figures of tensor parallelism: every rank and curve is drawn, in every language, and zero has a place."""

from __future__ import annotations

import pytest

from lessons.figures import differences, split_heads, split_loss
from translations import language


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_every_head_and_every_rank_is_drawn(code: str) -> None:
    heads = split_heads(ranks=2, heads=4)(language(code)).markup
    assert heads.count(">0</text>") == heads.count(">1</text>") == 3 + 2 + 1
    assert split_loss(ranks=4)(language(code)).markup.count("all-reduce") == 1


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_a_difference_of_nothing_is_at_the_foot_and_every_run_is_named(code: str) -> None:
    runs = {"fp64": [0.0, 4e-16], "fp32": [3e-7, 4e-7], "bf16": [1e-3, 1e-3]}
    drawn = differences(runs, title="Two lines")(language(code))
    assert all(f">{name}</text>" in drawn.markup for name in runs)
    assert ">0</text>" in drawn.markup
    assert "4e-16" in drawn.alt
    assert "4.0e-16" in drawn.html
