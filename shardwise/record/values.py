"""What the record hands out: frozen values that live on after the database is closed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """A prediction as it was given; `measure` is the unit of `value` ("MB")."""

    unit: str
    question: str
    value: float
    measure: str
    made: datetime


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """One try at a quiz. `seed` comes from the learner and the number, so the same try always has the same variants."""

    id: str
    unit: str
    number: int
    seed: int
    language: str
    made: datetime
    finished: datetime | None
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """That a question was answered, when, and whether right."""

    item: str
    made: datetime
    correct: bool


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A certificate that this learner was given."""

    id: str
    unit: str
    jwt: str
    name: str
    language: str
    made: datetime


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How much a record holds."""

    learner: str
    name: str | None
    predictions: int
    attempts: int
    answers: int
    verdicts: int
    certificates: int


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What an import did: rows that came in, and rows that were there already."""

    added: int
    known: int
