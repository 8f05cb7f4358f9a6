"""The record keeps what a learner did: with two notebooks at once, a full disk, damage, and from machine to machine."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from shardwise.record import Record, database, store
from shardwise.record.tables import REVISIONS, Table
from translations import CourseError, languages, translator

UNIT = "04-zero-1"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def fill(record: Record, *, score: float = 1.0) -> None:
    record.predict(unit=UNIT, question="optimizer-states", value=3.5, measure="MB")
    attempt = record.attempt(unit=UNIT, language="ar")
    record.answer(
        unit=UNIT,
        item="zero-1-what",
        version=1,
        seed=attempt.seed,
        language="ar",
        form="several",
        given={"keys": ["أ", "b"]},
        correct=True,
        credit=score,
        objective="some",
        attempt=attempt.id,
    )
    record.finish(attempt.id, score=score)
    record.verdict(
        unit=UNIT, exercise="zero-1", passed=True, points=5, of=5, failed_at=None, source="x = 1", language="nl"
    )
    record.key(lambda: "a private key")
    record.keep_certificate(id=f"urn:uuid:{record.learner}", unit=UNIT, jwt="e.y.J", name="Amal", language="ar")


def test_what_is_kept_is_there_after_reopening(data: Path) -> None:
    fill(Record.open())
    again = Record.open()
    found = again.prediction(unit=UNIT, question="optimizer-states")
    assert found is not None
    assert (found.value, found.measure) == (3.5, "MB")
    assert again.key(lambda: "another") == "a private key"
    [attempt] = again.attempts(UNIT)
    [answer] = again.answers(attempt=attempt.id)
    assert answer["given"] == {"keys": ["أ", "b"]}
    assert attempt.score == 1.0
    assert attempt.finished is not None
    assert attempt.finished.utcoffset() is not None
    assert [each.name for each in again.certificates(UNIT)] == ["Amal"]
    assert stat.S_IMODE((data / "record.db").stat().st_mode) == 0o600


@pytest.mark.usefixtures("data")
def test_a_closed_try_stays_as_it_was_and_the_next_has_other_variants() -> None:
    record = Record.open()
    first = record.attempt(unit=UNIT, language="en")
    assert record.attempt(unit=UNIT, language="en") == first
    record.finish(first.id, score=0.5)
    assert record.finish(first.id, score=1.0).score == 0.5
    second = record.attempt(unit=UNIT, language="en")
    assert (second.number, second.seed != first.seed) == (2, True)
    assert first.seed == store.seed_of(learner=record.learner, unit=UNIT, number=1)


@pytest.mark.usefixtures("data")
def test_the_latest_prediction_counts() -> None:
    record = Record.open()
    for value in (1.0, 2.0):
        record.predict(unit=UNIT, question="q", value=value, measure="MB")
    found = record.prediction(unit=UNIT, question="q")
    assert found is not None
    assert found.value == 2.0
    assert record.summary().predictions == 2


# --- several at once

WRITER = """
import sys
from shardwise.record import Record
record = Record.open()
for number in range(25):
    record.predict(unit="04-zero-1", question=sys.argv[1], value=number, measure="MB")
    record.attempt(unit="04-zero-1", language="en")
