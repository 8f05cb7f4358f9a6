"""What a certificate of a unit may claim: the best finished try, and the checks, as the record holds them."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING

import translations
from certificates import Evidence, Result
from quiz import objectives
from quiz.items import BANK
from quiz.policy import policy
from shardwise.record.tables import now
from shardwise.units import unit as find
from translations import CourseError, formats, translator

if TYPE_CHECKING:
    from shardwise.record.store import Record


def evidence(record: Record, *, unit: str, holder: str, language: str) -> Evidence:
    """The evidence of a mastered unit. Raises CourseError that says what is missing from one that isn't."""
    text = translator(language)
    find(unit).taught(translations.language(language), text)
    rules = policy()
    progress = record.progress(unit)
    attempt = next((each for each in record.attempts(unit) if each.id == progress.best), None)
    if attempt is None:
        raise CourseError("shardwise.record-no-quiz", unit=find(unit).title(text))
    if progress.share < rules.mastery:
        raise CourseError(
            "shardwise.record-not-mastered",
            unit=find(unit).title(text),
            percent=formats.percent(progress.share, language, digits=2),
            needed=formats.percent(rules.mastery, language, digits=2),
        )
    if waiting := [each for each, green in progress.checks.items() if not green]:
        raise CourseError("shardwise.record-checks-open", unit=find(unit).title(text), checks=", ".join(waiting))
    titles = {each.id: each.say(language) for each in objectives(unit)}
    return Evidence(
        unit=unit,
        title=find(unit).title(text),
        holder=holder,
        results=tuple(
            Result(id=each.id, title=titles[each.id], share=each.share or 0.0) for each in progress.objectives
        ),
        quiz_score=attempt.score or 0.0,
        objective_mark=rules.objective_mastery,
        pass_mark=rules.mastery,
        checks_passed=sum(progress.checks.values()),
        checks=len(progress.checks),
        attempt_hash=_hash(json.dumps(record.answers(attempt=attempt.id), sort_keys=True).encode()),
        bank_hash=_hash((BANK / f"{unit}.yaml").read_bytes()),
        seed=attempt.seed,
        course_version=version("shardwise"),
        language=attempt.language,
        issued_at=now().replace(microsecond=0),
    )


def _hash(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
