"""The figures of goodput: their message, their numbers in words and table, in every language."""

from __future__ import annotations

import re

import pytest

from labs.telemetry.drawing.goodput import Point, goodput_by_interval, goodput_by_size
from translations import languages

POINTS = [Point(at=60, goodput=0.8), Point(at=600, goodput=0.93, drawn=0.929, error=0.001), Point(at=6000, goodput=0.7)]


@pytest.mark.parametrize("language", [each.code for each in languages()])
def test_each_figure_says_its_message_and_its_numbers(language: str) -> None:
    for figure in (goodput_by_interval(POINTS, language=language), goodput_by_size(POINTS, language=language)):
        assert "80" in figure.alt
        assert "93" in figure.alt
        assert figure.markup.count("<circle") == 1
        assert len(re.findall("<tr", figure.html)) == 4
    assert "10" in goodput_by_interval(POINTS, language=language).alt.partition(":")[0]
