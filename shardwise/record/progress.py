"""How far a learner is in a unit, by the one policy: objectives mastered, checks green, and whether that is enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from shardwise.record.tables import Answer, Attempt, Certificate, Verdict


@dataclass(frozen=True, kw_only=True)
class ObjectiveProgress:
    """An objective and the share of its questions' credit that the best try earned; None before the first."""

    id: str
    share: float | None
    mastered: bool


@dataclass(frozen=True, kw_only=True)
class UnitProgress:
    """`share` is of objectives mastered, 0 to 1, in the `best` try (its id); `checks` says which exercises are green.

    `mastered` is what a certificate asks: enough objectives in one try, and every check green.
    """

    unit: str
    objectives: tuple[ObjectiveProgress, ...]
    share: float
    checks: Mapping[str, bool]
    best: str | None
    quiz_best: float | None
    attempts: int
    certificates: int
    mastered: bool

    @property
    def started(self) -> bool:
        return bool(self.attempts or any(self.checks.values()) or self.certificates)


def unit_progress(session: Session, *, learner: str, unit: str) -> UnitProgress:
    """Only finished tries count, the best one; a check once green stays green."""
    from labs.exercises import exercises
    from quiz import objectives
    from quiz.policy import policy

    rules = policy()
    mine = select(Attempt).where(Attempt.learner == learner, Attempt.unit == unit, Attempt.finished.is_not(None))
    tries = {each.id: each for each in session.scalars(mine.order_by(Attempt.made))}
    shares = _shares(session, unit=unit, tries=tuple(tries))
    taught = [each.id for each in objectives(unit)]

    def reached(attempt: str) -> tuple[int, float]:
        mastered = sum(shares[attempt].get(each, 0.0) >= rules.objective_mastery for each in taught)
        return mastered, tries[attempt].score or 0.0

    best = max(tries, key=reached, default=None)
    of_best = shares[best] if best is not None else {}
    seen = tuple(
        ObjectiveProgress(id=each, share=of_best.get(each), mastered=of_best.get(each, 0.0) >= rules.objective_mastery)
        for each in taught
    )
    share = sum(each.mastered for each in seen) / len(seen) if seen else 0.0
    green = set(
        session.scalars(
            select(Verdict.exercise).where(Verdict.learner == learner, Verdict.unit == unit, Verdict.passed)
        )
    )
    checks = {each.id: each.id in green for each in exercises() if each.unit == unit}
    held = select(func.count()).select_from(Certificate)
    return UnitProgress(
        unit=unit,
        objectives=seen,
        share=share,
        checks=checks,
        best=best,
        quiz_best=max((each.score or 0.0 for each in tries.values()), default=None),
        attempts=len(tries),
        certificates=session.scalar(held.where(Certificate.learner == learner, Certificate.unit == unit)) or 0,
        mastered=bool(seen) and share >= rules.mastery and all(checks.values()),
    )


def _shares(session: Session, *, unit: str, tries: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """For each try and objective the mean credit of its items; an item answered twice counts once, as first."""
    query = (
        select(Answer.attempt, Answer.objective, Answer.item, Answer.credit)
        .where(Answer.attempt.in_(tries), Answer.unit == unit, Answer.objective.is_not(None))
        .order_by(Answer.made)
    )
    credits: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for attempt, objective, item, credit in session.execute(query):
        if attempt is not None and objective is not None:
            credits[attempt, objective].setdefault(item, credit)
    shares: dict[str, dict[str, float]] = {each: {} for each in tries}
    for (attempt, objective), by_item in credits.items():
        shares[attempt][objective] = sum(by_item.values()) / len(by_item)
    return shares
