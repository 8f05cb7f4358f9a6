"""Backup while the service runs, restoring it into either kind of database, and what must not come back with it."""

from __future__ import annotations

import json
import threading
import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

import certificates
from shardwise.service import attempts, backup, erasing, issuing
from shardwise.service.core import Core
from shardwise.service.pages.public import local_fetch
from shardwise.service.store import Forbidden, Missing, Store
from shardwise.service.tables import Account, Answer, Attempt, Audit, StatusEntry, Submission, Table
from tests.shardwise.service import making
from tests.shardwise.service.making import Clock, core_of
from translations import CourseError


def everything(store: Store) -> dict[str, list[object]]:
    """All rows, by table."""
    with store.engine.connect() as connection:
        found = {}
        for table in Table.metadata.sorted_tables:
            query = select(table).order_by(*table.primary_key.columns)
            found[table.name] = [dict(row) for row in connection.execute(query).mappings()]
        return found  # type: ignore[return-value]


def filled(core: Core) -> issuing.Issued:
    """A service in which something of everything was done."""
    amal, _ = making.person(core)
    done = making.pass_exam(core, amal)
    return issuing.request(core, amal, done.id)


def restored(folder: Path, database: str, clock: Clock) -> Core:
    return core_of(folder, clock=clock, database=database)


def test_a_backup_restored_is_the_same_service(core: Core, clock: Clock, tmp_path: Path) -> None:
    """From either kind of database into SQLite: every row, and the certificate verifies as before."""
    made = filled(core)
    before = everything(core.store)
    file = tmp_path / "kept.zip"
    kept = backup.backup(core.store, file, at=clock())
    assert file.stat().st_mode & 0o777 == 0o600
    assert kept.total == sum(len(rows) for rows in before.values()) > 10
    other = tmp_path / "other"
    other.mkdir()
    settings = making.settings(other)
    done = backup.restore(settings, file, at=clock())
    assert (done.rows, done.erased, done.states, done.aside) == (kept.total, 0, 0, None)
    with closing(Store.open(settings.database)) as store:
        after = everything(store)
    extra = [row for row in after["status_entry"] if row not in before["status_entry"]]
    assert len(extra) == 1  # the new list, so that no place is given twice
    assert before["visit"]
    assert after["visit"] == []  # a session that was ended since does not live again
    others = set(before) - {"status_entry", "audit", "visit"}
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert all(row in after["audit"] for row in before["audit"])
    (other / "issuer").symlink_to(tmp_path / "issuer")
    with closing(restored(other, settings.database, clock)) as again:
        assert issuing.issued(again, made.id).jwt == made.jwt


