"""A unit's way to its certificate, with the real quiz, checks and certificates: nothing counts that wasn't shown."""

from __future__ import annotations

from pathlib import Path

import pytest

import certificates
from labs.exercises import exercises
from quiz import units as banks
from quiz.policy import policy
from shardwise import practice
from shardwise.progress import overview
from shardwise.record import Record
from shardwise.units import units
from tests.shardwise import answers
from translations import CourseError, language

UNIT = "04-zero-1"
ENGLISH = language("en")


def green(record: Record) -> None:
    """Verdicts for all the unit's exercises, as the checks give them."""
    for each in exercises():
        if each.unit == UNIT:
            record.verdict(
                unit=UNIT,
                exercise=each.id,
                passed=True,
                points=each.of,
                of=each.of,
                failed_at=None,
                source="",
                language="en",
            )


def test_a_quiz_goes_on_where_it_was_left_and_a_new_one_asks_anew(record: Record) -> None:
    first = practice.quiz(record, unit=UNIT, language=ENGLISH)
    seeds = [each.seed for each in first.variants]
    first.answer(answers.find(first, right=True))
    again = practice.quiz(Record.open(), unit=UNIT, language=language("ar"))
    assert [each.seed for each in again.variants] == seeds
    assert again.number == 2
    answers.take(again, right=False)
    [attempt] = record.attempts(UNIT)
    assert attempt.score == pytest.approx(1 / first.total)
    fresh = practice.quiz(record, unit=UNIT, language=ENGLISH)
    assert fresh.number == 1
    assert [each.seed for each in fresh.variants] != seeds


def test_mastery_needs_one_good_quiz_and_every_check(record: Record) -> None:
    assert not record.progress(UNIT).started
    answers.take(practice.quiz(record, unit=UNIT, language=ENGLISH), right=False)
    progress = record.progress(UNIT)
    assert (progress.share, progress.quiz_best, progress.attempts) == (0.0, 0.0, 1)
    with pytest.raises(CourseError) as caught:
        record.evidence(UNIT, holder="Amal", language="en")
    assert caught.value.id == "shardwise.record-not-mastered"

    answers.take(practice.quiz(record, unit=UNIT, language=ENGLISH))
    progress = record.progress(UNIT)
    assert progress.share == 1.0
    assert not progress.mastered
    with pytest.raises(CourseError) as caught:
        record.evidence(UNIT, holder="Amal", language="en")
    assert caught.value.id == "shardwise.record-checks-open"

    green(record)
    assert record.progress(UNIT).mastered
    answers.take(practice.quiz(record, unit=UNIT, language=ENGLISH), right=False)
    assert record.progress(UNIT).mastered, "a worse try later takes nothing away"


def test_two_halves_of_two_quizzes_are_not_one(record: Record) -> None:
    """Objectives count within one try, so that guessing on until each came right once is not mastery."""
    for right in (True, False):
        session = practice.quiz(record, unit=UNIT, language=ENGLISH)
        objectives = sorted({each.item.objective for each in session.variants})
        half = set(objectives[: len(objectives) // 2])
        while not session.finished:
            session.answer(answers.find(session, right=(session.variant.item.objective in half) is right))
            session.next()
    assert record.progress(UNIT).share < policy().mastery


def test_recall_and_precheck_count_toward_nothing(record: Record) -> None:
    answers.take(practice.precheck(record, unit=UNIT, language=ENGLISH))
    objective = practice.precheck(record, unit=UNIT, language=ENGLISH).variants[0].item.objective
    items = practice.of_objective(record, unit=UNIT, objective=objective)
    assert items
    answers.take(practice.recall(record, unit=UNIT, language=ENGLISH, items=items))
    assert record.summary().answers >= policy().precheck
    assert not record.progress(UNIT).started


def test_the_certificate_of_a_mastered_unit_verifies_in_every_form(record: Record, tmp_path: Path) -> None:
    answers.take(practice.quiz(record, unit=UNIT, language=language("ar")))
    green(record)
    files = practice.certificate(
        record, unit=UNIT, holder="أمل حدّاد", language=language("ar"), folder=tmp_path / "certificates"
    )
    for path in files.paths:
        found = certificates.verify(certificates.read(path))
        assert found.verdict == "practice", path.name
        assert found.credential is not None
        assert found.credential["id"] == files.id
    [kept] = record.certificates(UNIT)
    assert (kept.id, kept.name, record.name) == (files.id, "أمل حدّاد", "أمل حدّاد")
    assert "<svg" in files.badge


def test_the_map_goes_through_every_unit_and_says_what_is_next(record: Record) -> None:
    shown = overview(record, ENGLISH)
    assert [each.unit.id for each in shown.stops] == [each.id for each in units()]
    assert {need for each in units() for need in each.needs} <= {each.id for each in units()}
    for each in shown.stops:
        assert (each.progress is None) == (each.state == "planned")
    practice.quiz(record, unit=UNIT, language=ENGLISH)
    assert overview(record, ENGLISH).next == shown.next, "an untouched try is no beginning"
    answers.take(practice.quiz(record, unit=UNIT, language=ENGLISH), right=False)
    opened = {each.unit.id for each in shown.stops if each.state != "planned"}
    assert overview(record, ENGLISH).next == (UNIT if UNIT in opened else shown.next)
    assert set(banks()) <= {each.id for each in units()}
