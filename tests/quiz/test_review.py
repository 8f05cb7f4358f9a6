"""When a question comes back: after 1, 3 and 7 days, right answers climb, a wrong one begins again."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quiz import items, policy, units
from quiz.review import Due, Met, coming, due

DAY = date(2030, 1, 7)
ITEM = items("04-zero-1")[0]


def after(days: int) -> date:
    return DAY + timedelta(days=days)


def met(day: int, *, correct: bool = True, item: str = ITEM.id) -> Met:
    return Met(item=item, day=after(day), correct=correct)


def days_asked(answers: dict[int, bool], *, until: int = 40) -> list[int]:
    """The days on which a learner who looks in every day is asked, answering as told (right where nothing is told)."""
    history, asked = [met(0)], []
    for day in range(1, until):
        if due(history, today=after(day)):
            asked.append(day)
            history.append(met(day, correct=answers.get(day, True)))
    return asked


def test_the_days_are_those_of_the_policy_after_each_right_answer() -> None:
    assert policy().review_days == (1, 3, 7)
    assert days_asked({}) == [1, 4, 11], "1 day, then 3, then 7, and then never again"


def test_a_wrong_answer_begins_again() -> None:
    assert days_asked({4: False}) == [1, 4, 5, 8, 15]
    assert due([met(0, correct=False)], today=after(1))[0].lapsed


def test_cramming_does_not_count_and_coming_late_does() -> None:
    crammed = [met(0), met(0), met(0)]
    assert [each.step for each in due(crammed, today=after(1))] == [0]
    assert due([met(0), met(9)], today=after(11)) == ()
    assert due([met(0), met(9)], today=after(12))[0].step == 1
    assert coming([met(0), met(9)], today=after(10)) == after(12)
    assert coming([], today=DAY) is None


def test_wrong_ones_come_first_and_ideas_mix() -> None:
    bank = items("04-zero-1")
    first, second, third = (next(i for i in bank if i.objective == o) for o in dict.fromkeys(i.objective for i in bank))
    twin = next(i for i in bank if i.objective == first.objective and i.id != first.id)
    history = [met(0, item=each.id) for each in (first, twin, second)] + [met(2, item=third.id, correct=False)]
    asked = [each.item for each in due(history, today=after(5))]
    assert asked[0] == third.id
    assert asked[-1] in (first.id, twin.id), "the second of one objective comes after the first of the others"
    assert len(asked) == 4


def test_a_question_that_is_no_more_is_not_asked() -> None:
    assert due([met(0, item="long-gone")], today=after(9)) == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 5)), max_size=40))
def test_what_is_due_is_never_asked_before_its_day_nor_more_than_once(steps: list[tuple[int, bool, int]]) -> None:
    pool = [each.id for each in items(units()[0])[:6]]
    day, history = 0, []
    for wait, correct, which in steps:
        day += wait
        history.append(met(day, item=pool[which], correct=correct))
    found: tuple[Due, ...] = due(history, today=after(day))
    assert len({each.item for each in found}) == len(found)
    for each in found:
        last = max(one.day for one in history if one.item == each.item)
        assert each.since > last or each.since <= after(day)
        assert each.since >= min(one.day for one in history if one.item == each.item) + timedelta(days=1)
        answered_today = [one for one in history if one.item == each.item and one.day == after(day)]
        assert not answered_today or each.since <= after(day)
        if any(not one.correct for one in answered_today):
            raise AssertionError("a wrong answer of today is asked tomorrow, not today")
