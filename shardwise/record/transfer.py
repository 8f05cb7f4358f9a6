"""The record as one file: written whole or not at all, read strictly, merged by row ids so that twice is once."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from shardwise.record import database
from shardwise.record.tables import OWNED, Answer, Attempt, Learner, Moment, Owned, Table, now
from shardwise.record.values import Merged
from translations import CourseError

FORMAT = "shardwise-record"
VERSION = 1
MOST_BYTES = 64 * 1024 * 1024

Content = dict[str, Any]
Row = TypeVar("Row", bound=Table)


@cache
def schema() -> Content:
    """The JSON Schema of the file."""
    path = Path(__file__).with_name("schema") / f"record-{VERSION}.schema.json"
    return cast(Content, json.loads(path.read_text(encoding="utf-8")))


def as_json(row: Table) -> Content:
    """A row as a JSON object: moments as ISO 8601 in UTC."""
    values = {column.key: getattr(row, column.key) for column in row.__table__.columns}
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in values.items()}


def from_json(table: type[Row], values: Mapping[str, Any]) -> Row:
    """The row that `as_json` gave."""
    moments = {column.key for column in table.__table__.columns if isinstance(column.type, Moment)}
    return table(
        **{key: datetime.fromisoformat(value) if key in moments and value else value for key, value in values.items()}
    )


# --- out


def export(session: Session, *, learner: str, key: bool = True) -> Content:
    """All that the record holds of a learner, and of those who were merged into this one; `key`: the keys too."""
    former = select(Learner).where(Learner.joined == learner).order_by(Learner.made)
    content: Content = {
        "format": FORMAT,
        "version": VERSION,
        "course": version("shardwise"),
        "exported": now().isoformat(),
        "learner": as_json(session.get_one(Learner, learner)),
        "former": [as_json(row) for row in session.scalars(former)],
    }
    if not key:
        for each in (content["learner"], *content["former"]):
            each["key"] = None
    for table in OWNED:
        rows = session.scalars(select(table).where(table.learner == learner).order_by(table.made, table.id))
        content[_plural(table)] = [as_json(row) for row in rows]
    return content


def write(content: Content, path: Path) -> None:
    """Puts the file in place at once, with mode 0600; a full disk leaves what was there before."""
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    with database.told(str(path)):
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(scratch).unlink()
            raise


# --- in


def read(path: Path) -> Content:
    """The file's content, checked against its schema. Raises CourseError that says what is wrong with it."""
    import jsonschema

    with database.told(str(path)):
        if path.stat().st_size > MOST_BYTES:
            raise CourseError("shardwise.record-file-not-one", path=path.name)
        data = path.read_bytes()
    try:
        content = json.loads(data.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_repeats)
        # What can't be written again (half a surrogate pair, a number beyond any double) is not let in.
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise CourseError("shardwise.record-file-damaged", path=path.name, reason=str(error)) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CourseError("shardwise.record-file-not-one", path=path.name)
    found = content.get("version")
    if isinstance(found, int) and found > VERSION:
        raise CourseError("shardwise.record-file-newer", path=path.name, found=found, known=VERSION)
    checker = jsonschema.Draft202012Validator(schema(), format_checker=_formats())
    problem = next(iter(sorted(checker.iter_errors(content), key=lambda each: list(map(str, each.path)))), None)
    if problem is not None:
        reason = f"{'/'.join(map(str, problem.absolute_path)) or '.'}: {problem.message[:200]}"
        raise CourseError("shardwise.record-file-damaged", path=path.name, reason=reason)
    return content


def _formats() -> Any:
    import jsonschema

    checker = jsonschema.FormatChecker(formats=())

    @checker.checks("date-time", raises=(ValueError, OverflowError))
    def moment(value: object) -> bool:
        if not isinstance(value, str):
            return True
        found = datetime.fromisoformat(value)
        return found.tzinfo is not None and found.astimezone(UTC) is not None

    return checker


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _no_repeats(pairs: list[tuple[str, Any]]) -> Content:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a name is given twice in one object")
    return dict(pairs)


def merge(session: Session, content: Content, *, learner: str) -> tuple[Merged, str]:
    """Adds the file's rows that are not here yet, and gives the counts and the learner of the record afterwards."""
    stranger = content["learner"]
    if stranger["id"] != learner and _untouched(session, learner):
        learner = _become(session, learner, stranger)
    mine = session.get_one(Learner, learner)
    for each in [stranger, *content["former"]]:
        known = session.get(Learner, each["id"])
        if known is None:
            session.add(from_json(Learner, each | {"joined": learner}))
        elif known.key is None:
            known.key, known.name = each["key"], known.name or each["name"]
    mine.name = mine.name or stranger["name"]
    session.flush()
    added = known_rows = 0
    for table in OWNED:
        for values in content[_plural(table)]:
            if session.get(table, values["id"]) is None:
                session.add(_owned(session, table, values | {"learner": learner}))
                added += 1
            else:
                known_rows += 1
        session.flush()
    return Merged(added=added, known=known_rows), learner


def _owned(session: Session, table: type[Owned], values: Content) -> Owned:
    """A row that never points at a try that isn't there: such an answer stays, as practice."""
    if table is Answer and values["attempt"] and session.get(Attempt, values["attempt"]) is None:
        values = values | {"attempt": None}
    return from_json(table, values)


def _untouched(session: Session, learner: str) -> bool:
    if session.get_one(Learner, learner).key is not None:
        return False
    return all(session.scalar(select(table.id).where(table.learner == learner).limit(1)) is None for table in OWNED)


def _become(session: Session, learner: str, stranger: Content) -> str:
    """An empty record takes on the file's learner, so that key and variants go on as they were."""
    if session.get(Learner, stranger["id"]) is None:
        session.add(from_json(Learner, stranger | {"joined": None}))
        session.flush()
    else:
        session.execute(update(Learner).where(Learner.id == stranger["id"]).values(joined=None))
    session.delete(session.get_one(Learner, learner))
    session.flush()
    return str(stranger["id"])


# --- what a broken database still holds

_UNUSABLE = (SQLAlchemyError, ValueError, TypeError, AttributeError)


def put_back(session: Session, broken: Path) -> int:
    """Puts into an empty record every whole row that the broken file still gives; the count of rows, learners aside."""
    rows = database.salvage(broken, ("learner", *(table.__tablename__ for table in OWNED)))
    kept = 0
    learners = sorted(rows["learner"], key=lambda each: str(each.get("joined") or ""))
    for raw in learners:
        with contextlib.suppress(*_UNUSABLE), session.begin_nested():
            session.add(from_json(Learner, _raw(Learner, raw)))
    for table in OWNED:
        for raw in rows[table.__tablename__]:
            with contextlib.suppress(*_UNUSABLE), session.begin_nested():
                session.add(_owned(session, table, _raw(table, raw)))
                session.flush()
                kept += 1
    return kept


def _raw(table: type[Table], raw: Content) -> Content:
    """A row as SQLite keeps it, in the file's form."""
    kinds = {column.key: column.type.python_type for column in table.__table__.columns if column.key != "given"}
    values = {}
    for key, value in raw.items():
        if key == "given" and isinstance(value, str):
            value = json.loads(value)
        elif kinds.get(key) is datetime and value is not None:
            value = datetime.fromisoformat(value).replace(tzinfo=now().tzinfo).isoformat()
        elif kinds.get(key) is bool:
            value = bool(value)
        elif kinds.get(key) is float and value is not None and not math.isfinite(value):
            raise ValueError("a number is not finite")
        values[key] = value
    return values


def _plural(table: type[Owned]) -> str:
    return f"{table.__tablename__}s"
