"""The figures of one GPU and of data parallelism: what they say holds, in every language."""

from __future__ import annotations

import pytest

from lessons import figures
from lessons.figures.collectives import KINDS, _has
from translations import Language, language, languages

GB = 10**9


@pytest.mark.parametrize("each", languages(), ids=lambda each: each.code)
def test_each_draws_itself_and_says_in_words_what_it_shows(each: Language) -> None:
    told = [("six", 6 * GB, 6 * GB), ("freed", 3 * GB, 6 * GB), ("one more", 5 * GB, 8 * GB)]
    for figure in (
        figures.ways_to_share(),
        figures.counters(told, process=GB, title="A title"),
        figures.buckets_in_backward(pieces=4),
        figures.collectives(ranks=4),
    ):
        drawn = figure(each)
        assert drawn.markup.startswith("<svg")
        assert len(drawn.alt) > 60


def test_the_counters_stand_in_a_table_each_under_its_name() -> None:
    told = [("six", 6 * GB, 6 * GB), ("freed", 3 * GB, 6 * GB)]
    drawn = figures.counters(told, process=GB, title="A title")(language("en"))
    row = drawn.table.split("freed", 1)[1]
    assert row.index("7.00") < row.index("6.00") < row.index("3.00")


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_reduce_scatter_and_an_all_gather_leave_what_an_all_reduce_leaves(ranks: int) -> None:
    everywhere = [(rank, part) for rank in range(ranks) for part in range(ranks)]
    scattered = {part: _has("reduce-scatter", part, part, after=True) for part in range(ranks)}
    assert all(_has("all-reduce", rank, part, after=True) == scattered[part] for rank, part in everywhere)
    assert all(_has("reduce-scatter", rank, part, after=True) is None for rank, part in everywhere if rank != part)
    assert all(_has("all-gather", rank, part, after=True) for rank, part in everywhere)
    assert {_has("broadcast", rank, 0, after=True) for rank in range(ranks)} == {"a0"}
    assert len(KINDS) == 4
