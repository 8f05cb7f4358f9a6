"""The exercise on balanced stages: the reference against brute force, and every wrong answer told apart."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.exercises import check, exercise
from labs.exercises.balance import check as checker
from labs.exercises.balance.solution import balance

WHOLE = "return list(best(0, stages)[1])"
FILLED = "from labs.exercises.balance.check import filled\n    return filled(costs, stages)"


def brute(costs: list[int], stages: int) -> int:
    """The lightest heaviest stage of all cuts."""
    cuts = combinations(range(1, len(costs)), stages - 1)
    borders = ((0, *cut, len(costs)) for cut in cuts)
    return min(max(sum(costs[a:b]) for a, b in pairwise(each)) for each in borders)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.data())
def test_solution_and_checker_find_the_lightest_heaviest_stage(costs: list[int], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(costs)))
    sizes = balance(costs, stages)
    assert (len(sizes), sum(sizes)) == (stages, len(costs))
    assert min(sizes) >= 1
    assert max(checker.sums(sizes, costs)) == checker.lightest(costs, stages) == brute(costs, stages)


def test_bloom_gets_five_layers_at_both_ends() -> None:
    sizes = balance(list(checker.BLOOM[0]), checker.BLOOM[1])
    assert (sizes[0] - 1, sizes[1], sizes[-1] - 1) == (5, 6, 5)


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        (WHOLE, "return sum(best(0, stages)[1])", "shape/not-a-list", "list of whole numbers"),
        (WHOLE, "return list(best(0, stages)[1])[:-1]", "shape/other-number", "the last one too"),
        (WHOLE, "return [len(costs)] + [0] * (stages - 1)", "pieces/empty-stage", "stage 1"),
        (WHOLE, "return [1] * stages", "pieces/not-all", "2"),
        (WHOLE, FILLED, "heaviest/greedy", "the mean"),
        ("max(own, heaviest)", "min(own, heaviest)", "heaviest/heavier", "heaviest stage"),
        ("max(own, heaviest)", "own + heaviest", "heaviest/heavier", "heaviest stage"),
    ],
)
def test_wrong_answers(old: str, new: str, at: str, says: str) -> None:
    code = exercise("balance").code("solution")
    assert old in code
    verdict = check("balance", code.replace(old, new), "en")
    assert (verdict.failed_at, verdict.passed) == (at, False), verdict.message
    assert says in verdict.message
