"""The game's puzzles, and its reward: exact for what is right, zero for whatever else a model may write."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.cases.countdown import (
    COMPLETION,
    END,
    LONGEST,
    PROMPT,
    NoExpression,
    Puzzle,
    decode,
    drawn,
    encode,
    equation_reward,
    format_reward,
    held_out,
    value,
    ways,
)

PUZZLE = Puzzle((3, 5, 2), 13)


# --- expressions


def trees(depth: int) -> st.SearchStrategy[tuple[str, Fraction | None, list[int]]]:
    """Expressions as text, with the value and numbers that Python's own arithmetic on the tree gives."""
    leaf = st.integers(0, 99).map(lambda n: (str(n), Fraction(n), [n]))
    if depth == 0:
        return leaf

    def join(
        parts: tuple[str, tuple[str, Fraction | None, list[int]], tuple[str, Fraction | None, list[int]]],
    ) -> tuple[str, Fraction | None, list[int]]:
        sign, (left, a, m), (right, b, n) = parts
        made: Fraction | None = None
        if a is not None and b is not None and not (sign == "/" and b == 0):
            made = {"+": a + b, "-": a - b, "*": a * b}.get(sign, a / b if b else Fraction(0))
        return f"({left}{sign}{right})", made, m + n

    return st.one_of(leaf, st.tuples(st.sampled_from("+-*/"), trees(depth - 1), trees(depth - 1)).map(join))


@given(trees(3))
def test_every_expression_has_its_exact_value(tree: tuple[str, Fraction | None, list[int]]) -> None:
    written, expected, numbers = tree
    if expected is None or len(written) > LONGEST:
        with pytest.raises(NoExpression):
            value(written)
    else:
        assert value(written) == (expected, numbers)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("2+3*4", 14), ("2-3-4", -5), ("8/4/2", 1), ("(2+3)*4", 20), ("1/3*3", 1), (" ( 7 ) ", 7), ("2*(3-(4-1))", 0)],
)
def test_precedence_and_order(written: str, expected: int) -> None:
    assert value(written)[0] == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "()",
        "1 2",
        "1+",
        "+1",
        "-1",
        "1--1",
        "2(3)",
        "(2)(3)",
        "(1",
        "1)",
        "1/0",
        "1/(2-2)",
        "9**9",
        "9**9**9",
        "1e9",
        "0x10",
        "1_000",
        "1.5",
        "1,5",
        "5!",
        "6²",
        "٣+٥*٢",  # digits that int() would take
        "３+５",
        "1\n+2",
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "9" * 65,
        "(" * 64,
        "(" * 10_000 + "1" + ")" * 10_000,
        "9" * 100_000,
        "1+" * 50_000 + "1",
        "\0",
    ],
)
def test_what_is_no_expression_is_refused_at_once(written: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(NoExpression):
        value(written)
    assert equation_reward(f"x</think><answer>{written}</answer>", PUZZLE) == 0
    assert time.perf_counter() - begun < 0.5


@given(st.text())
def test_any_text_gets_an_answer(written: str) -> None:
    assert equation_reward(written, PUZZLE) in (0, 1)
    assert format_reward(written) in (0, 1)


@given(st.text(alphabet="0123456789+-*/() ٣²", max_size=90))
def test_any_text_of_its_letters_has_a_value_or_none(written: str) -> None:
    try:
        found, numbers = value(written)
    except NoExpression:
        return
    assert set(written) <= set("0123456789+-*/() ")
    assert numbers == [int(digits) for digits in re.findall("[0-9]+", written)]
    assert found.denominator > 0


# --- rewards


@pytest.mark.parametrize(
    ("completion", "form", "right"),
    [
        ("5*2=10,10+3=13</think><answer>(5*2)+3</answer>", 1, 1),
        ("</think><answer>3+5*2</answer>", 1, 1),
        ("anything</think><answer>3+5+2</answer>", 1, 0),
        ("</think><answer>13</answer>", 1, 0),
        ("</think><answer>3+5+5</answer>", 1, 0),  # a number twice, another not at all
        ("</think><answer>3+5*2+0</answer>", 1, 0),
        ("</think><answer>3+5*2=13</answer>", 1, 0),
        ("<think>a</think><answer>3+5*2</answer>", 0, 0),
        ("</think> <answer>3+5*2</answer>", 0, 0),
        ("</think><answer>3+5*2</answer> ", 0, 0),
        ("</think><answer>3+5*2", 0, 0),
        ("<answer>3+5*2</answer>", 0, 0),
        ("", 0, 0),
    ],
)
def test_rewards(completion: str, form: float, right: float) -> None:
    assert (format_reward(completion), equation_reward(completion, PUZZLE)) == (form, right)


# --- puzzles


def test_puzzles_have_the_solution_that_is_told_with_them() -> None:
    for puzzle, said in islice(drawn("a test"), 300):
        assert equation_reward(said, puzzle) == 1
        assert len(encode(puzzle.prompt)) == PROMPT
        assert len(encode(said)) < COMPLETION
        assert (puzzle.target, said) in ways(puzzle.numbers)


def test_the_longest_completion_fits() -> None:
    every = [(a, b, c) for a in range(1, 7) for b in range(1, 7) for c in range(1, 7)]
    assert max(len(encode(said)) for numbers in every for _, said in ways(numbers)) + 1 <= COMPLETION


def test_what_is_held_out_is_never_trained_on() -> None:
    trained = {(tuple(sorted(p.numbers)), p.target) for p, _ in islice(drawn("a"), 2000)}
    measured = {(tuple(sorted(p.numbers)), p.target) for p, _ in islice(drawn("b", apart=True), 500)}
    assert not trained & measured
    assert held_out(Puzzle((1, 2, 3), 6)) == held_out(Puzzle((3, 1, 2), 6))


def test_the_same_seed_draws_the_same() -> None:
    assert list(islice(drawn("x"), 5)) == list(islice(drawn("x"), 5)) != list(islice(drawn("y"), 5))


@given(st.text(alphabet=st.characters(max_codepoint=127, min_codepoint=5)))
def test_tokens_and_text_say_the_same(text: str) -> None:
    tagged = f"{text}</think><answer>{text}"
    tokens = encode(tagged)
    assert decode([*tokens, END, 65]) == decode(tokens) == tagged
    assert len(tokens) == 2 * len(encode(text)) + 2


def test_a_byte_that_is_no_letter_has_a_place_of_its_own() -> None:
    assert decode([200, 65]) == "\ufffdA"
