import json
from collections import Counter
from dataclasses import asdict

import pytest

from quiz import Answered, Session, items, objectives, policy, units
from quiz.grading import right_answer
from quiz.session import precheck, question
from quiz.variants import variant
from shardwise.units import unit as find_unit
from translations import CourseError, languages
from translations import language as find_language


def walk(session: Session, *, wrong: int = 0) -> None:
    """Answer everything right but the first `wrong` questions."""
    while not session.finished:
        made = session.variant
        if session.number <= wrong:
            session.answer(wrong_answer(session))
        else:
            session.answer(right_answer(made))
        session.next()


def wrong_answer(session: Session) -> object:
    item = session.variant.item
    match item.form:
        case "choice" | "fault":
            return next(option.key for option in item.options if not option.correct)
        case "several":
            return [option.key for option in item.options if not option.correct]
        case "order":
            return [step.key for step in reversed(item.steps)]
        case "match":
            return {p.key: next(a.key for a in item.answers if a.key != p.match) for p in item.pairs}
    return "0.000001"


@pytest.mark.parametrize("unit", units())
def test_a_quiz_asks_each_objective_and_passes_when_all_is_right(unit: str) -> None:
    kept: list[Answered] = []
    session = Session(unit, "en", seed="ada", attempt=1, on_answer=kept.append)
    asked = Counter(each.item.objective for each in session.variants)
    assert asked == {objective.id: policy().per_objective for objective in objectives(unit)}
    walk(session)
    result = session.result()
    assert (result.passed, result.share, len(kept)) == (True, 1.0, session.total)
    assert json.loads(json.dumps([asdict(each) for each in kept]))[0]["unit"] == unit
    again = Session(unit, "en", seed="ada", attempt=1)
    assert [each.seed for each in again.variants] == [each.seed for each in session.variants]
    other = Session(unit, "en", seed="ada", attempt=2)
    assert [each.seed for each in other.variants] != [each.seed for each in session.variants]


def test_nothing_right_is_not_passed_and_names_what_was_missed() -> None:
    session = Session("04-zero-1", "en", seed="ada", attempt=1)
    walk(session, wrong=session.total)
    result = session.result()
    assert not result.passed
    assert not any(each.mastered for each in result.objectives)
    assert result.needed == 3
    assert result.misconceptions


def test_the_pass_mark_is_the_policys() -> None:
    session = Session("04-zero-1", "en", seed="ada", attempt=1)
    missed = session.variants[0].item.objective
    while not session.finished:
        objective = session.variant.item.objective
        wrong = objective == missed
        session.answer(wrong_answer(session) if wrong else right_answer(session.variant))  # type: ignore[arg-type]
        session.next()
    result = session.result()
    assert result.share == pytest.approx(2 / 3)
    assert result.passed == (result.share >= policy().mastery)


def test_an_answer_counts_once_and_a_failing_record_loses_nothing() -> None:
    calls: list[Answered] = []

    def full_disk(answered: Answered) -> None:
        calls.append(answered)
        if len(calls) == 1:
            raise CourseError("quiz.finished")

    session = Session("04-zero-1", "en", seed="ada", attempt=1, on_answer=full_disk)
    with pytest.raises(CourseError):
        session.answer(right_answer(session.variant))
    assert session.graded is None
    graded = session.answer(right_answer(session.variant))
    assert session.answer(wrong_answer(session)) == graded  # type: ignore[arg-type]
    assert len(calls) == 2


def test_an_answer_that_is_none_leaves_the_question_open() -> None:
    session = Session("04-zero-1", "en", seed="ada", attempt=1)
    with pytest.raises(CourseError):
        session.answer("")
    with pytest.raises(CourseError) as refused:
        session.next()
    assert refused.value.id == "quiz.answer-first"
    assert session.number == 1


def test_an_interrupted_quiz_goes_on_where_it_stopped() -> None:
    kept: list[Answered] = []
    first = Session("04-zero-1", "en", seed="ada", attempt=3, on_answer=kept.append)
    for _ in range(4):
        first.answer(right_answer(first.variant))
        first.next()
    second = Session("04-zero-1", "nl", seed="ada", attempt=3, on_answer=kept.append, resume=kept)
    assert (second.number, second.variant.id) == (5, first.variant.id)
    walk(second)
    assert second.result().passed
    assert len(kept) == second.total
    with pytest.raises(CourseError):
        second.answer("x")


def test_no_question_holds_its_key() -> None:
    for unit in units():
        for item in items(unit):
            asked = question(variant(item, 3), "en")
            words = json.dumps([asked.text, asked.prompt, [asdict(each) for each in (*asked.offered, *asked.answers)]])
            assert item.feedback[:40] not in words
            assert '"correct"' not in words


def test_named_items_are_asked_in_the_order_given() -> None:
    session = Session("04-zero-1", "en", seed="ada", items=["zero-1-order", "zero-1-what-for"])
    assert [each.id for each in session.variants] == ["zero-1-order", "zero-1-what-for"]
    with pytest.raises(CourseError) as refused:
        Session("04-zero-1", "en", seed="ada", items=["no-such-item"])
    assert refused.value.id == "quiz.unknown-item"
    with pytest.raises(CourseError) as refused:
        Session("99-none", "en", seed="ada")
    assert "04-zero-1" in str(refused.value)


@pytest.mark.parametrize("unit", [unit for unit in units() if find_unit(unit).open(find_language("en"))])
def test_the_questions_before_a_unit_are_applied_and_one_an_objective(unit: str) -> None:
    chosen = [item for item in items(unit) if item.id in precheck(unit, learner="ada")]
    assert len(chosen) == policy().precheck
    assert len({item.objective for item in chosen}) == policy().precheck
    assert all(item.kind in ("compute", "predict", "diagnose") for item in chosen)


def test_a_misconception_met_twice_points_to_its_lab() -> None:
    session = Session("05-zero-2", "en", seed="ada", items=["zero-2-why-every-micro-batch", "zero-2-or-1"])
    for answer in ("can-wait", "two"):
        session.answer(answer)
        session.next()
    assert session.result().misconceptions == (("accumulation-means-no-communication", 2),)
    assert "The same misunderstanding was in more than one" in session.misconception_notes()[0]


def test_every_question_can_be_shown_in_every_language() -> None:
    for language in languages():
        for unit in units():
            for item in items(unit):
                asked = question(variant(item, 0), language)
                assert asked.text
                assert asked.prompt
