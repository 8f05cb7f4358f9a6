"""What learners say is wrong with a question. The report names item, version, seed and language; the learner sees none
of these, and the examiner sees no name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from shardwise.service.accounts import Person
from shardwise.service.attempts import paper_of
from shardwise.service.core import Core
from shardwise.service.store import Missing, audit
from shardwise.service.tables import Attempt, Report
from translations import CourseError

LONGEST = 2000
PER_ATTEMPT = 50


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A report as examiners read it."""

    id: str
    item: str
    version: int
    seed: int
    language: str
    said: str
    state: str
    made: datetime


def report(core: Core, person: Person, attempt: str, number: int, *, said: str, language: str) -> None:
    """Keeps a report on a question of the person's own attempt. Raises Missing for another's."""
    words = " ".join(said.split())[:LONGEST]
    with core.store.writing() as session:
        found = session.scalar(select(Attempt).where(Attempt.id == attempt, Attempt.account == person.id))
        if found is None:
            raise Missing("shardwise.service-no-such-attempt")
        questions = paper_of(session, found).questions
        if not 1 <= number <= len(questions):
            raise CourseError("quiz.exam-no-question", number=number, total=len(questions))
        kept = session.scalar(select(func.count()).where(Report.attempt == attempt)) or 0
        if kept >= PER_ATTEMPT:
            return
        asked = questions[number - 1].variant
        session.add(
            Report(
                attempt=attempt,
                item=asked.id,
                version=asked.version,
                seed=asked.seed,
                language=language,
                said=words,
                made=core.clock(),
            )
        )
        audit(session, actor=person.id, action="question-reported", about=attempt, number=number)


def reports(core: Core, *, limit: int = 200) -> tuple[Reported, ...]:
    """The latest first."""
    with core.store.reading() as session:
        found = session.scalars(select(Report).order_by(Report.made.desc()).limit(limit))
        return tuple(
            Reported(
                id=each.id,
                item=each.item,
                version=each.version,
                seed=each.seed,
                language=each.language,
                said=each.said,
                state=each.state,
                made=each.made,
            )
            for each in found
        )


def close(core: Core, person: Person, id: str) -> None:
    with core.store.writing() as session:
        found = session.get(Report, id)
        if found is None:
            raise Missing("shardwise.service-no-such-report")
        found.state = "closed"
        audit(session, actor=person.id, action="report-closed", about=id)
