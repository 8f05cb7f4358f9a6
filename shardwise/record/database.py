"""Opening the record's database: where it is, its schema brought up to date, and what is done when it is broken.

Nothing is ever deleted: a file that is no longer a database is moved aside, and what is readable of it is kept.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from shardwise.record.tables import REVISIONS
from translations import CourseError

BUSY_SECONDS = 10
_BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_REFUSED = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")


def folder() -> Path:
    """Where the learner's data is: `SHARDWISE_DATA`, else the user's data folder of this system."""
    if named := os.environ.get("SHARDWISE_DATA"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("shardwise", appauthor=False))


def connect(url: str) -> Engine:
    """An engine for the URL; on SQLite with a write-ahead log, so that two notebooks can write."""
    engine = create_engine(url, poolclass=NullPool)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """A transaction that will write takes the lock at once, so that it waits and never fails half-way."""
    immediate = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turns what a database or disk can do wrong into an error that the learner can read."""
    try:
        yield
    except (OSError, SQLAlchemyError) as error:
        raise as_course_error(error, where) from error


def as_course_error(error: OSError | SQLAlchemyError, where: str) -> CourseError:
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return CourseError("shardwise.record-disk-full", path=where)
        return CourseError("shardwise.record-refused", path=where, reason=error.strerror or str(error))
    name = _name(error)
    reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if name.startswith("SQLITE_FULL"):
        return CourseError("shardwise.record-disk-full", path=where)
    if name.startswith("SQLITE_BUSY"):
        return CourseError("shardwise.record-busy", seconds=BUSY_SECONDS)
    if name.startswith(_BROKEN):
        return CourseError("shardwise.record-broken", path=where)
    if name.startswith(_REFUSED):
        return CourseError("shardwise.record-refused", path=where, reason=reason)
    return CourseError("shardwise.record-failed", path=where, reason=reason)


def _name(error: SQLAlchemyError) -> str:
    original = error.orig if isinstance(error, DBAPIError) else None
    return getattr(original, "sqlite_errorname", None) or ""


def ready(url: str | None) -> tuple[Engine, str, Path | None]:
    """An engine whose schema is this course's; where it is; and the broken file that was moved aside.

    Raises CourseError when a newer course wrote it, or when it can't be read or written. Then nothing has been changed.
    """
    if url is not None and make_url(url).get_backend_name() != "sqlite":
        where = make_url(url).render_as_string(hide_password=True)
        with told(where):
            engine = connect(url)
            _upgrade(engine)
        return engine, where, None
    path = folder() / "record.db" if url is None else Path(make_url(url).database or "")
    with told(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(path):
            aside = _move_aside(path) if path.exists() and not _sound(path) else None
            if not path.exists():
                path.touch(mode=0o600)
            engine = connect(f"sqlite:///{path}")
            _upgrade(engine)
    return engine, str(path), aside


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Only one process at a time makes, repairs or upgrades a record."""
    lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _sound(path: Path) -> bool:
    """Whether SQLite finds the file whole. One that merely can't be opened now is not broken: it raises."""
    engine = connect(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            return connection.execute(text("PRAGMA quick_check(1)")).scalar() == "ok"
    except UnicodeDecodeError:
        return False  # what it says of the damage is damaged too
    except DBAPIError as error:
        if _name(error).startswith(_BROKEN):
            return False
        raise


def _move_aside(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    aside = path.with_name(f"{path.stem}-broken-{stamp}{path.suffix}")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(aside.with_name(aside.name + end))
    return aside


def _upgrade(engine: Engine) -> None:
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        found = None
        if "alembic_version" in tables:
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found == REVISIONS[-1]:
        return
    if found is not None and found not in REVISIONS:
        raise CourseError("shardwise.record-newer", path=engine.url.render_as_string(hide_password=True), found=found)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    with engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def salvage(broken: Path, tables: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """The rows that can still be read from a broken database, by table, raw; works on a copy."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    with tempfile.TemporaryDirectory() as scratch:
        for end in ("", "-wal"):
            part = broken.with_name(broken.name + end)
            if part.exists():
                shutil.copyfile(part, Path(scratch) / f"copy.db{end}")
        with closing(sqlite3.connect(Path(scratch) / "copy.db")) as connection:
            connection.row_factory = sqlite3.Row
            for table in tables:
                try:
                    for row in connection.execute(f'SELECT * FROM "{table}"'):
                        rows[table].append(dict(row))
                except (sqlite3.Error, UnicodeDecodeError):
                    continue
    return rows
