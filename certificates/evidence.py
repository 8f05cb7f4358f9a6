"""What a learner has shown: everything that a certificate may say, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Result:
    """One objective. ``share`` is the share of the credit of its questions, from 0 to 1."""

    id: str
    title: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A finished attempt at a unit.

    ``results``: every objective of the unit. ``objective_mark``: the share at which one objective counts as mastered;
    ``pass_mark``: the share of objectives that must be. ``quiz_score``: the share of all credit. ``checks_passed`` of
    ``checks``: the unit's lab checks. ``attempt_hash`` and ``bank_hash``: ``sha256:`` and 64 hexadecimal digits.
    ``language``: the one in which the quiz was taken. ``issued_at`` has a time zone. ``email`` leaves this object only
    as a salted hash.
    """

    unit: str
    title: str
    holder: str
    results: tuple[Result, ...]
    quiz_score: float
    objective_mark: float
    pass_mark: float
    checks_passed: int
    checks: int
    attempt_hash: str
    bank_hash: str
    seed: int
    course_version: str
    language: str
    issued_at: datetime
    email: str | None = None
    supervised: bool = False
