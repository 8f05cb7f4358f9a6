"""The figures of context and expert parallelism show what the strategies do, in every language."""

from __future__ import annotations

import pytest

from labs.planner.context import work
from lessons.figures import ring_turns, scores_by_rank, to_the_experts, tokens_of_experts
from lessons.figures.experts import seats
from translations import Language, language, languages


@pytest.mark.parametrize("each", languages(), ids=lambda each: each.code)
def test_every_rank_stands_in_the_words(each: Language) -> None:
    naive = scores_by_rank(ranks=4, order="naive", title="a title")(each)
    zigzag = scores_by_rank(ranks=4, order="zigzag", title="a title")(each)
    assert all(number in naive.alt for number in ("0.5", "1.5", "2.5", "3.5"))
    assert "0.5" not in zigzag.alt
    turns = ring_turns({order: work(sequence=512, ranks=4, order=order) for order in ("naive", "zigzag")}, title="a")
    assert turns(each).table.count("<tr>") == 1 + 2 * 4


def test_the_first_rank_waits_six_sevenths_of_a_naive_ring() -> None:
    drawn = ring_turns({"naive": work(sequence=2**16, ranks=4, order="naive")}, title="a title")(language("en"))
    assert "86%, 57%, 29%, 0%" in drawn.alt


def test_places_are_taken_in_the_order_of_tokens() -> None:
    wanted = [[0, 2, 0, 0], [1, 2, 3]]
    assert seats(wanted, experts=4, places=2) == [[[0, 2], [], [1], []], [[], [0], [1], [2]]]
    drawn = to_the_experts(wanted, experts=4, places=2)(language("en"))
    assert "no place: a3" in drawn.markup
    assert drawn.markup.count(">b1<") == 2


def test_a_panel_for_each_run() -> None:
    drawn = tokens_of_experts({"one": [8, 0], "two": [4, 4]}, places=5, title="a title")(language("en"))
    assert "one: the experts are wanted by 8, 0 tokens." in drawn.alt
    assert drawn.table.count("<tr>") == 3
