"""Figures of judgement: titles are given, numbers are in the alternative text and in the table."""

from __future__ import annotations

import pytest

from lessons.figures import benchmark_and_reality, waiting_by_load, waits_for_the_longest
from translations import language, languages

CODES = [each.code for each in languages() if each.released]


@pytest.mark.parametrize("code", CODES)
def test_copies_wait_for_the_slowest(code: str) -> None:
    figure = waits_for_the_longest([[1, 1], [3, 1]], title="One is slow")(language(code))
    assert "25%" in figure.alt
    assert "50%" in figure.table


@pytest.mark.parametrize("code", CODES)
def test_both_bars_have_their_numbers(code: str) -> None:
    figure = benchmark_and_reality({"8 x 1": (114, 76), "1 x 8": (104, 100)}, title="It turns", unit="k")(
        language(code)
    )
    for value in ("114", "76", "104", "100"):
        assert value in figure.alt
        assert value in figure.table


@pytest.mark.parametrize("code", CODES)
def test_waiting_has_mean_and_percentile(code: str) -> None:
    figure = waiting_by_load(title="It grows")(language(code))
    assert "46.1" in figure.alt.replace(",", ".")
    assert "20.0" in figure.table.replace(",", ".")
