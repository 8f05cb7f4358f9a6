"""The one place where the service reads and writes: transactions that are on the disk when they end, schema, audit,
idempotency.

`with store.writing() as session:` is one transaction: when the block ends without an exception, what it wrote survives
the process, the machine and the power (SQLite with full synchronous; PostgreSQL by its own log). Nothing is
acknowledged before that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from shardwise.service.tables import REVISIONS, Audit, Request
from translations import CourseError

BUSY_SECONDS = 30
MIGRATIONS = Path(__file__).with_name("migrations")


class Conflict(CourseError):
    """What is asked contradicts what is already there (HTTP 409)."""


class Missing(CourseError):
    """There is no such thing, or it is not this person's to see (HTTP 404)."""


class Forbidden(CourseError):
    """It is there, and this person may not do that to it, or not now (HTTP 403)."""


class Busy(CourseError):
    """Not now: as much waits as can be held, or two wrote the same at once (HTTP 503). Nothing of it was written."""


class Store:
    """The service's database. Safe to share between threads; each `reading` and `writing` has a session of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # SQLite lets one writer in at a time, and polls while others wait: in one process a lock is fair and wakes at
        # once.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    @classmethod
    def open(cls, url: str, *, migrate: bool = False) -> Store:
        """The database at the URL; an empty one gets its tables.

        Raises CourseError where it can't be opened, where its schema is older (`migrate` brings it up to date) or
        newer.
        """
        engine = connect(url)
        try:
            with engine.connect() as connection:
                found, empty = revision(connection), not inspect(connection).get_table_names()
            if found != REVISIONS[-1]:
                if not (migrate or empty):
                    raise CourseError("shardwise.service-schema-old", found=found or "-", known=REVISIONS[-1])
                upgrade(engine)
        except CourseError:
            engine.dispose()
            raise
        except SQLAlchemyError as error:
            engine.dispose()
            where = make_url(url).render_as_string(hide_password=True)
            raise CourseError("shardwise.service-no-database", url=where, reason=type(error).__name__) from error
        return cls(engine)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that writes nothing: whatever it changed is rolled back."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction, on the disk when the block ends; an exception leaves nothing of it.

        Raises Busy where another wrote the same first or the database is held too long: asked again, it works.
        """
        engine = self.engine.execution_options(writes=True)
        try:
            with self._turn, Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except (IntegrityError, OperationalError) as error:
            raise Busy("shardwise.service-busy") from error

    @contextmanager
    def trying(self) -> Iterator[Session]:
        """A transaction that sees its own writing and leaves nothing of it."""
        engine = self.engine.execution_options(writes=True)
        with self._turn, Session(engine, expire_on_commit=False) as session:
            session.begin()
            try:
                yield session
            finally:
                session.rollback()

    def close(self) -> None:
        self.engine.dispose()


def connect(url: str) -> Engine:
    """An engine; on SQLite with a write-ahead log, each commit forced to the disk, and writers that wait for each
    other.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql" and parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_size=10, max_overflow=30, pool_pre_ping=True)
    if parsed.database and parsed.database != ":memory:":
        path = Path(parsed.database)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.touch(mode=0o600)
    engine = create_engine(parsed, pool_size=10, max_overflow=40)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """A transaction that will write takes the lock at once, so that it waits and never fails half-way."""
    immediate = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


# --- schema


def revision(connection: Connection) -> str | None:
    """The schema's revision; None in an empty database. Raises CourseError for one of a newer service."""
    if "alembic_version" not in inspect(connection).get_table_names():
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and found not in REVISIONS:
        raise CourseError("shardwise.service-schema-new", found=found, known=REVISIONS[-1])
    return found


def upgrade(engine: Engine, to: str = "head") -> None:
    """The schema at a revision, in one transaction."""
    _migrate(engine, to, up=True)


def downgrade(engine: Engine, to: str) -> None:
    """The schema at an older revision (`base`: no tables), in one transaction."""
    _migrate(engine, to, up=False)


def _migrate(engine: Engine, to: str, *, up: bool) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.execution_options(writes=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(7240)"))  # of two that start at once, one migrates
        config.attributes["connection"] = connection
        (command.upgrade if up else command.downgrade)(config, to)


# --- what every part of the service writes


def audit(session: Session, *, actor: str | None, action: str, about: str = "", **detail: Any) -> None:
    """Notes what is done, in the same transaction as the doing. `detail` holds ids and numbers, never personal data."""
    session.add(Audit(actor=actor, action=action, about=about, detail=detail))


def fingerprint(*parts: Any) -> str:
    """What an idempotency key was used for: equal requests have equal ones."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def earlier(session: Session, *, account: str, key: str, asked: str) -> tuple[int, Any] | None:
    """The response that this key got before. Raises Conflict where the key was used for something else."""
    found = session.get(Request, (account, key))
    if found is None:
        return None
    if found.asked != asked:
        raise Conflict("shardwise.service-key-reused")
    return found.status, found.response


def remember(
    session: Session, *, account: str, key: str, asked: str, status: int, response: Mapping[str, Any] | list[Any]
) -> None:
    """Keeps the response in the transaction of what it acknowledges: both are written, or neither."""
    session.add(Request(account=account, key=key, asked=asked, status=status, response=response))
