"""What a lesson does with the learner's answers, in this process: predictions kept, a certificate shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import certificates
from shardwise import notebook as course
from shardwise import practice
from shardwise.asking import Asking
from shardwise.record import Record
from tests.shardwise import answers
from tests.shardwise.test_practice import UNIT, green
from translations import CourseError, language


@pytest.fixture
def displayed(record: Record, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the lesson shows, with its first cell run; places that are updated later are in it too."""
    shown: list[Any] = []

    class Place:
        def update(self, thing: Any) -> None:
            shown.append(thing)

    def display(thing: Any, display_id: bool = False) -> Place | None:
        shown.append(thing)
        return Place() if display_id else None

    monkeypatch.setattr(course, "display", display)
    course.open(UNIT, language="en")
    assert record.where
    return shown


def html(displayed: list[Any]) -> str:
    return "".join(each.data for each in displayed if hasattr(each, "data"))


def field(displayed: list[Any]) -> Asking:
    found = displayed[-1]
    assert isinstance(found, Asking)
    return found


@pytest.mark.parametrize(
    ("typed", "value", "measure"),
    [("9.9", 9.9, "MB"), ("9,9", 9.9, "MB"), ("٩٫٩", 9.9, "MB"), ("2 GiB", 2, "GiB"), ("80 Mbit", 80, "Mbit")],
)
def test_a_prediction_is_kept_as_it_was_meant(
    typed: str, value: float, measure: str, displayed: list[Any], record: Record
) -> None:
    course.predict("states", unit="MB")
    field(displayed).answer(typed)
    kept = record.prediction(unit=UNIT, question="states")
    assert kept is not None
    assert (kept.value, kept.measure) == (pytest.approx(value), measure)
    assert not field(displayed).state["wrong"]
    course.predict("states", unit="MB")
    assert field(displayed).state["value"], "an earlier prediction is shown again"


@pytest.mark.parametrize("typed", ["", "many", "3 apples", "4 s"])
def test_what_is_no_prediction_is_told_and_not_kept(typed: str, displayed: list[Any], record: Record) -> None:
    course.predict("states", unit="MB")
    field(displayed).answer(typed)
    assert field(displayed).state["wrong"]
    assert record.prediction(unit=UNIT, question="states") is None


def test_a_prediction_that_cannot_be_kept_is_told_where_it_was_typed(displayed: list[Any], tmp_path: Path) -> None:
    course.predict("states", unit="MB")
    (tmp_path / "data" / "record.db").unlink()
    (tmp_path / "data" / "record.db").mkdir()
    field(displayed).answer("3")
    assert field(displayed).state["wrong"]
    assert "record.db" in field(displayed).state["said"]


def test_the_comparison_uses_the_prediction_and_the_ranks_of_the_lab(displayed: list[Any], record: Record) -> None:
    record.predict(unit=UNIT, question="states", value=40, measure="MB")
    course._lesson.ranks = 4
    course.compare("states", formula=10_000_000, measured=10_000_000)
    assert "N = 4" in html(displayed)


def test_a_certificate_asks_for_the_name_and_shows_badge_and_files(
    displayed: list[Any], record: Record, learner: Path
) -> None:
    course.certificate()
    assert "finish its quiz first" in html(displayed)
    answers.take(practice.quiz(record, unit=UNIT, language=language("en")))
    green(record)
    course.certificate()
    asking = field(displayed)
    asking.answer("   ")
    assert asking.state["wrong"], "a certificate needs a name"
    asking.answer("Amal")
    assert not asking.state["wrong"], asking.state["said"]
    shown = html(displayed)
    assert '<div class="badge"><svg' in shown
    files = sorted((learner / "certificates").iterdir())
    assert {each.suffix for each in files} == {".pdf", ".png", ".svg", ".jwt"}
    for each in files:
        assert f'href="../certificates/{each.name}"' in shown
        assert certificates.verify(certificates.read(each)).verdict == "practice"
    course.certificate()
    assert field(displayed).state["value"] == "Amal"


def test_a_lesson_that_was_not_opened_says_so(monkeypatch: pytest.MonkeyPatch, displayed: list[Any]) -> None:
    monkeypatch.setattr(course, "_lesson", course._Lesson(language("en")))
    for call in (course.quiz, course.precheck, course.certificate):
        with pytest.raises(CourseError) as caught:
            call()
        assert caught.value.id == "shardwise.open-first"
    assert displayed is not None


def test_a_record_of_a_newer_course_does_not_close_the_lesson(
    displayed: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lesson can be read and run; what would have to be kept says why it isn't."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "data" / "record.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    monkeypatch.setattr(course, "_lesson", course._Lesson(language("en")))
    course.open(UNIT, language="nl")
    assert "9999" in html(displayed)
    course.table([[1]], header=["a"])
    with pytest.raises(CourseError) as caught:
        course.quiz()
    assert caught.value.id == "shardwise.record-newer"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("موتِّر واحد حجمه 2 GB", "موتِّر واحد حجمه \u20662 GB\u2069"),
        ("bf16 وحده", "\u2066bf16\u2069 وحده"),
        ("12 مثالًا", "12 مثالًا"),
        ("24 GB", "24 GB"),
    ],
)
def test_latin_runs_of_a_right_to_left_string_keep_their_order(text: str, shown: str) -> None:
    assert course._(text) == shown
