"""Backup and restoring of everything that the service knows, as one file, while it runs.

A backup is a ZIP: a manifest, and one file of JSON lines a table, read in one transaction, so that it is the state of
one moment. It is the same for SQLite and PostgreSQL, and moves a service from one to the other. It holds personal data
(mode 0600) and no key: neither the issuer's nor the service's secret. Restoring checks every hash before it writes, and
writes all or nothing.

Four things must not come back, or be forgotten, with an older state, and restoring sees to them: people who were
deleted since (the list beside the database), open sessions and links (everybody signs in again), certificates that were
revoked or suspended since (from the database that is replaced, and from published status lists), and places in the
status lists that were given away since: what is issued from then on stands in a new list.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Integer, LargeBinary, cast, delete, func, insert, inspect, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from shardwise.record.tables import Moment
from shardwise.service import erasing
from shardwise.service.settings import Settings
from shardwise.service.store import Store, audit, connect, revision, upgrade
from shardwise.service.tables import REVISIONS, Errand, LoginLink, StatusEntry, Table, Visit
from translations import CourseError

VERSION = 1
MANIFEST = "manifest.json"
ROWS_AT_ONCE = 500
LARGEST_LINE = 64_000_000
STRONGER = {"valid": 0, "suspended": 1, "revoked": 2}
RESTORED = "restored"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a backup holds: how many rows, made when."""

    made: datetime
    revision: str
    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What restoring did: rows written; people deleted again; status entries that stayed as they were since."""

    rows: int
    erased: int
    states: int
    aside: Path | None


def backup(store: Store, file: Path, *, at: datetime) -> Kept:
    """Writes a backup, whole or not at all. Raises CourseError where the file is there already or can't be written."""
    if file.exists():
        raise CourseError("shardwise.service-backup-there", path=str(file))
    scratch = file.with_name(f".{file.name}.{os.getpid()}")
    counts: dict[str, int] = {}
    hashes: dict[str, str] = {}
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, _moment(store) as connection:
                schema = revision(connection)
                for table in Table.metadata.sorted_tables:
                    counts[table.name], hashes[table.name] = _write(archive, connection, table)
                manifest = {
                    "version": VERSION,
                    "made": at.isoformat(),
                    "revision": schema,
                    "rows": counts,
                    "sha256": hashes,
                }
                archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
            out.flush()
            os.fsync(out.fileno())
        os.link(scratch, file)  # never over one that appeared meanwhile
    except FileExistsError as error:
        raise CourseError("shardwise.service-backup-there", path=str(file)) from error
    except OSError as error:
        raise CourseError("shardwise.service-backup-unwritable", path=str(file), reason=error.strerror) from error
    finally:
        scratch.unlink(missing_ok=True)
    return Kept(made=at, revision=schema or "", rows=counts)


def _moment(store: Store) -> Any:
    """One transaction that sees one state, while others write."""
    if store.engine.dialect.name == "postgresql":
        return store.engine.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return store.engine.connect()


def _write(archive: zipfile.ZipFile, connection: Connection, table: SqlTable) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    order = list(table.primary_key.columns)
    found = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table).order_by(*order))
    with archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as out:
        for row in found.mappings():
            line = (json.dumps({key: _plain(value) for key, value in row.items()}, ensure_ascii=False) + "\n").encode()
            digest.update(line)
            out.write(line)
            count += 1
    return count, digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


# --- restoring


