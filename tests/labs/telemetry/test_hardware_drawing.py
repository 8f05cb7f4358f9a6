"""The figure of accelerators: its message is computed, and every number stands in words and in the table."""

from __future__ import annotations

import re

import pytest

from labs.planner.hardware import accelerator
from labs.telemetry.drawing.hardware import accelerators_compared
from translations import languages

CARDS = [accelerator(name) for name in ("v100", "gaudi3", "mi300x", "gb200")]


@pytest.mark.parametrize("language", [each.code for each in languages()])
def test_it_says_its_message_and_its_numbers(language: str) -> None:
    figure = accelerators_compared(CARDS, language=language)
    title = figure.alt.partition("v100-32:")[0]
    assert "20" in title
    for told in ("0.125", "186", "5.30", "gb200") if language == "en" else ("186", "gb200"):
        assert told in figure.alt
    assert len(re.findall("<tr", figure.html)) == 1 + len(CARDS)
    assert figure.html.count("–") >= 3


def test_a_bar_for_each_format_and_panel() -> None:
    figure = accelerators_compared(CARDS, language="en")
    bars = len(re.findall(r'<path d="[^"]*" fill="#', figure.markup))
    assert bars == 5 + len(CARDS) * 3 + sum(len(card.narrow) for card in CARDS)