def test_a_sqlite_backup_moves_to_postgresql(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres")
    with closing(core_of(tmp_path, clock=clock)) as core:
        filled(core)
        backup.backup(core.store, tmp_path / "kept.zip", at=clock())
        before = everything(core.store)
    settings = making.settings(tmp_path, database=server.database())
    backup.restore(settings, tmp_path / "kept.zip", at=clock())
    with closing(Store.open(settings.database)) as store:
        after = everything(store)
    assert after["answer"] == before["answer"]
    assert after["certificate"] == before["certificate"]
    with pytest.raises(CourseError) as refused:
        backup.restore(settings, tmp_path / "kept.zip", at=clock())
    assert refused.value.id == "shardwise.service-restore-not-empty"


def test_a_backup_is_of_one_moment_while_answers_are_written(core: Core, clock: Clock, tmp_path: Path) -> None:
    """An attempt is never there without its sitting and account, nor an answer without its attempt, and what was
    acknowledged before the backup began is in it.
    """
    stop, failed = threading.Event(), list[BaseException]()

    def work(number: int) -> None:
        try:
            who, _ = making.person(core, f"w{number}@example.org")
            begun = making.begun(core, who)
            turn = 0
            while not stop.is_set():
                turn += 1
                for question in range(1, begun.questions + 1):
                    attempts.answer(core, who, begun.id, question, str(turn % 2 + 1))
        except BaseException as raised:
            failed.append(raised)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in workers:
        each.start()
    try:
        for turn in range(4):
            with core.store.reading() as session:
                acknowledged = session.scalar(select(func.count()).select_from(Answer)) or 0
            kept = backup.backup(core.store, tmp_path / f"{turn}.zip", at=clock())
            rows = {}
            with zipfile.ZipFile(tmp_path / f"{turn}.zip") as archive:
                for name in ("account", "sitting", "attempt", "answer"):
                    rows[name] = [json.loads(line) for line in archive.read(f"{name}.jsonl").splitlines()]
            tries = {each["id"] for each in rows["attempt"]}
            assert {each["attempt"] for each in rows["answer"]} <= tries
            assert {each["account"] for each in rows["attempt"]} <= {each["id"] for each in rows["account"]}
            assert {each["sitting"] for each in rows["attempt"]} <= {each["id"] for each in rows["sitting"]}
            assert kept.rows["answer"] == len(rows["answer"]) >= acknowledged
            by_place: dict[tuple[str, int], list[int]] = {}
            for each in rows["answer"]:
                by_place.setdefault((each["attempt"], each["position"]), []).append(each["revision"])
            assert all(sorted(found) == list(range(1, len(found) + 1)) for found in by_place.values())
    finally:
        stop.set()
        for each in workers:
            each.join(30)
    assert not failed


def test_what_is_no_whole_backup_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    with closing(core_of(tmp_path, clock=clock)) as core:
        filled(core)
        backup.backup(core.store, tmp_path / "kept.zip", at=clock())
        before = everything(core.store)
        settings = core.settings
    data = (tmp_path / "kept.zip").read_bytes()
    tampered = tmp_path / "tampered.zip"
    with zipfile.ZipFile(tmp_path / "kept.zip") as old, zipfile.ZipFile(tampered, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"Amal", b"Eva!") if name == "account.jsonl" else content)
    for number, bad in enumerate((b"", b"no zip", data[: len(data) // 2], data[:-30], tampered.read_bytes())):
        file = tmp_path / f"bad{number}.zip"
        file.write_bytes(bad)
        with pytest.raises(CourseError) as refused:
            backup.restore(settings, file, at=clock())
        assert refused.value.id == "shardwise.service-backup-damaged"
    with pytest.raises(CourseError) as refused, closing(Store.open(settings.database)) as store:
        backup.backup(store, tmp_path / "kept.zip", at=clock())
    assert refused.value.id == "shardwise.service-backup-there"
    with closing(Store.open(settings.database)) as store:
        assert everything(store) == before
    assert not list(tmp_path.glob(".*.zip*"))


def test_restoring_forgets_neither_deletions_nor_revocations_nor_places(tmp_path: Path, clock: Clock) -> None:
    """After the backup one person is deleted, one certificate revoked, one suspended and one issued; then the older
    state is put back.
    """
    with closing(core_of(tmp_path, clock=clock)) as core:
        boss, _ = making.person(core, "boss@example.org", role="administrator")
        people = [
            making.person(core, f"p{number}@example.org", name=f"Person {'ABCD'[number]}")[0] for number in range(4)
        ]
        made = [issuing.request(core, each, making.pass_exam(core, each).id) for each in people[:3]]
        late = making.pass_exam(core, people[3])
        backup.backup(core.store, tmp_path / "kept.zip", at=clock())
        clock.on(hours=1)
        erasing.erase(core, boss, people[0].id)
        issuing.set_state(core, boss, made[1].id, "revoked", reason="found out")
        issuing.set_state(core, boss, made[2].id, "suspended", reason="looking")
        new = issuing.request(core, people[3], late.id)
        given = places(core.store)
        settings = core.settings
    done = backup.restore(settings, tmp_path / "kept.zip", at=clock())
    assert done.erased == 1
    assert done.aside is not None
    assert done.aside.exists()
    with closing(core_of(tmp_path, clock=clock)) as core:
        with core.store.reading() as session:
            gone = session.get_one(Account, people[0].id)
            assert (gone.email, gone.name, gone.active) == (None, "", False)
        assert issuing.issued(core, made[0].id).state == "revoked"
        assert issuing.issued(core, made[0].id).name == ""
        assert issuing.issued(core, made[1].id).state == "revoked"
        assert issuing.issued(core, made[2].id).state == "suspended"
        assert given <= places(core.store)
        again = issuing.request(core, people[3], late.id)
        assert again.id == new.id  # the same attempt has the same number, and a place of its own
        assert places(core.store) >= given


def test_published_lists_say_what_was_revoked_when_the_database_is_lost(tmp_path: Path, clock: Clock) -> None:
    clock.at = datetime.now(UTC)  # a list is believed for a day
    with closing(core_of(tmp_path, clock=clock)) as core:
        boss, _ = making.person(core, "boss@example.org", role="administrator")
        people = [making.person(core, f"p{number}@example.org")[0] for number in range(3)]
        made = [issuing.request(core, each, making.pass_exam(core, each).id) for each in people[:2]]
        last = making.pass_exam(core, people[2])
        backup.backup(core.store, tmp_path / "kept.zip", at=clock())
        issuing.set_state(core, boss, made[0].id, "revoked", reason="found out")
        lost = issuing.request(core, people[2], last.id)
        issuing.set_state(core, boss, lost.id, "revoked", reason="found out")
        lists = []
        for purpose in ("suspension", "revocation"):
            lists.append(tmp_path / f"{purpose}.jwt")
            lists[-1].write_text(issuing.status_list(core, purpose, 1), encoding="ascii")
        settings = core.settings
    Path(settings.database.removeprefix("sqlite:///")).unlink()
    done = backup.restore(settings, tmp_path / "kept.zip", published=lists, at=clock())
    assert done.states == 2
    with closing(core_of(tmp_path, clock=clock)) as core:
        trust, fetch = issuing.issuing_of(core).issuer.trust, local_fetch(core)
        assert issuing.issued(core, made[0].id).state == "revoked"
        assert issuing.issued(core, made[1].id).state == "valid"
        for each, verdict in ((made[0], "invalid"), (made[1], "issuer"), (lost, "invalid")):
            assert certificates.verify(each.jwt.encode(), trust=trust, fetch=fetch).verdict == verdict
    (tmp_path / "no.jwt").write_text("a.b.c", encoding="ascii")
    with pytest.raises(CourseError) as refused:
        backup.restore(settings, tmp_path / "kept.zip", published=[tmp_path / "no.jwt"], at=clock())
    assert refused.value.id == "shardwise.service-list-unreadable"


def places(store: Store) -> set[tuple[str, int]]:
    with store.reading() as session:
        return {(each.list, each.position) for each in session.scalars(select(StatusEntry))}


# --- deleting a person's data


def test_after_deletion_nothing_names_the_person_and_the_list_says_revoked(core: Core, clock: Clock) -> None:
    boss, _ = making.person(core, "boss@example.org", role="administrator", name="Bo Boss")
    amal, token = making.person(core, "amal@example.org", name="Amal Haddad")
    made = issuing.request(core, amal, making.pass_exam(core, amal).id, name_other="أمل حداد")
    clock.on(days=2)
    making.begun(core, amal)
    place = next(iter(places(core.store)))
    done = erasing.erase(core, boss, amal.id)
    assert (done.certificates, done.attempts) == (1, 2)
    with core.store.engine.connect() as connection:
        for table in Table.metadata.sorted_tables:
            rows = str([dict(row) for row in connection.execute(select(table)).mappings()])
            for word in ("amal", "Amal", "Haddad", "حداد", made.jwt[-40:], token):
                assert word not in rows, (table.name, word)
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Answer)) == 0
        assert session.scalar(select(func.count()).select_from(Submission)) == 0
        assert session.scalar(select(func.count()).select_from(Attempt)) == 1
        entry = session.get_one(StatusEntry, made.id)
        assert (entry.state, entry.list, entry.position) == ("revoked", *place)
        assert session.scalar(select(func.count()).where(Audit.action == "person-erased")) == 1
    assert issuing.issued(core, made.id).jwt == ""
    assert issuing.recover(core) == 0
    erasing.erase(core, boss, amal.id)
    with pytest.raises(Forbidden):
        erasing.erase(core, boss, boss.id)
    with pytest.raises(Missing):
        erasing.erase(core, boss, "nobody")
    other, _ = making.person(core, "amal@example.org", name="Amal Haddad")
    assert other.id != amal.id  # who comes back is somebody new


def test_letters_of_a_deleted_person_leave_the_outbox(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox.txt"
    letters = [f"To: {name}@example.org\nSubject: x\n\nDear {name},\n\nyour link\n" for name in ("amal", "ben")]
    outbox.write_text("\n\n".join(letters), encoding="utf-8")
    erasing.forget_letters(outbox, ["amal@example.org"])
    left = outbox.read_text(encoding="utf-8")
    assert "amal" not in left
    assert "Dear ben" in left
    assert outbox.stat().st_mode & 0o777 == 0o600


def test_a_line_cut_off_by_a_power_cut_spoils_no_list(tmp_path: Path) -> None:
    settings = making.settings(tmp_path)
    erasing.note(settings, "one", making.START)
    with erasing.list_file(settings).open("a", encoding="utf-8") as file:
        file.write('{"account": "tw')
    assert erasing.noted(settings) == {"one"}


def test_the_second_revision_can_be_taken_back_and_put_on(core: Core) -> None:
    from shardwise.service.store import downgrade, upgrade

    filled(core)
    downgrade(core.store.engine, "0001")
    with core.store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM certificate")).scalar() == 1
    upgrade(core.store.engine)
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Table.metadata.tables["report"])) == 0
