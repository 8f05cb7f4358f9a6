"""Taking an exam: what is written stays, what is over is over, and nothing is told that a learner may not know."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import func, select

from shardwise.service import accounts, attempts, cohorts
from shardwise.service.core import Core
from shardwise.service.store import Conflict, Forbidden, Missing
from shardwise.service.tables import Answer, Attempt
from tests.shardwise.service.making import (
    QUESTIONS,
    Clock,
    begun,
    core_of,
    exam_folder,
    pass_exam,
    person,
    right,
    sitting,
)
from translations import CourseError


def test_an_exam_from_first_question_to_result(core: Core) -> None:
    who, _ = person(core)
    standing = begun(core, who)
    assert (standing.state, standing.questions, standing.answered) == ("open", QUESTIONS, ())
    for number in range(1, QUESTIONS + 1):
        attempts.answer(core, who, standing.id, number, right(core, standing.id, number) if number > 1 else "1")
    wrong = attempts.question(core, who, standing.id, 1)
    assert wrong.given == "1"
    assert attempts.hand_in(core, who, standing.id).state == "graded"
    found = attempts.outcome(core, who, standing.id, "nl")
    expected = 1.0 if right(core, standing.id, 1) == "1" else (QUESTIONS - 1) / QUESTIONS
    assert found.quiz["share"] == pytest.approx(expected)
    assert found.passed
    assert found.objectives[0]["text"].startswith("De model states")
    assert len(found.explained) == QUESTIONS


def test_what_a_learner_is_shown_holds_no_key_no_seed_and_no_item(core: Core) -> None:
    who, _ = person(core)
    standing = begun(core, who)
    with core.store.reading() as session:
        attempt = session.get_one(Attempt, standing.id)
        secrets = [attempt.seed, *(each["item"] for each in attempt.paper["questions"])]
        secrets += [str(each["seed"]) for each in attempt.paper["questions"]]
    shown = [asdict(attempts.question(core, who, standing.id, number)) for number in range(1, QUESTIONS + 1)]
    told = json.dumps([asdict(standing), shown], default=str)
    assert not [each for each in secrets if each in told]
    assert '"correct"' not in told
    assert "states" not in {each["place"] for question in shown for each in question["offered"]}


def test_an_answer_can_be_changed_and_taken_back_until_the_end_and_each_is_kept(core: Core, clock: Clock) -> None:
    who, _ = person(core)
    id = begun(core, who).id
    assert attempts.answer(core, who, id, 1, "1").revision == 1
    clock.on(minutes=1)
    assert attempts.answer(core, who, id, 1, "2").revision == 2
    assert attempts.answer(core, who, id, 1, "2").revision == 2  # the same again changes nothing
    assert attempts.question(core, who, id, 1).given == "2"
    assert attempts.answer(core, who, id, 1, None).revision == 3
    assert attempts.standing(core, who, id).answered == ()
    attempts.hand_in(core, who, id)
    for late in (lambda: attempts.answer(core, who, id, 1, "1"), lambda: attempts.submit(core, who, id, "x", b"")):
        with pytest.raises((Forbidden, Missing)):
            late()
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Answer)) == 3


@pytest.mark.parametrize("given", ["7", "", ["1"], {"1": "1"}, "states", 3, True])
def test_what_is_no_answer_is_refused_and_changes_nothing(core: Core, given: object) -> None:
    who, _ = person(core)
    id = begun(core, who).id
    with pytest.raises(CourseError, match="one"):
        attempts.answer(core, who, id, 1, given)  # type: ignore[arg-type]
    assert attempts.standing(core, who, id).answered == ()
    with pytest.raises(CourseError, match="no question 99"):
        attempts.answer(core, who, id, 99, "1")


def test_the_servers_clock_ends_an_attempt_and_what_was_confirmed_counts(core: Core, clock: Clock) -> None:
    who, _ = person(core)
    id = begun(core, who).id
    attempts.answer(core, who, id, 1, right(core, id, 1))
    clock.on(minutes=29, seconds=59)
    attempts.answer(core, who, id, 2, right(core, id, 2))
    clock.on(seconds=1)
    with pytest.raises(Forbidden, match="too late"):
        attempts.answer(core, who, id, 3, "1")
    with pytest.raises(Forbidden):
        attempts.question(core, who, id, 1)
    clock.on(hours=9)
    assert attempts.sweep(core) == 1
    assert attempts.sweep(core) == 0
    found = attempts.outcome(core, who, id)
    assert (found.quiz["won"], found.unanswered) == (2, QUESTIONS - 2)
    with core.store.reading() as session:
        kept = session.get_one(Attempt, id)
        assert kept.ended == kept.deadline


def test_extra_time_window_code_and_supervision_come_from_the_sitting(core: Core, clock: Clock) -> None:
    csv = "email;name;extra_percent;reference\namal@example.org;Amal;50;S-1\nnoor@example.org;Noor;0;S-2\n"
    cohort = cohorts.apply(core, None, "Class of today", csv).cohort
    (amal, _), (noor, _), (stranger, _) = (_known(core, each) for each in ("amal", "noor", "sam"))
    id = sitting(core, cohort=cohort, code="open sesame", supervised=True, days=1)
    with pytest.raises(Missing):
        attempts.start(core, stranger, id, code="open sesame")
    assert attempts.sittings_of(core, stranger, "en") == ()
    for wrong in ("", "open sesam", "OPEN SESAME"):
        with pytest.raises(Forbidden, match="not the code"):
            attempts.start(core, amal, id, code=wrong)
    long, plain = (attempts.start(core, each, id, code=" open sesame ") for each in (amal, noor))
    assert (long.deadline - long.begun).total_seconds() == 45 * 60
    assert (plain.deadline - plain.begun).total_seconds() == 30 * 60
    assert long.supervised
    (seen,) = attempts.sittings_of(core, amal, "nl")
    assert (seen.needs_code, seen.supervised, seen.minutes, seen.title) == (True, True, 45, "Een kort examen")
    clock.on(hours=23, minutes=50)
    late, _ = _known(core, "late", csv_cohort=cohort)
    last = attempts.start(core, late, id, code="open sesame")
    assert (last.deadline - last.begun).total_seconds() == 10 * 60  # the window ends it
    clock.on(hours=1)
    with pytest.raises(Forbidden, match="closed"):
        attempts.start(core, amal, id, code="open sesame")


def _known(core: Core, name: str, *, csv_cohort: str | None = None) -> tuple[Any, str]:
    """Somebody whom the CSV named, or nobody knew, signed in by a link."""
    from shardwise.service.tables import Account

    email = f"{name}@example.org"
    if csv_cohort:
        cohorts.apply(core, None, "Class of today", f"email,name\n{email},{name}\n")
    with core.store.writing() as session:
        account = session.scalar(select(Account).where(Account.email == email))
        if account is None:
            account = Account(email=email, made=core.clock())
            session.add(account)
            session.flush()
        signed = accounts.enter(session, account, provider="email", settings=core.settings, at=core.clock(), wanted={})
    with core.store.reading() as session:
        return accounts.person_of(session, signed.token, core.clock()), signed.token


def test_attempts_and_the_wait_between_them_are_the_policys(core: Core, clock: Clock) -> None:
    who, _ = person(core)
    id = sitting(core)
    first = attempts.start(core, who, id)
    assert attempts.start(core, who, id).id == first.id  # while one is open, that one
    attempts.hand_in(core, who, first.id)
    with pytest.raises(Forbidden, match="begin: 24"):
        attempts.start(core, who, id)
    clock.on(hours=24)
    second = attempts.start(core, who, id)
    assert second.number == 2
    with core.store.reading() as session:
        one, two = (
            {each["item"] for each in session.get_one(Attempt, each).paper["questions"]}
            for each in (first.id, second.id)
        )
    assert not one & two  # with twelve items for six questions nothing is asked twice
    clock.on(hours=48)
    with pytest.raises(Forbidden, match="all attempts"):
        attempts.start(core, who, id)
    assert attempts.start(core, who, sitting(core, attempts=1)).number == 3  # an examiner gave one more


def test_a_sittings_attempts_are_another_persons_business_to_nobody(core: Core) -> None:
    who, _ = person(core)
    other, _ = person(core, "noor@example.org")
    id = begun(core, who).id
    for ask in (attempts.standing, attempts.hand_in, attempts.outcome):
        with pytest.raises(Missing):
            ask(core, other, id)
    with pytest.raises(Missing):
        attempts.question(core, other, id, 1)
    with pytest.raises(Missing):
        attempts.answer(core, other, id, 1, "1")
    with pytest.raises(Conflict):
        attempts.outcome(core, who, id)  # no result while it is open


def test_two_tabs_that_begin_at_once_share_one_attempt(core: Core) -> None:
    who, _ = person(core)
    id = sitting(core)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: attempts.start(core, who, id, key=f"key-{n:08}").id, range(8)))
    assert len(set(found)) == 1
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Attempt)) == 1


def test_two_tabs_that_answer_at_once_leave_one_order_and_the_last_one_counts(core: Core) -> None:
    who, _ = person(core)
    id = begun(core, who).id
    with ThreadPoolExecutor(6) as pool:
        written = list(pool.map(lambda n: attempts.answer(core, who, id, 1, str(n % 3 + 1)), range(18)))
    with core.store.reading() as session:
        rows = session.scalars(select(Answer).order_by(Answer.revision)).all()
    assert [each.revision for each in rows] == list(range(1, len(rows) + 1))
    assert max(each.revision for each in written) == len(rows)
    assert all(one.given != two.given for one, two in pairwise(rows))


def test_a_key_does_a_thing_once_and_stands_for_one_thing(core: Core) -> None:
    who, _ = person(core)
    id = begun(core, who).id
    first = attempts.answer(core, who, id, 1, "1", key="the-same-key")
    attempts.answer(core, who, id, 1, "2")
    assert attempts.answer(core, who, id, 1, "1", key="the-same-key") == first  # told again, not done again
    assert attempts.question(core, who, id, 1).given == "2"
    with pytest.raises(Conflict, match="another request"):
        attempts.answer(core, who, id, 1, "3", key="the-same-key")


def test_a_service_that_starts_again_goes_on_where_it_was(tmp_path: Path, clock: Clock) -> None:
    with closing(core_of(tmp_path, clock=clock)) as core:
        who, _ = person(core)
        id = begun(core, who).id
        attempts.answer(core, who, id, 2, "3")
    attempts._papers = attempts._Papers()  # what one process remembers is gone with it
    clock.on(minutes=5)
    with closing(core_of(tmp_path, clock=clock)) as core:
        found = attempts.standing(core, who, id)
        assert (found.answered, found.seconds_left) == ((2,), 25 * 60)
        assert attempts.question(core, who, id, 2).given == "3"


def test_an_edited_bank_never_changes_a_paper_that_was_drawn(tmp_path: Path, clock: Clock) -> None:
    with closing(core_of(tmp_path, clock=clock)) as core:
        who, _ = person(core)
        id = begun(core, who).id
        before = [asdict(attempts.question(core, who, id, number)) for number in range(1, QUESTIONS + 1)]
        keys = [right(core, id, number) for number in range(1, QUESTIONS + 1)]
    bank = tmp_path / "exams" / "bank" / "04-zero-1.yaml"
    content = yaml.safe_load(bank.read_text(encoding="utf-8"))
    for item in content["items"]:
        item["version"], item["text"] = 2, "Edited?"
        item["options"][0].pop("correct")
        item["options"][1]["correct"] = True
    bank.write_text(yaml.safe_dump(content), encoding="utf-8")
    attempts._papers = attempts._Papers()
    with closing(core_of(tmp_path, clock=clock)) as core:
        assert [asdict(attempts.question(core, who, id, n)) for n in range(1, QUESTIONS + 1)] == before
        for number, key in enumerate(keys, 1):
            attempts.answer(core, who, id, number, key)
        attempts.hand_in(core, who, id)
        assert attempts.outcome(core, who, id).quiz["share"] == 1


def test_an_examiner_gives_more_time_within_the_window(core: Core, clock: Clock) -> None:
    who, _ = person(core)
    examiner, _ = person(core, "ex@example.org", role="examiner")
    id = begun(core, who, days=1 / 24).id
    clock.on(minutes=20)
    assert attempts.extend(core, examiner, id, 10).seconds_left == 20 * 60
    assert attempts.extend(core, examiner, id, 600).seconds_left == 40 * 60  # the sitting's own end
    clock.on(minutes=40)
    with pytest.raises(Conflict):
        attempts.extend(core, examiner, id, 10)


def test_a_bank_that_is_too_small_or_public_in_truth_opens_no_sitting(tmp_path: Path, clock: Clock) -> None:
    exam_folder(tmp_path / "exams", items=QUESTIONS - 1)
    with closing(core_of(tmp_path, clock=clock)) as core, pytest.raises(CourseError, match="too few"):
        sitting(core)


def test_a_private_bank_that_repeats_the_public_one_is_refused(tmp_path: Path, clock: Clock) -> None:
    from quiz.items import BANK

    exam_folder(tmp_path / "exams")
    bank = tmp_path / "exams" / "bank" / "04-zero-1.yaml"
    content = yaml.safe_load((BANK / "04-zero-1.yaml").read_text(encoding="utf-8"))
    for item in content["items"]:
        item["id"] = f"renamed-{item['id']}"
    bank.write_text(yaml.safe_dump(content), encoding="utf-8")
    with closing(core_of(tmp_path, clock=clock)) as core, pytest.raises(CourseError, match="anybody can read"):
        sitting(core)


def test_passing_is_passing(core: Core) -> None:
    who, _ = person(core)
    assert pass_exam(core, who).passed


def test_a_supervised_exam_is_begun_under_a_name_that_stays(core: Core) -> None:
    """Else a certificate that says "supervised" could be given to whoever did not sit there."""
    who, _ = person(core, name="")
    with pytest.raises(Conflict, match="name"):
        begun(core, who, supervised=True)
    accounts.change(core, who, name="Amal Hadad")
    accounts.change(core, who, name="Amal Haddad")
    begun(core, who, supervised=True)
    with pytest.raises(CourseError, match="supervised"):
        accounts.change(core, who, name="Somebody Else")
    accounts.change(core, who, name="Amal Haddad", language="ar")
    other, _ = person(core, "noor@example.org", name="Noor")
    begun(core, other)
    accounts.change(core, other, name="Noor Bakker")
