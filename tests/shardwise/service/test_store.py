"""The database: schema up and down on both kinds, what is written is on the disk, what is tried leaves nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, text

from shardwise.service.settings import Secret, load
from shardwise.service.store import Busy, Store, connect, downgrade, upgrade
from shardwise.service.tables import REVISIONS, Account, Table
from tests.shardwise.service.making import settings
from translations import CourseError


def test_migrations_give_the_tables_of_the_code_and_go_back(database: str) -> None:
    engine = connect(database)
    try:
        for revision in REVISIONS:
            upgrade(engine, revision)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            ours = [each for each in compare_metadata(context, Table.metadata) if "service_rates" not in str(each)]
            assert ours == []
        for revision in (*reversed(REVISIONS[:-1]), "base"):
            downgrade(engine, revision)
        assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
        upgrade(engine)
        assert set(Table.metadata.tables) <= set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_an_older_schema_is_not_touched_unasked_and_a_newer_one_never(database: str) -> None:
    engine = connect(database)
    upgrade(engine, REVISIONS[0])
    if len(REVISIONS) > 1:
        with pytest.raises(CourseError, match="shardwise service migrate"):
            Store.open(database)
    Store.open(database, migrate=True).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CourseError, match="newer service"):
        Store.open(database, migrate=True)
    engine.dispose()


def test_what_is_tried_or_fails_leaves_nothing(database: str) -> None:
    with closing(Store.open(database)) as store:
        with store.trying() as session:
            session.add(Account(email="a@example.org"))
            session.flush()
            assert session.scalar(select(Account.email)) == "a@example.org"
        with pytest.raises(Busy), store.writing() as session:
            session.add_all([Account(email="b@example.org"), Account(email="b@example.org")])
        with store.reading() as session:
            assert session.scalar(select(Account.email)) is None


def test_sqlite_forces_each_commit_to_the_disk_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "service.db"
    with closing(Store.open(f"sqlite:///{path}")) as store, store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert path.stat().st_mode & 0o077 == 0


# --- settings


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"public_url": "http://exams.example"}, "not https"),
        ({"host": "0.0.0.0"}, "not https"),
        ({"host": "0.0.0.0", "public_url": "https://exams.example"}, "mail server"),
        ({"accounts": "off"}, "Nobody could sign in"),
        ({"secret": Secret("short")}, "shorter than 32"),
    ],
)
def test_unsafe_settings_are_refused_with_a_sentence(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        settings(tmp_path, **changes).check()
    settings(tmp_path / "safe").check()


def test_settings_come_from_file_and_environment_and_secrets_are_never_shown(tmp_path: Path) -> None:
    secret = tmp_path / "smtp"
    secret.write_text("hunter2\n", encoding="utf-8")
    secret.chmod(0o600)
    file = tmp_path / "service.yaml"
    file.write_text(
        "data: data\nport: 9000\nsmtp_host: mail.example\nsmtp_sender: exams@example.org\nsmtp_user: exams\n"
        f"smtp_password_file: {secret.name}\nadministrators: [boss@example.org]\n",
        encoding="utf-8",
    )
    environ = {"SHARDWISE_SERVICE_PORT": "9001", "SHARDWISE_SERVICE_DATA": str(tmp_path / "d")}
    found = load(file, environ=environ)
    assert found.smtp is not None
    assert found.smtp.password is not None
    assert (found.port, found.smtp.password.value, found.administrators) == (9001, "hunter2", ("boss@example.org",))
    assert "hunter2" not in repr(found) + str(found.smtp.password)
    assert found.secret.value not in repr(found)
    assert load(file, environ=environ).secret == found.secret  # made once
    assert (tmp_path / "d" / "secret").stat().st_mode & 0o077 == 0
    secret.chmod(0o644)
    with pytest.raises(CourseError, match="chmod 600"):
        load(file, environ=environ)
    file.write_text("data: own", encoding="utf-8")
    assert load(file, environ={}).data == tmp_path / "own"  # seen from the file's folder
    for wrong, said in (("prot: 1", "prot"), ("graders: many", "graders"), ("- a", "YAML")):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(CourseError, match=said):
            load(file, environ=environ)
