"""A sitting as a value: what was accepted stays, what comes late is refused, and no view of it gives a key away."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiz.exam import ExamSession, TaskResult, exam_policy, result
from tests.quiz.exam.making import START, answers, paper, right_of, sitting, wrong_of
from translations import CourseError, languages

MINUTE = timedelta(minutes=1)
RULES = replace(exam_policy(), practical=None)


def test_all_right_is_full_credit_and_half_wrong_is_not() -> None:
    session = sitting()
    for number, answer in answers(session).items():
        session = session.answer(number, answer, now=START + MINUTE)
    ended = result(session.hand_in(now=START + 2 * MINUTE), policy=RULES, language="en", now=START + 3 * MINUTE)
    assert (ended.quiz.share, ended.passed, ended.unanswered) == (1.0, True, 0)
    assert all(each.mastered and each.share == 1 for each in ended.objectives)
    assert ended.ended == START + 2 * MINUTE
    assert ended.public
    failed = sitting()
    for number, answer in answers(failed, wrong=failed.total // 2).items():
        failed = failed.answer(number, answer, now=START)
    lost = result(failed.hand_in(now=START), policy=RULES, language="en", now=START)
    assert not lost.passed
    assert lost.quiz.share < 0.6
    assert lost.attempt_hash != ended.attempt_hash


def test_an_answer_may_be_changed_and_taken_back_until_it_is_handed_in() -> None:
    session = sitting()
    session = session.answer(1, wrong_of(session, 1), now=START)
    session = session.answer(1, right_of(session, 1), now=START + MINUTE)
    assert session.question(1, "en").given == right_of(session, 1)
    cleared = session.answer(1, None, now=START + MINUTE)
    assert cleared.question(1, "en").given is None
    assert session.question(1, "en").given is not None
    done = session.hand_in(now=START + 2 * MINUTE)
    for change in (right_of(session, 1), None):
        with pytest.raises(CourseError, match="handed in"):
            done.answer(1, change, now=START + 3 * MINUTE)
    assert done.hand_in(now=START + 9 * MINUTE) == done, "handing in again changes nothing"


def test_after_the_time_only_what_was_acknowledged_counts() -> None:
    session = sitting(minutes=10)
    last = START + 10 * MINUTE - timedelta(microseconds=1)
    session = session.answer(1, right_of(session, 1), now=last)
    for late in (START + 10 * MINUTE, START + 99 * MINUTE):
        assert session.state(late) == "over"
        with pytest.raises(CourseError, match="time is over"):
            session.answer(2, right_of(session, 2), now=late)
    assert session.hand_in(now=START + 60 * MINUTE).handed_in == START + 10 * MINUTE
    ended = result(session, policy=RULES, language="en", now=START + 60 * MINUTE)
    assert (ended.quiz.won, ended.unanswered, ended.ended) == (1.0, session.total - 1, START + 10 * MINUTE)


def test_extra_time_a_window_and_time_given_by_an_examiner() -> None:
    assert sitting(minutes=60, extra=0.25).deadline == START + 75 * MINUTE
    assert sitting(minutes=60, closes=START + 30 * MINUTE).deadline == START + 30 * MINUTE
    running = sitting(minutes=60)
    assert running.left(START + 59 * MINUTE) == MINUTE
    assert running.extended(5).state(START + 62 * MINUTE) == "open"
    with pytest.raises(CourseError):
        running.hand_in(now=START).extended(5)


def test_a_clock_that_runs_backward_gives_no_time() -> None:
    session = sitting(minutes=10)
    session = session.answer(1, right_of(session, 1), now=START + 9 * MINUTE)
    back = START + 2 * MINUTE
    assert session.left(back) == MINUTE
    assert session.answer(2, right_of(session, 2), now=back).answers[2].at == START + 9 * MINUTE


def test_nothing_is_judged_before_the_end() -> None:
    with pytest.raises(CourseError, match="still open"):
        result(sitting(), policy=RULES, language="en", now=START + MINUTE)


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 49), st.sampled_from(["right", "wrong", "back"]), st.booleans()), max_size=30
    )
)
def test_a_sitting_killed_at_any_step_goes_on_where_it_was(steps: list[tuple[int, str, bool]]) -> None:
    """The oracle is a plain dict of the last acknowledged answers; a kill is a round trip through JSON."""
    session, kept = sitting(), dict[int, Any]()
    for at, (number, how, killed) in enumerate(steps):
        answer = {"right": right_of, "wrong": wrong_of}[how](session, number) if how != "back" else None
        session = session.answer(number, answer, now=START + timedelta(seconds=at))
        kept.pop(number, None)
        if answer is not None:
            kept[number] = answer
        if killed:
            session = ExamSession.of(paper(), json.loads(json.dumps(session.as_json())))
    shown = {number: session.question(number, "en").given for number in range(1, session.total + 1)}
    assert {number: given for number, given in shown.items() if given is not None} == kept


def test_another_paper_s_answers_are_refused() -> None:
    with pytest.raises(CourseError, match="another paper"):
        ExamSession.of(paper("other"), sitting().as_json())


def test_what_is_shown_holds_no_key_no_id_and_no_seed() -> None:
    session = sitting()
    for language in languages():
        for number in range(1, session.total + 1):
            asked = session.paper.questions[number - 1]
            shown = json.dumps(asdict(session.question(number, language)), ensure_ascii=False)
            assert str(asked.variant.seed) not in shown
            assert asked.item.id not in shown
            offered = session.question(number, language)
            assert [each.place for each in offered.offered] == [str(n + 1) for n in range(len(offered.offered))]
            for option in asked.item.options:
                assert option.feedback[:40] not in shown


hostile = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=300),
    st.lists(
        st.one_of(st.text(max_size=3), st.integers(), st.none(), st.lists(st.text(max_size=2), max_size=2)), max_size=9
    ),
    st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=9),
)


@settings(max_examples=150, deadline=None)
@given(number=st.integers(-2, 60), answer=hostile)
def test_whatever_is_sent_is_an_answer_or_a_sentence(number: int, answer: Any) -> None:
    session = sitting()
    try:
        changed = session.answer(number, answer, now=START)
    except CourseError:
        return
    json.dumps(changed.as_json())
    assert changed.question(number, "en").given == answer
    assert all(grade is None or 0 <= grade.credit <= 1 for grade in changed.grades("en"))


def test_a_long_run_of_digits_and_blanks_is_read_at_once() -> None:
    import time

    session = sitting()
    number = next(n for n in range(1, session.total + 1) if session.question(n, "en").form == "number")
    begun = time.monotonic()
    for nasty in ("1" + " " * 198 + "x", "9," * 99, "1 " * 100, "1" * 200):
        try:
            session.answer(number, nasty, now=START)
        except CourseError:
            continue
    assert time.monotonic() - begun < 1


def test_explanations_are_given_after_the_end_or_withheld_by_the_policy() -> None:
    session = sitting()
    session = session.answer(1, wrong_of(session, 1), now=START).hand_in(now=START)
    shown = result(session, policy=RULES, language="nl", now=START)
    assert len(shown.explained) == session.total
    assert all(each.feedback and each.key for each in shown.explained)
    withheld = result(session, policy=replace(RULES, explanations=False), language="nl", now=START)
    assert withheld.explained == ()
    assert withheld.objectives == shown.objectives
    assert len(withheld.answered) == 1, "the analysis still gets its answers"


def test_quiz_and_practical_part_stand_apart() -> None:
    rules = exam_policy()
    assert rules.practical is not None
    from quiz.exam import begin

    session = begin(paper("lab", practical=rules.practical), now=START, minutes=60)
    for number, answer in answers(session).items():
        session = session.answer(number, answer, now=START)
    session = session.hand_in(now=START)
    first, second = session.paper.tasks
    none = result(session, policy=rules, language="en", now=START)
    assert none.quiz.passed
    assert none.practical is not None
    assert not none.practical.passed
    assert not none.passed
    done = [
        TaskResult(exercise=first.exercise, points=10, of=10),
        TaskResult(exercise=second.exercise, points=6, of=10),
        TaskResult(exercise="not-asked", points=10, of=10),
    ]
    both = result(session, policy=rules, language="en", now=START, tasks=done)
    assert both.practical is not None
    assert both.practical.share == pytest.approx(0.8)
    assert both.passed
    assert both.quiz.of == session.total
