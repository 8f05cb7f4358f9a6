"""The figures of number formats: every bit, range and step is drawn, in every language, and what is lost is told."""

from __future__ import annotations

import pytest

from labs.planner import rounding
from lessons.figures import half_spacing, magnitudes, number_formats, over_steps
from translations import language

CODES = ("en", "nl", "ar")


@pytest.mark.parametrize("code", CODES)
def test_every_format_has_its_bits_and_its_range(code: str) -> None:
    drawn = number_formats()(language(code))
    bits = sum(1 + rounding.EXPONENT[name] + rounding.FRACTION[name] for name in rounding.FRACTION)
    assert drawn.markup.count("<rect") == bits + 3
    assert all(f">{name}</text>" in drawn.markup for name in rounding.FRACTION)
    assert "448" in drawn.alt
    assert "2\u207b\u2077" in drawn.alt


@pytest.mark.parametrize("code", CODES)
def test_what_lies_below_a_format_is_told_as_a_share_and_a_scale_brings_it_back(code: str) -> None:
    counts = {-30: 25, -20: 75}
    lost = magnitudes(counts, formats=("fp16", "bf16"), title="Lost")(language(code))
    saved = magnitudes(counts, formats=("fp16", "bf16"), title="Saved", scale=2.0**8)(language(code))
    assert "25%" in lost.alt
    assert "25%" not in saved.alt
    assert lost.markup.count("url(#") == saved.markup.count("url(#") == 2


@pytest.mark.parametrize("code", CODES)
def test_steps_are_whole_where_values_are_and_marks_are_told(code: str) -> None:
    drawn = over_steps({"S": [16.0, 15.0, 15.0, 16.0]}, title="Scale", marks=(0,), note="skipped")(language(code))
    assert ">15</text>" in drawn.markup
    assert "15.5" not in drawn.markup
    assert drawn.markup.count("<circle") == 2
    assert "skipped" in drawn.alt


@pytest.mark.parametrize("code", CODES)
def test_the_stairs_stand_above_an_update_from_the_weight_that_the_title_names(code: str) -> None:
    drawn = half_spacing(1e-5)(language(code))
    assert "2\u207b\u2078" in drawn.alt
    assert all(f">{name}</text>" in drawn.markup for name in ("bf16", "fp16", "fp32"))
