"""Where the rooms meet the record: a quiz that is kept, a check that is kept, a certificate that is kept.

Command line and notebook do these three things through here, so that they never disagree.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from shardwise.record.store import Record
from translations import Language

if TYPE_CHECKING:
    from labs.exercises import Verdict
    from quiz import Answered, Session
    from quiz.review import Met


def quiz(record: Record, *, unit: str, language: Language) -> Session:
    """The learner's open try at a unit's quiz, or a new one; the last answer closes the try."""
    from quiz import Session

    attempt = record.attempt(unit=unit, language=language.code)
    session: Session

    def keep(answered: Answered) -> None:
        _keep(record, answered, attempt=attempt.id)
        credits = {each.item: each.credit for each in (*session.answered, answered)}
        if len(credits) == session.total:
            record.finish(attempt.id, score=sum(credits.values()) / session.total)

    session = Session(
        unit,
        language,
        seed=str(attempt.seed),
        attempt=attempt.number,
        on_answer=keep,
        resume=[_answered(each, number=attempt.number) for each in record.answers(attempt=attempt.id)],
        met=record.misconceptions(but=attempt.id),
    )
    if session.finished and session.total:
        record.finish(attempt.id, score=sum(each.credit for each in session.answered) / session.total)
        return quiz(record, unit=unit, language=language)
    return session


def recall(record: Record, *, unit: str, language: Language, items: Sequence[str]) -> Session:
    """A few questions outside the quiz: kept in the record, never counted toward mastery."""
    from quiz import Session

    return Session(
        unit,
        language,
        seed=record.learner,
        attempt=0,
        on_answer=lambda answered: _keep(record, answered, attempt=None),
        items=items,
        met=record.misconceptions(),
    )


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What is due to be asked again.

    How many questions, of which units, and the next day on which there is some more.
    """

    due: int
    units: tuple[str, ...]
    next: date | None


def waiting(record: Record, *, now: datetime | None = None) -> Waiting:
    """What is due for review today, in the learner's own time zone."""
    from quiz import review

    history, today = _met(record), _today(now)
    found = review.due(history, today=today)
    return Waiting(
        due=len(found),
        units=tuple(sorted({each.unit for each in found})),
        next=review.coming(history, today=today),
    )


def review(record: Record, *, language: Language, now: datetime | None = None) -> Session | None:
    """The questions that are due, of any unit and at most as many as the policy says; None where nothing is.

    Their numbers are new each day. They are kept in the record and count toward no quiz; one answered is due no more,
    so that a review left half-way goes on where it was.
    """
    from quiz import Session, policy
    from quiz.review import due

    today = _today(now)
    found = due(_met(record), today=today)[: policy().review_at_most]
    if not found:
        return None
    return Session(
        "",
        language,
        seed=f"{record.learner} review",
        attempt=today.toordinal(),
        on_answer=lambda answered: _keep(record, answered, attempt=None),
        items=[each.item for each in found],
        met=record.misconceptions(),
    )


def _met(record: Record) -> tuple[Met, ...]:
    from quiz.review import Met

    return tuple(
        Met(item=each.item, day=each.made.astimezone().date(), correct=each.correct) for each in record.history()
    )


def _today(now: datetime | None) -> date:
    return (now or datetime.now(UTC)).astimezone().date()


RECALLED = 2
"""Questions between two sections."""


def of_objective(record: Record, *, unit: str, objective: str) -> tuple[str, ...]:
    """The ids of a few questions on an objective, the same each time for the same learner."""
    from quiz import items, seed_of

    asked = [each.id for each in items(unit) if each.objective == objective]
    asked.sort(key=lambda id: seed_of(learner=record.learner, attempt=0, item=id))
    return tuple(asked[:RECALLED])


def precheck(record: Record, *, unit: str, language: Language) -> Session:
    """The questions before a unit."""
    from quiz.session import precheck

    return recall(record, unit=unit, language=language, items=precheck(unit, learner=record.learner))


def check(record: Record, *, id: str, source: str, language: Language) -> Verdict:
    """The verdict on a source, kept in the record (of the source only its hash)."""
    from labs.exercises import check, exercise

    unit = exercise(id).unit
    verdict = check(id, source, language)
    record.verdict(
        unit=unit,
        exercise=id,
        passed=verdict.passed,
        points=verdict.points,
        of=verdict.of,
        failed_at=verdict.failed_at,
        source=source,
        language=language.code,
    )
    return verdict


@dataclass(frozen=True, kw_only=True)
class Files:
    """A certificate on disk. `badge` is the SVG's markup, to be shown at once."""

    id: str
    pdf: Path
    png: Path
    svg: Path
    jwt: Path
    badge: str

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.pdf, self.png, self.svg, self.jwt)


def certificate(record: Record, *, unit: str, holder: str, language: Language, folder: Path) -> Files:
    """Issues the practice certificate of a mastered unit, keeps it, and writes it to `folder` in its four forms.

    Raises CourseError where the unit is not mastered, the name can't stand on a certificate, or the disk refuses.
    """
    from certificates import issue, keys, render
    from shardwise.record import database

    evidence = record.evidence(unit, holder=holder, language=language.code)
    issued = issue(evidence, key=keys.parse(record.key(lambda: keys.create().pem())), language=language)
    record.keep_certificate(id=issued.id, unit=unit, jwt=issued.jwt, name=holder, language=language.code)
    record.rename(holder)
    contents = {
        "pdf": render.pdf(issued),
        "png": render.png(issued),
        "svg": render.svg(issued),
        "jwt": render.jwt(issued),
    }
    stem = f"{unit}-{issued.id[-8:]}"
    paths: dict[str, Path] = {}
    with database.told(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        for kind, content in contents.items():
            paths[kind] = folder / f"{stem}.{kind}"
            scratch = folder / f".{stem}.{kind}.{os.getpid()}"
            scratch.write_bytes(content)
            scratch.replace(paths[kind])
    return Files(id=issued.id, badge=contents["svg"].decode(), **paths)


def _keep(record: Record, answered: Answered, *, attempt: str | None) -> None:
    record.answer(
        unit=answered.unit,
        item=answered.item,
        version=answered.version,
        seed=answered.seed,
        language=answered.language,
        form=answered.form,
        given=answered.answer,
        correct=answered.correct,
        credit=answered.credit,
        misconception=answered.misconception,
        objective=answered.objective,
        seconds=answered.seconds,
        attempt=attempt,
    )


def _answered(kept: dict[str, object], *, number: int) -> Answered:
    from quiz import Answered

    fields = ("unit", "item", "version", "seed", "objective", "form", "language", "correct", "credit", "misconception")
    return Answered(
        attempt=number,
        answer=kept["given"],  # type: ignore[arg-type]
        seconds=kept["seconds"],  # type: ignore[arg-type]
        **{field: kept[field] for field in fields},  # type: ignore[arg-type]
    )
