"""Review from the learner's record: in the notebook, in the terminal, on the home page; misconceptions met again."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from sqlalchemy import update
from sqlalchemy.orm import Session as Database

from quiz import Session, items, policy
from quiz.notebook import Quiz
from shardwise import cli, home, notebook, practice
from shardwise.record import Record
from shardwise.record.tables import Answer
from tests.shardwise import answers
from translations import formats, language

ENGLISH, UNIT = language("en"), "04-zero-1"


def now() -> datetime:
    """Asked for anew each time: a run of all tests may go on past midnight."""
    return datetime.now(UTC)


def some_answered(record: Record, *, right: bool = True, unit: str = UNIT, count: int = 3) -> list[str]:
    session = practice.recall(record, unit=unit, language=ENGLISH, items=[each.id for each in items(unit)[:count]])
    answers.take(session, right=right)
    return [each.id for each in session.variants]


def a_day_passes(record: Record, days: int = 1) -> None:
    """Moves what is in the record into the past."""
    with Database(record._engine) as database, database.begin():
        for row in database.query(Answer).all():
            database.execute(update(Answer).where(Answer.id == row.id).values(made=row.made - timedelta(days=days)))


def test_what_was_answered_is_asked_again_of_every_unit_with_new_numbers(record: Record) -> None:
    assert practice.review(record, language=ENGLISH) is None
    asked = some_answered(record) + some_answered(record, unit="01-one-gpu")
    assert practice.review(record, language=ENGLISH) is None, "not on the same day"
    waiting = practice.waiting(record)
    assert (waiting.due, waiting.next) == (0, (now() + timedelta(days=1)).astimezone().date())
    a_day_passes(record)
    assert practice.waiting(record).units == ("01-one-gpu", UNIT)
    session = practice.review(record, language=ENGLISH)
    assert session is not None
    assert sorted(each.id for each in session.variants) == sorted(asked)
    old = {each["item"]: each["seed"] for each in record.all_answers()}
    assert all(each.seed != old[each.id] for each in session.variants)
    session.answer(answers.find(session, right=True))
    again = practice.review(record, language=ENGLISH)
    assert again is not None
    assert again.total == session.total - 1, "left half-way, it goes on where it was"
    assert {each.seed for each in again.variants} == {each.seed for each in session.variants[1:]}
    answers.take(again)
    assert practice.review(record, language=ENGLISH) is None
    kept = record.all_answers()[-1]
    assert kept["attempt"] is None
    assert {each["unit"] for each in record.all_answers()} == {UNIT, "01-one-gpu"}
    assert not record.attempts(UNIT), "a review is no try at a quiz"


def test_at_most_so_many_at_a_time(record: Record) -> None:
    some_answered(record, count=policy().review_at_most + 3)
    a_day_passes(record, 2)
    session = practice.review(record, language=ENGLISH)
    assert session is not None
    assert session.total == policy().review_at_most
    assert practice.waiting(record).due == policy().review_at_most + 3


def test_the_home_page_tells_what_is_due_and_only_then(record: Record) -> None:
    some_answered(record)
    for code in ("en", "nl", "ar"):
        assert "3" not in home._review(record, language_text(code))
    a_day_passes(record)
    for code in ("en", "nl", "ar"):
        said = home._review(record, language_text(code))
        assert "3" in said
        assert said in home.html(record, language(code))


def language_text(code: str) -> Any:
    from translations import translator

    return translator(code)


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch, record: Record) -> list[Any]:
    assert record.where
    shown: list[Any] = []

    class Place:
        def update(self, thing: Any) -> None:
            shown.append(thing)

    def display(thing: Any, **_options: Any) -> Any:
        shown.append(thing)
        return Place()

    monkeypatch.setattr(notebook, "display", display)
    monkeypatch.setattr(notebook, "_lesson", notebook._Lesson(ENGLISH, "home"))
    return shown


def test_in_a_notebook_it_is_a_quiz_or_a_word_on_when_there_will_be_one(record: Record, displayed: list[Any]) -> None:
    notebook.review()
    assert "once you have answered some" in displayed[-1].data
    some_answered(record)
    notebook.review()
    assert formats.date((now() + timedelta(days=1)).astimezone().date(), ENGLISH) in displayed[-1].data
    a_day_passes(record)
    notebook.review()
    [widget] = [each for each in displayed if isinstance(each, Quiz)]
    while not widget.session.finished:
        widget.answer(answers.find(widget.session, right=True))
        widget.next()
    assert "3 of 3" in widget.state["ending"]
    assert widget.state["profile"] == []
    widget.close()


def test_in_the_terminal(record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["quiz", "review"]) == 0
    some_answered(record, count=2)
    a_day_passes(record)
    session = practice.review(record, language=ENGLISH)
    assert session is not None
    lines = []
    for each in session.variants:
        from quiz.grading import right_answer

        right = right_answer(each)
        lines.append(str(right) if isinstance(right, str) else "1")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert cli.run(["quiz", "review", "--lang", "en"]) == 0
    assert "2 of 2" in capsys.readouterr().out


def wrong_by(session: Session, idea: str) -> Any:
    """The wrong choice of the current question that stands for an idea; None where it has none."""
    return next((each.key for each in session.variant.item.options if each.misconception == idea), None)


def test_a_misconception_met_twice_on_different_days_leads_to_its_lab(record: Record) -> None:
    idea = "more-gpus-always-less-memory"
    asked = "zero-1-twice-the-ranks"
    first = practice.recall(record, unit=UNIT, language=ENGLISH, items=[asked])
    first.answer(wrong_by(first, idea))
    [lead] = first.leads()
    assert (lead.id, lead.count, lead.repeated) == (idea, 1, False)
    a_day_passes(record)
    second = practice.review(record, language=ENGLISH)
    assert second is not None
    second.answer(wrong_by(second, idea))
    [lead] = second.leads()
    assert (lead.count, lead.repeated, lead.unit) == (2, True, UNIT)
    assert "zero" in lead.labs
    assert record.misconceptions() == {idea: 2}
    quiz = Quiz.of(second)
    quiz.next()
    [note] = quiz.state["notes"]
    assert note["lesson"] == UNIT
    assert "shardwise lab run zero" in note["more"][0]
    quiz.close()
    from shardwise import shown

    assert f'href="{UNIT}.ipynb"' in shown.result(quiz.state)


def test_experts_skip_a_unit_by_its_first_questions(record: Record) -> None:
    from shardwise.progress import overview

    answers.take(practice.precheck(record, unit=UNIT, language=ENGLISH))
    [stop] = [each for each in overview(record, ENGLISH).stops if each.unit.id == UNIT]
    assert stop.known
    assert stop.standing == "known"


def test_every_repeated_misconception_has_somewhere_to_go() -> None:
    from quiz import misconceptions
    from quiz.session import lead
    from shardwise.units import units

    known = {each.id for each in units()}
    for id in misconceptions():
        found = lead(id, 2, ENGLISH)
        assert found.unit in known
        assert found.labs or found.exercises or found.unit == "15-planning", f"{id}: its lesson is still to come"


def test_a_report_is_kept_in_the_workspace(record: Record, displayed: list[Any]) -> None:
    from shardwise import workspace

    some_answered(record)
    a_day_passes(record)
    notebook.review()
    [widget] = [each for each in displayed if isinstance(each, Quiz)]
    widget.report("Something is off.")
    [path] = (workspace.folder() / "reports").iterdir()
    assert "Something is off." in path.read_text(encoding="utf-8")
    assert f"reports/{path.name}" in widget.state["reported"]["kept"]
    widget.close()
    InteractiveShell.clear_instance()
