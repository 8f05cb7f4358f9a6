"""The tables of the service, the same on SQLite and PostgreSQL.

What must never happen twice is a constraint here, not a habit of the code: one attempt of a number, one answer of a
revision, one certificate of an attempt and edition, one entry of a status list, one response to an idempotency key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, LargeBinary, MetaData, Text, UniqueConstraint, false
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from shardwise.record.tables import Moment, new_id, now

REVISIONS = ("0001", "0002")
"""Every revision of the schema, oldest first; a database that names another one was written by a newer service."""

ROLES = ("learner", "examiner", "administrator")
"""Each may do what those before it may."""


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        str: Text,
        bytes: LargeBinary,
        datetime: Moment,
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }


class Account(Table):
    """A person. `email` is lower-cased and None once erased; `name`: as it shall stand on certificates; `erased`: when
    the person's data went.
    """

    __tablename__ = "account"
    __table_args__ = (UniqueConstraint("email"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str | None]
    name: Mapped[str] = mapped_column(default="")
    role: Mapped[str] = mapped_column(default="learner")
    language: Mapped[str] = mapped_column(default="en")
    active: Mapped[bool] = mapped_column(default=True)
    made: Mapped[datetime] = mapped_column(default=now)
    erased: Mapped[datetime | None]


class Identity(Table):
    """Who an account is elsewhere. `provider`: `email`, `hub` or `oidc <issuer>`; `subject`: its name of the person."""

    __tablename__ = "identity"
    __table_args__ = (UniqueConstraint("provider", "subject"), Index(None, "account"))

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account: Mapped[str] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"))
    provider: Mapped[str]
    subject: Mapped[str]
    made: Mapped[datetime] = mapped_column(default=now)


class LoginLink(Table):
    """A one-time link sent by e-mail; of its token only the hash is kept. `purpose`: `sign-in`, or `request` of an
    exam (`wanted`).
    """

    __tablename__ = "login_link"
    __table_args__ = (Index(None, "email", "made"),)

    hash: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    purpose: Mapped[str] = mapped_column(default="sign-in")
    wanted: Mapped[dict[str, Any]] = mapped_column(default=dict)
    made: Mapped[datetime] = mapped_column(default=now)
    expires: Mapped[datetime]
    used: Mapped[datetime | None]


class Visit(Table):
    """A signed-in browser or program; of its token only the hash is kept."""

    __tablename__ = "visit"
    __table_args__ = (Index(None, "account"),)

    hash: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"))
    provider: Mapped[str]
    made: Mapped[datetime] = mapped_column(default=now)
    expires: Mapped[datetime]


class Errand(Table):
    """A sign-in that is under way at a provider (OAuth state); taken once."""

    __tablename__ = "errand"

    hash: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    carried: Mapped[dict[str, Any]] = mapped_column(default=dict)
    expires: Mapped[datetime]


class Cohort(Table):
    __tablename__ = "cohort"
    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str]
    made: Mapped[datetime] = mapped_column(default=now)


class Member(Table):
    """An account in a cohort. `extra_percent`: more time in exams. `reference`: the organisation's own number of the
    learner.
    """

    __tablename__ = "member"

    cohort: Mapped[str] = mapped_column(ForeignKey("cohort.id", ondelete="CASCADE"), primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"), primary_key=True)
    extra_percent: Mapped[int] = mapped_column(default=0)
    reference: Mapped[str] = mapped_column(default="")
    made: Mapped[datetime] = mapped_column(default=now)


class Sitting(Table):
    """An exam that can be taken: by a cohort or, without one, by whoever has an account; between `opens` and `closes`.

    `exam`: the policy's id. `unlock`: the salted hash of the code that opens it. `attempts`: None for the policy's own.
    """

    __tablename__ = "sitting"
    __table_args__ = (Index(None, "cohort"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    exam: Mapped[str]
    title: Mapped[str] = mapped_column(default="")
    cohort: Mapped[str | None] = mapped_column(ForeignKey("cohort.id"))
    opens: Mapped[datetime]
    closes: Mapped[datetime]
    unlock: Mapped[str | None]
    supervised: Mapped[bool] = mapped_column(default=False)
    attempts: Mapped[int | None]
    cancelled: Mapped[datetime | None]
    made: Mapped[datetime] = mapped_column(default=now)


class Wish(Table):
    """An exam that a learner asked for from the course (`shardwise certificate request`), waiting for an examiner."""

    __tablename__ = "wish"
    __table_args__ = (UniqueConstraint("account", "exam"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account: Mapped[str] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"))
    exam: Mapped[str]
    state: Mapped[str] = mapped_column(default="waiting")
    made: Mapped[datetime] = mapped_column(default=now)


class Content(Table):
    """An item as it was when it was drawn, once for all papers, under the hash of all that it says."""

    __tablename__ = "content"

    digest: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[dict[str, Any]]


class Attempt(Table):
    """One try at a sitting.

    `paper`: what was drawn, with its seeds and right numbers: it never leaves the server, nor does `seed`, the secret
    that it was drawn by. `number` counts the person's tries at this exam. `policy`: the exam's rules as they were when
    it began. `minutes` and `deadline` hold the extra time. `state`: `open`; `ended` (handed in, or its time is over,
    at `ended`) while code waits to be graded; `graded`, with its `outcome`.
    """

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("sitting", "account", "number"), Index(None, "account"), Index(None, "state"))

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    sitting: Mapped[str] = mapped_column(ForeignKey("sitting.id"))
    account: Mapped[str] = mapped_column(ForeignKey("account.id"))
    exam: Mapped[str]
    number: Mapped[int]
    language: Mapped[str]
    seed: Mapped[str]
    policy: Mapped[dict[str, Any]]
    paper: Mapped[dict[str, Any]]
    supervised: Mapped[bool]
    begun: Mapped[datetime]
    minutes: Mapped[float]
    closes: Mapped[datetime]
    deadline: Mapped[datetime]
    state: Mapped[str] = mapped_column(default="open")
    ended: Mapped[datetime | None]
    outcome: Mapped[dict[str, Any] | None]


class Answer(Table):
    """An answer as it was given; a changed answer is a further row, and the highest revision counts."""

    __tablename__ = "answer"
    __table_args__ = (UniqueConstraint("attempt", "position", "revision"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    attempt: Mapped[str] = mapped_column(ForeignKey("attempt.id", ondelete="CASCADE"))
    position: Mapped[int]
    revision: Mapped[int]
    given: Mapped[Any] = mapped_column(JSON)
    language: Mapped[str]
    made: Mapped[datetime] = mapped_column(default=now)


class Submission(Table):
    """Code handed in for a task of the practical part; the highest revision counts. `state`: `queued`, `running`,
    `graded`, `failed` (no verdict could be reached).

    `tries` and `lease`: who is grading it, until when; a worker that was killed lets its lease run out.
    """

    __tablename__ = "submission"
    __table_args__ = (UniqueConstraint("attempt", "task", "revision"), Index(None, "state", "made"))

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    attempt: Mapped[str] = mapped_column(ForeignKey("attempt.id", ondelete="CASCADE"))
    task: Mapped[str]
    revision: Mapped[int]
    source: Mapped[bytes]
    sha256: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(default="queued")
    tries: Mapped[int] = mapped_column(default=0)
    lease: Mapped[datetime | None]
    result: Mapped[dict[str, Any] | None]
    made: Mapped[datetime] = mapped_column(default=now)


class Certificate(Table):
    """A certificate, written as an intent before anything is signed: `jwt` is None until then.

    `id`: the credential's, made from attempt and edition, so that a second issuing makes the same one. `intent`: all
    that the credential is made from. `edition`: 1, and one more for each re-issue. `state`: `intended`, `issued`,
    `replaced`.
    """

    __tablename__ = "certificate"
    __table_args__ = (UniqueConstraint("attempt", "edition"), Index(None, "account"))

    id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str] = mapped_column(ForeignKey("attempt.id"))
    edition: Mapped[int]
    account: Mapped[str] = mapped_column(ForeignKey("account.id"))
    name: Mapped[str]
    language: Mapped[str]
    intent: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="intended")
    jwt: Mapped[str | None]
    made: Mapped[datetime] = mapped_column(default=now)
    issued: Mapped[datetime | None]
    expires: Mapped[datetime | None]
    replaced_by: Mapped[str | None]
    listed: Mapped[bool] = mapped_column(default=False, server_default=false())


class Report(Table):
    """What a learner says is wrong with a question. `said` goes with the person's data; which item it was stays."""

    __tablename__ = "report"
    __table_args__ = (Index(None, "attempt"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    attempt: Mapped[str] = mapped_column(ForeignKey("attempt.id", ondelete="CASCADE"))
    item: Mapped[str]
    version: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    language: Mapped[str]
    said: Mapped[str]
    state: Mapped[str] = mapped_column(default="open")
    made: Mapped[datetime] = mapped_column(default=now)


class StatusEntry(Table):
    """A certificate's place in the issuer's status lists. It stays when the person's data goes. `state`: `valid`,
    `suspended`, `revoked`.
    """

    __tablename__ = "status_entry"
    __table_args__ = (UniqueConstraint("list", "position"),)

    certificate: Mapped[str] = mapped_column(primary_key=True)
    list: Mapped[str]
    position: Mapped[int]
    state: Mapped[str] = mapped_column(default="valid")
    reason: Mapped[str] = mapped_column(default="")
    changed: Mapped[datetime] = mapped_column(default=now)


class Audit(Table):
    """What was done, by which account, to what: ids only, no names, no answers. Rows are added and never changed."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "made"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    made: Mapped[datetime] = mapped_column(default=now)
    actor: Mapped[str | None]
    action: Mapped[str]
    about: Mapped[str] = mapped_column(default="")
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Request(Table):
    """The response to a request that named an idempotency key: the same key gets the same response, and another body
    is refused.
    """

    __tablename__ = "request"
    __table_args__ = (Index(None, "made"),)

    account: Mapped[str] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    asked: Mapped[str]
    status: Mapped[int]
    response: Mapped[Any] = mapped_column(JSON)
    made: Mapped[datetime] = mapped_column(default=now)
