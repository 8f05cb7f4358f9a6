"""Every item of the bank, over several variants and in every language: what is right, and what each slip is told."""

import re

import pytest

from quiz import grade, items, units, variant
from quiz.grading import key_of, right_answer
from quiz.items import Item
from translations import CourseError, languages

BANK = [item for unit in units() for item in items(unit)]
SEEDS = (0, 1, 2)


def by_id(id: str) -> Item:
    return next(item for item in BANK if item.id == id)


@pytest.mark.parametrize("item", BANK, ids=lambda item: item.id)
def test_the_right_answer_gets_full_credit_and_an_explanation(item: Item) -> None:
    for language in languages():
        for seed in SEEDS:
            graded = grade(variant(item, seed), right_answer(variant(item, seed)), language)
            assert (graded.correct, graded.credit, graded.misconception) == (True, 1.0, None)
            assert len(graded.feedback) > 20
            assert "{" not in re.sub(r"`[^`]*`|\$[^$]*\$", "", graded.feedback)  # code and formulas have their own


@pytest.mark.parametrize("item", [i for i in BANK if i.form in ("choice", "fault")], ids=lambda item: item.id)
def test_every_wrong_option_says_its_own_sentence(item: Item) -> None:
    made = variant(item, 1)
    told = {option.key: grade(made, option.key, "en") for option in item.options}
    assert len({graded.feedback for graded in told.values()}) == len(item.options)
    for option in item.options:
        assert told[option.key].correct == option.correct
        assert told[option.key].credit == float(option.correct)
        assert told[option.key].misconception == option.misconception
        assert ("To read again" in told[option.key].feedback) != option.correct


@pytest.mark.parametrize("item", [i for i in BANK if i.form in ("number", "bytes")], ids=lambda item: item.id)
def test_every_numeric_slip_is_named(item: Item) -> None:
    told = set()
    for seed in range(12):
        made = variant(item, seed)
        for slip in item.slips:
            value = made.number(slip.value)
            graded = grade(made, repr(value), "en")
            near = abs(value - key_of(made)) <= item.tolerance * key_of(made)
            assert graded.correct == near
            if not near and graded.misconception == slip.misconception:
                told.add(slip.key)
    assert told == {slip.key for slip in item.slips}


def test_units_and_factors_that_give_a_slip_away() -> None:
    made = variant(by_id("zero-1-state-bytes"), 0)
    key = key_of(made)

    def said(text: str) -> str:
        graded = grade(made, text, "en")
        assert not graded.correct
        return graded.feedback

    assert grade(made, f"{key * 1e9} bytes", "en").correct
    assert grade(made, f"{key / 1000} TB", "en").correct
    assert grade(made, f"{key * 1e9 / 2**30} GiB", "en").correct
    assert grade(made, f"{key * 8} Gbit", "en").correct
    assert "counts bits" in said(f"{key * 8}")
    assert "binary units" in said(f"{key * 1e9 / 2**30}")
    assert "times too large" in said(f"{key * made.values['N']}")
    assert "times too small" in said(f"{key / made.values['N']}")
    assert "exactly twice" in said(f"{key * 2}")
    assert "exactly half" in said(f"{key / 2}")
    assert "too large" in said(f"{key * 3.37}")
    assert "look at the unit" in said(f"{key * 1e9}")


def test_an_ambiguous_separator_never_fails_a_right_answer() -> None:
    made = variant(by_id("data-parallel-global-batch"), 0)
    key = round(key_of(made))
    assert key >= 64
    for text in (f"{key}", f"{key:,}", f"{key:,}".replace(",", "."), f"{key} sequences"):
        assert grade(made, text, "en").correct, text


@pytest.mark.parametrize(
    ("id", "answer", "message"),
    [
        ("zero-1-what-for", "", "quiz.choose-one"),
        ("zero-1-what-for", "no-such-option", "quiz.choose-one"),
        ("zero-1-what-for", ["redundancy"], "quiz.choose-one"),
        ("zero-1-what-for", None, "quiz.choose-one"),
        ("zero-1-same-as-before", [], "quiz.choose-some"),
        ("zero-1-same-as-before", "losses", "quiz.choose-some"),
        ("zero-1-same-as-before", [["losses"]], "quiz.choose-some"),
        ("zero-1-order", ["forward"], "quiz.order-all"),
        ("zero-1-order", [1, None], "quiz.order-all"),
        ("zero-1-what-lies-where", {}, "quiz.match-all"),
        (
            "zero-1-what-lies-where",
            dict.fromkeys(("parameters", "master", "momentum", "activations"), ""),
            "quiz.match-all",
        ),
        ("zero-1-state-bytes", "", "quiz.no-number"),
        ("zero-1-state-bytes", 12, "quiz.no-number"),
        ("zero-1-state-bytes", "12 days", "quiz.other-unit"),
        ("zero-1-gather-before-update", "7", "quiz.choose-one"),
    ],
)
def test_an_answer_that_is_none_is_said_in_every_language_and_not_marked(id: str, answer: object, message: str) -> None:
    made = variant(by_id(id), 0)
    for language in languages():
        with pytest.raises(CourseError) as refused:
            grade(made, answer, language)  # type: ignore[arg-type]
        assert refused.value.id == message


def test_several_gives_part_of_the_credit_and_explains_each_mistake() -> None:
    made = variant(by_id("zero-1-same-as-before"), 0)
    graded = grade(made, ["losses", "traffic", "optimizer"], "en")
    assert graded.credit == pytest.approx(1 / 3)
    assert "rank 0 keeps the states of its shard only" in graded.feedback
    assert "each rank runs its own micro-batch" in graded.feedback
    assert grade(made, ["optimizer", "updated"], "en").credit == 0


def test_an_inverted_order_is_told_which_two_steps_and_why() -> None:
    made = variant(by_id("zero-1-order"), 0)
    graded = grade(made, ["forward", "backward", "reduce", "clip", "gather", "update"], "en")
    assert not graded.correct
    assert "exchange last step’s values" in graded.feedback
    clipped = grade(made, ["forward", "backward", "clip", "reduce", "update", "gather"], "en")
    assert clipped.misconception == "shard-norm-is-the-norm"


def test_match_gives_credit_by_row() -> None:
    made = variant(by_id("zero-1-what-lies-where"), 0)
    right = right_answer(made)
    assert isinstance(right, dict)
    graded = grade(made, right | {"activations": "shard"}, "en")
    assert graded.credit == 0.75
    assert graded.misconception == "zero-shards-activations"
