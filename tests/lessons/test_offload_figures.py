"""Figures of offload: what they say is what the planner says, in every language."""

from __future__ import annotations

import pytest

from labs.planner.offload import Step, efficiency
from lessons import figures
from translations import Language, formats, languages

STEP = Step(forward=1.0, backward=3.0, out=2.0, update=2.5, back=0.5)


def test_three_ways_through_a_step() -> None:
    assert (STEP.in_turn, STEP.overlapped, STEP.delayed) == (9.0, 6.5, 4.5)


@pytest.mark.parametrize("language", languages(), ids=lambda each: each.code)
def test_figures_say_their_numbers(language: Language) -> None:
    crossing = figures.across_the_link()(language)
    assert "4" in crossing.alt  # bytes of each state; two may be written as a word
    assert crossing.markup.count("url(#") == 5  # gradients, activations and three states have a pattern
    ways = figures.ways_through(STEP)(language)
    point = formats.number(0.5, language, 1)[1]
    for seconds in (STEP.in_turn, STEP.overlapped, STEP.delayed):
        assert f"{seconds:.1f}".replace(".", point) in ways.alt
    share = efficiency(intensity=1000, bandwidth=7e9, peak_flops=70e12)
    drawn = figures.efficiency_by_bandwidth({"states": 1000.0}, peak=70e12, links={"drive": 7e9}, title="Title")(
        language
    )
    assert f"{100 * share:.1f}".replace(".", point) in drawn.alt
    assert drawn.table.count("<tr") == 2
