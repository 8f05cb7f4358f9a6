"""The ways through the course and the map of its units, from a record as a learner has it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from quiz import Session, items
from quiz.policy import policy
from quiz.session import precheck
from shardwise import practice, unit_map
from shardwise.progress import overview
from shardwise.record import Record
from shardwise.tracks import Track, tracks
from shardwise.units import units
from tests.shardwise import answers
from translations import Language, language, languages, translator

ENGLISH = language("en")
RELEASED = [each for each in languages() if each.released]
KNOWN = "02-data-parallel"


def track(id: str) -> Track:
    return next(each for each in tracks() if each.id == id)


def answer(session: Session, *, wrong: int = 0) -> None:
    """Answers every question of a session right, but for the last few."""
    while not session.finished:
        session.answer(answers.find(session, right=session.number <= session.total - wrong))
        session.next()


def test_the_three_ways_are_there_and_need_only_what_they_hold() -> None:
    assert [each.id for each in tracks()] == ["full", "fast", "lead"]
    assert track("full").units == track("fast").units == tuple(each.id for each in units())
    lead = track("lead").units
    assert list(lead) == sorted(lead)
    assert len(lead) < len(units())


@pytest.mark.parametrize("wrong", [0, 1])
def test_first_questions_all_right_shorten_the_fast_track_only(record: Record, wrong: int) -> None:
    before = {each.id: [stop.unit.id for stop in each.left(overview(record, ENGLISH))] for each in tracks()}
    answer(practice.precheck(record, unit=KNOWN, language=ENGLISH), wrong=wrong)
    shown = overview(record, ENGLISH)
    after = {each.id: [stop.unit.id for stop in each.left(shown)] for each in tracks()}
    assert before["full"] == after["full"]
    assert before["lead"] == after["lead"]
    assert set(before["fast"]) - set(after["fast"]) == (set() if wrong else {KNOWN})
    stop = next(each for each in shown.stops if each.unit.id == KNOWN)
    assert (stop.known, stop.state) == (not wrong, "open"), "known is not mastered, and no try at the quiz"


def test_the_last_answer_to_a_first_question_counts(record: Record) -> None:
    answer(practice.precheck(record, unit=KNOWN, language=ENGLISH), wrong=1)
    answer(practice.precheck(record, unit=KNOWN, language=ENGLISH))
    assert set(record.recalled(KNOWN)) == set(precheck(KNOWN, learner=record.learner))
    assert all(record.recalled(KNOWN).values())
    assert len(record.recalled(KNOWN)) == policy().precheck < len(items(KNOWN))


def test_each_way_goes_on_with_a_unit_that_can_be_opened(record: Record) -> None:
    shown = overview(record, ENGLISH)
    for each in tracks():
        following = each.next(shown)
        assert following is not None
        assert following.unit.open(ENGLISH)
        assert following.unit.id in each.units


def test_no_box_of_the_map_covers_another_and_each_stands_below_what_it_needs() -> None:
    placed = unit_map.places(units())
    assert set(placed) == {each.id for each in units()}
    for row in {each.row for each in placed.values()}:
        inside = sorted((each for each in placed.values() if each.row == row), key=lambda each: each.start)
        assert inside[0].start >= 0
        assert inside[-1].start + inside[-1].width <= unit_map.WIDTH
        assert all(left.start + left.width < right.start for left, right in pairwise(inside))
    for each in units():
        assert all(placed[need].row < placed[each.id].row for need in each.needs)


@pytest.mark.parametrize("each", RELEASED, ids=lambda each: str(each.code))
def test_the_map_says_the_state_of_every_unit_in_words(each: Language, record: Record) -> None:
    answer(practice.precheck(record, unit=KNOWN, language=each))
    shown, text = overview(record, each), translator(each)
    html = unit_map.html(shown, text)
    boxes = re.findall(r'<li class="([^"]*)" style=.*?</li>', html)
    assert len(boxes) == len(units())
    for stop, kind in zip(shown.stops, boxes, strict=True):
        state = "known" if stop.unit.id == KNOWN else stop.state
        assert kind.split()[0] == state
        assert ("next" in kind) == (stop.unit.id == shown.next)
    for words in re.findall(r'<i class="unseen">, (.*?)</i>', html):
        assert words in {text(f"shardwise.state-{stop.state}") for stop in shown.stops} | {
            text("shardwise.state-known")
        }
    assert html.count("marker-end") == sum(len(unit.needs) for unit in units())