"""


@pytest.mark.usefixtures("data")
def test_notebooks_that_write_at_once_lose_nothing() -> None:
    """Also when the record does not exist yet: one of them makes it, and both use the same learner."""
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(each)], stderr=subprocess.PIPE, text=True)
        for each in range(3)
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    summary = Record.open().summary()
    assert (summary.predictions, summary.attempts) == (75, 1)


# --- what goes wrong


def test_a_broken_database_is_moved_aside_and_its_rows_kept(data: Path) -> None:
    first = Record.open()
    fill(first)
    with closing(sqlite3.connect(data / "record.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='ix_answer_attempt'").fetchone()[0]
        page = connection.execute("PRAGMA page_size").fetchone()[0]
    path = data / "record.db"
    content = bytearray(path.read_bytes())
    content[(root - 1) * page : root * page] = b"\xff" * page
    path.write_bytes(content)

    again = Record.open()
    assert again.notice is not None
    assert again.notice.id == "shardwise.record-moved"
    [aside] = data.glob("record-broken-*.db")
    assert aside.read_bytes() == bytes(content)
    assert again.learner == first.learner
    assert again.key(lambda: "lost") == "a private key"
    assert again.summary() == first.summary()
    assert Record.open().notice is None


@pytest.mark.parametrize("content", [b"no database at all, but text", b"SQLite format 3\x00" + bytes(200), bytes(8192)])
def test_a_file_that_is_no_database_is_moved_aside(data: Path, content: bytes) -> None:
    data.mkdir()
    (data / "record.db").write_bytes(content)
    record = Record.open()
    assert record.notice is not None
    fill(record)
    assert [each.read_bytes() for each in data.glob("record-broken-*.db")] == [content]


@pytest.mark.parametrize("seed", range(6))
def test_bytes_altered_anywhere_are_moved_aside_or_told(data: Path, seed: int) -> None:
    """Also where what SQLite then says of the damage is no text itself."""
    fill(Record.open())
    content, chance = bytearray((data / "record.db").read_bytes()), random.Random(seed)
    for _ in range(60):
        content[chance.randrange(len(content))] ^= 255
    (data / "record.db").write_bytes(content)
    with contextlib.suppress(CourseError):
        fill(Record.open())


def test_a_record_of_a_newer_course_is_left_alone(data: Path) -> None:
    fill(Record.open())
    with closing(sqlite3.connect(data / "record.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(CourseError) as caught:
        Record.open()
    assert caught.value.id == "shardwise.record-newer"
    with closing(sqlite3.connect(data / "record.db")) as connection:
        assert connection.execute("SELECT count(*) FROM certificate").fetchone() == (1,)


@pytest.mark.usefixtures("data")
def test_a_full_disk_is_told_and_loses_nothing() -> None:
    record = Record.open()
    fill(record)
    before = record.summary()

    def full(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(record._engine, "connect", full)
    with pytest.raises(CourseError) as caught:
        record.verdict(
            unit=UNIT,
            exercise="zero-1",
            passed=False,
            points=0,
            of=5,
            failed_at="x" * 100_000,
            source="",
            language="en",
        )
    assert caught.value.id == "shardwise.record-disk-full"
    assert Record.open().summary().certificates == before.certificates


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(CourseError) as caught:
        Record.open()
    assert caught.value.id == "shardwise.record-refused"


# --- one file


def exported(record: Record, path: Path) -> dict[str, Any]:
    record.export(path)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.usefixtures("data")
def test_a_record_moves_to_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Record.open()
    fill(here)
    here.export(tmp_path / "mine.json")
    assert stat.S_IMODE((tmp_path / "mine.json").stat().st_mode) == 0o600

    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "elsewhere"))
    there = Record.open()
    assert there.merge(tmp_path / "mine.json").added == 5
    assert there.merge(tmp_path / "mine.json").added == 0
    assert there.learner == here.learner == Record.open().learner
    assert there.key(lambda: "another") == "a private key"
    assert there.summary() == here.summary()
    one, other = exported(here, tmp_path / "a.json"), exported(there, tmp_path / "b.json")
    one.pop("exported"), other.pop("exported")
    assert one == other


@pytest.mark.usefixtures("data")
def test_two_records_become_one_without_losing_either_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Record.open()
    fill(first)
    first.export(tmp_path / "first.json")
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "second"))
    second = Record.open()
    fill(second, score=0.25)
    learner = second.learner
    assert second.merge(tmp_path / "first.json").added == 5
    assert second.learner == learner == Record.open().learner
    content = exported(second, tmp_path / "both.json")
    assert [each["id"] for each in content["former"]] == [first.learner]
    assert content["former"][0]["key"] == "a private key"
    assert {each["score"] for each in content["attempts"]} == {1.0, 0.25}
    assert second.attempt(unit=UNIT, language="en").number == 2
    assert second.merge(tmp_path / "both.json").added == 0


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("change", "id"),
    [
        (lambda text: text[: len(text) // 2], "record-file-damaged"),
        (lambda text: text.replace('"version": 1,', '"version": 2,', 1), "record-file-newer"),
        (lambda text: text.replace("shardwise-record", "another-record"), "record-file-not-one"),
        (lambda text: text.replace('"credit": 1.0', '"credit": 7'), "record-file-damaged"),
        (lambda text: text.replace('"credit": 1.0', '"credit": NaN'), "record-file-damaged"),
        (lambda text: text.replace('"points"', '"pints"'), "record-file-damaged"),
        (lambda text: text.replace('"language": "nl"', '"language": "nl", "language": "ar"'), "record-file-damaged"),
        (lambda text: text.replace("+00:00", ""), "record-file-damaged"),
        (lambda text: text.replace('"language": "nl"', '"language": "\\ud800"'), "record-file-damaged"),
        (lambda text: text.replace('"credit": 1.0', '"credit": 1e999'), "record-file-damaged"),
        (lambda text: text.replace('"number": 1,', f'"number": {2**63 - 1},'), "record-file-damaged"),
        (lambda text: re.sub('"made": "[^"]*"', '"made": "9999-12-31T23:59:59-23:59"', text), "record-file-damaged"),
        (lambda text: "[" * 100_000, "record-file-damaged"),
        (lambda text: "", "record-file-damaged"),
        (lambda text: "[]", "record-file-not-one"),
        (lambda text: "\x00\x01", "record-file-damaged"),
    ],
)
def test_a_file_that_is_no_good_changes_nothing(tmp_path: Path, change: Any, id: str) -> None:
    record = Record.open()
    fill(record)
    path = tmp_path / "mine.json"
    record.export(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(change(text), encoding="utf-8")
    assert change(text) != text
    before = record.summary()
    with pytest.raises(CourseError) as caught:
        record.merge(path)
    assert caught.value.id == f"shardwise.{id}"
    assert record.summary() == before


@settings(max_examples=60, deadline=None)
@given(at=st.integers(min_value=0, max_value=10_000), byte=st.integers(min_value=0, max_value=255))
def test_any_altered_byte_is_read_or_refused_but_never_a_crash(at: int, byte: int) -> None:
    from shardwise.record import transfer

    content = json.dumps(SAMPLE, indent=1).encode()
    at %= len(content)
    scratch = Path(os.environ["PYTEST_SCRATCH"]) / "altered.json"
    scratch.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
    with contextlib.suppress(CourseError):
        transfer.read(scratch)


SAMPLE = {
    "format": "shardwise-record",
    "version": 1,
    "course": "0.1.0",
    "exported": "2026-11-30T00:00:00+00:00",
    "learner": {"id": "a", "name": None, "key": None, "joined": None, "made": "2026-11-30T00:00:00+00:00"},
    "former": [],
    "predictions": [],
    "attempts": [],
    "answers": [],
    "verdicts": [],
    "certificates": [],
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_SCRATCH", str(tmp_path))


@pytest.mark.usefixtures("data")
def test_an_export_on_a_full_disk_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record.open()
    fill(record)
    path = tmp_path / "mine.json"
    record.export(path)
    before = path.read_bytes()

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CourseError) as caught:
        record.export(path)
    assert caught.value.id == "shardwise.record-disk-full"
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"mine.json", "data"}


def test_every_error_speaks_each_released_language() -> None:
    error = CourseError("shardwise.record-newer", path="record.db", found="9999")
    said = {each.code: error.in_language(translator(each)) for each in languages() if each.released}
    assert len(set(said.values())) == len(said)


# --- the schema


def test_migrations_make_exactly_the_tables_of_the_code(data: Path) -> None:
    Record.open()
    engine = database.connect(f"sqlite:///{data / 'record.db'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).with_name("migrations")))
    scripts = ScriptDirectory.from_config(config)
    assert [each.revision for each in scripts.walk_revisions()][::-1] == list(REVISIONS)


def test_every_table_can_be_made_on_postgresql() -> None:
    made = [str(CreateTable(table).compile(dialect=postgresql.dialect())) for table in Table.metadata.sorted_tables]
    assert any("made TIMESTAMP WITH TIME ZONE" in each for each in made)


def test_a_copy_of_the_data_folder_is_the_record(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Record.open()
    fill(first)
    shutil.copytree(data, tmp_path / "copy")
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "copy"))
    assert Record.open().summary() == first.summary()