def look(file: Path) -> Kept:
    """What a backup says it holds, once every hash has been found right. Raises CourseError for anything else."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            if manifest["version"] != VERSION or manifest["revision"] not in REVISIONS:
                raise CourseError("shardwise.service-backup-newer", path=str(file))
            for name, count in manifest["rows"].items():
                digest, lines = hashlib.sha256(), 0
                with archive.open(f"{name}.jsonl") as opened:
                    for line in opened:
                        digest.update(line)
                        lines += 1
                if digest.hexdigest() != manifest["sha256"][name] or lines != count:
                    raise CourseError("shardwise.service-backup-damaged", path=str(file))
            return Kept(
                made=datetime.fromisoformat(manifest["made"]), revision=manifest["revision"], rows=manifest["rows"]
            )
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, EOFError) as error:
        raise CourseError("shardwise.service-backup-damaged", path=str(file)) from error


def restore(settings: Settings, file: Path, *, published: Sequence[Path] = (), at: datetime | None = None) -> Restored:
    """The state of a backup, in the settings' database. `published`: status lists (JWT) that were published since.

    An SQLite database that is there is moved aside, never deleted; on PostgreSQL the database must be empty. Raises
    CourseError, and nothing has changed, where the backup is not whole.
    """
    now, kept = at or datetime.now(UTC), look(file)
    set_bits = _published(published)
    since, aside = _aside(settings, now)
    try:
        engine = connect(settings.database)
        try:
            with engine.connect() as connection:
                if inspect(connection).get_table_names():
                    raise CourseError("shardwise.service-restore-not-empty")
            upgrade(engine)
            rows = _restore_rows(engine.execution_options(writes=True), file, kept, since, set_bits, settings, now)
        finally:
            engine.dispose()
    except BaseException:
        if aside is not None:
            _move(aside, Path(make_url(settings.database).database or ""))
        raise
    return Restored(rows=kept.total, erased=rows[0], states=rows[1], aside=aside)


def _restore_rows(
    engine: Any,
    file: Path,
    kept: Kept,
    since: Mapping[str, tuple[str, int, str, str]],
    set_bits: Mapping[tuple[str, int], str],
    settings: Settings,
    now: datetime,
) -> tuple[int, int]:
    with engine.begin() as connection:
        with zipfile.ZipFile(file) as archive:
            for table in Table.metadata.sorted_tables:
                if table.name in kept.rows:
                    for some in _batches(_rows(archive, table)):
                        connection.execute(insert(table), some)
        with Session(bind=connection) as session:
            states = _states(session, since, set_bits, now)
            erased = erasing.erase_noted(session, erasing.noted(settings), now)
            for short in (Visit, LoginLink, Errand):  # who signed out since, or used a link, did so for good
                session.execute(delete(short))
            newest = session.scalar(select(func.max(cast(StatusEntry.list, Integer))))
            if newest is not None:
                session.add(
                    StatusEntry(
                        certificate=f"{RESTORED} {now.isoformat()}",
                        list=str(newest + 1),
                        position=0,
                        state="revoked",
                        reason=RESTORED,
                        changed=now,
                    )
                )
            audit(session, actor=None, action="restored", about=kept.made.isoformat(), rows=kept.total, states=states)
            session.flush()
    return erased, states


def _rows(archive: zipfile.ZipFile, table: SqlTable) -> Iterator[dict[str, Any]]:
    columns = {each.name: each for each in table.columns}
    with archive.open(f"{table.name}.jsonl") as opened:
        for line in opened:
            row = json.loads(line)
            if unknown := sorted(set(row) - set(columns)):
                raise CourseError("shardwise.service-backup-newer", path=f"{table.name}.{unknown[0]}")
            yield {name: _back(value, columns[name].type) for name, value in row.items()}


def _back(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Moment):
        return datetime.fromisoformat(value)
    return base64.b64decode(value) if isinstance(kind, LargeBinary) else value


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) >= ROWS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


# --- what must not be forgotten


def _aside(settings: Settings, now: datetime) -> tuple[dict[str, tuple[str, int, str, str]], Path | None]:
    """The status entries of the database that is replaced, as far as it can be read, and where it was moved."""
    url = make_url(settings.database)
    if url.get_backend_name() != "sqlite" or not url.database or not Path(url.database).exists():
        return {}, None
    path = Path(url.database)
    found: dict[str, tuple[str, int, str, str]] = {}
    engine = connect(settings.database)
    try:
        with engine.connect() as connection:
            for row in connection.execute(select(StatusEntry)).mappings():
                found[row["certificate"]] = (row["list"], row["position"], row["state"], row["reason"])
    except (SQLAlchemyError, ValueError):
        pass  # damaged: what could be read is what there is
    finally:
        engine.dispose()
    aside = path.with_name(f"{path.stem}-before-{now:%Y%m%d-%H%M%S}{path.suffix}")
    _move(path, aside)
    return found, aside


def _move(path: Path, to: Path) -> None:
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.replace(to.with_name(to.name + end))


def _published(files: Sequence[Path]) -> dict[tuple[str, int], str]:
    """What published lists have set: list's number and index, and the state that it means."""
    from certificates import strict

    found: dict[tuple[str, int], str] = {}
    for file in files:
        try:
            body = strict.parse_json(strict.decode_base64url(file.read_text(encoding="ascii").strip().split(".")[1]))
            subject = body["credentialSubject"]
            number = str(body["id"]).rpartition("/")[2].removesuffix(".jwt")
            state = "revoked" if subject["statusPurpose"] == "revocation" else "suspended"
            for index in _bits(str(subject["encodedList"])):
                key = (number, index)
                if STRONGER[state] > STRONGER[found.get(key, "valid")]:
                    found[key] = state
        except (OSError, ValueError, KeyError, IndexError, strict.Refused, zlib.error) as error:
            raise CourseError("shardwise.service-list-unreadable", path=str(file)) from error
    return found


def _bits(encoded: str) -> Iterator[int]:
    """The indices that a list has set."""
    from certificates import status, strict

    inflater = zlib.decompressobj(wbits=31)
    bits = inflater.decompress(strict.decode_base64url(encoded.removeprefix("u")), status.SIZE // 8)
    return (place * 8 + bit for place, byte in enumerate(bits) if byte for bit in range(8) if byte & 0x80 >> bit)


def _states(
    session: Session,
    since: Mapping[str, tuple[str, int, str, str]],
    set_bits: Mapping[tuple[str, int], str],
    now: datetime,
) -> int:
    """Nothing that was revoked or suspended holds again; a place that was given away stays given away."""
    changed = 0
    places = {(each.list, each.position): each for each in session.scalars(select(StatusEntry))}
    for certificate, (number, position, state, reason) in since.items():
        entry = places.get((number, position))
        if entry is None:
            # The certificate is not in this state: its place is kept, and whoever asks again gets another one.
            name = certificate if certificate.startswith(RESTORED) else f"{RESTORED} {certificate}"
            entry = StatusEntry(certificate=name, list=number, position=position, changed=now)
            entry.state, entry.reason = state, reason
            session.add(entry)
            places[number, position] = entry
            changed += 1
        elif STRONGER[state] > STRONGER[entry.state]:
            entry.state, entry.reason, entry.changed = state, reason, now
            changed += 1
    for (number, position), state in set_bits.items():
        entry = places.get((number, position))
        if entry is None:
            name = f"{RESTORED} {number}/{position}"
            session.add(
                StatusEntry(certificate=name, list=number, position=position, state=state, reason=RESTORED, changed=now)
            )
            changed += 1
        elif STRONGER[state] > STRONGER[entry.state]:
            entry.state, entry.reason, entry.changed = state, RESTORED, now
            changed += 1
    session.flush()
    return changed
