"""The tables of the learner's record, the same on SQLite and PostgreSQL.

Every row has an id of its own that is never given twice, so that two records can be merged.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, ForeignKey, Index, MetaData, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

REVISIONS = ("0001",)
"""Every revision of the schema, oldest first; a database that names another one was written by a newer course."""


def new_id() -> str:
    return str(uuid.uuid4())


def now() -> datetime:
    return datetime.now(UTC)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no time zone, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {str: Text, datetime: Moment, dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012


class Learner(Table):
    """Who learns here. `key`: the private key (PEM) of the certificates; `joined`: the learner that this one became."""

    __tablename__ = "learner"

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str | None]
    key: Mapped[str | None]
    joined: Mapped[str | None] = mapped_column(ForeignKey("learner.id"))
    made: Mapped[datetime] = mapped_column(default=now)


class Owned(Table):
    """What every row that belongs to a learner has."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    learner: Mapped[str] = mapped_column(ForeignKey("learner.id"))
    unit: Mapped[str]
    made: Mapped[datetime] = mapped_column(default=now)


class Prediction(Owned):
    """A number that the learner expected before a lab ran, in the unit in which it was asked."""

    __tablename__ = "prediction"
    __table_args__ = (Index(None, "learner", "unit", "question"),)

    question: Mapped[str]
    value: Mapped[float]
    measure: Mapped[str]


class Attempt(Owned):
    """One try at a unit's quiz; `seed` fixes its variants, `finished` is empty while it is open."""

    __tablename__ = "attempt"
    __table_args__ = (Index(None, "learner", "unit"),)

    number: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    language: Mapped[str]
    finished: Mapped[datetime | None]
    score: Mapped[float | None]


class Answer(Owned):
    """An answer as it was given and marked; item version and seed are kept: a later edit never re-marks."""

    __tablename__ = "answer"
    __table_args__ = (Index(None, "learner", "unit"), Index(None, "attempt"))

    attempt: Mapped[str | None] = mapped_column(ForeignKey("attempt.id"))
    item: Mapped[str]
    version: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    language: Mapped[str]
    form: Mapped[str]
    given: Mapped[Any] = mapped_column(JSON, nullable=True)
    correct: Mapped[bool]
    credit: Mapped[float]
    misconception: Mapped[str | None]
    objective: Mapped[str | None]
    seconds: Mapped[float]


class Verdict(Owned):
    """What a check said about an exercise's source (kept as its hash)."""

    __tablename__ = "verdict"
    __table_args__ = (Index(None, "learner", "unit", "exercise"),)

    exercise: Mapped[str]
    passed: Mapped[bool]
    points: Mapped[float]
    of: Mapped[float]
    failed_at: Mapped[str | None]
    source_hash: Mapped[str]
    language: Mapped[str]


class Certificate(Owned):
    """A certificate as it was issued; its id is the credential's."""

    __tablename__ = "certificate"
    __table_args__ = (Index(None, "learner", "unit"),)

    jwt: Mapped[str]
    name: Mapped[str]
    language: Mapped[str]


OWNED: tuple[type[Owned], ...] = (Prediction, Attempt, Answer, Verdict, Certificate)
"""The tables that belong to a learner, in an order in which they can be filled."""
