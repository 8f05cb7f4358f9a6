"""Certificates: once and only once, for those who passed; what is revoked stays so; what was issued again says what it
replaces.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

import certificates
from certificates import status
from certificates.issuer import issue
from certificates.status import Place
from shardwise.service import attempts, issuing
from shardwise.service.core import Core
from shardwise.service.store import Conflict, Missing
from shardwise.service.tables import Certificate, StatusEntry
from tests.shardwise.service.making import Clock, begun, core_of, exam_folder, pass_exam, person, sitting
from translations import CourseError


def verdict(core: Core, jwt: str) -> str:
    """What a verifier that trusts this issuer says of a token, with the status lists as they are now."""
    assert core.issuing is not None
    issuer = core.issuing.issuer

    def fetched(url: str) -> bytes:
        purpose, number = url.removeprefix(f"{issuer.address}/status/").removesuffix(".jwt").split("/")
        return issuing.status_list(core, purpose, int(number)).encode()

    found = certificates.verify(jwt.encode(), trust=issuer.trust, fetch=fetched)
    return found.verdict if found.failed is None else f"{found.verdict} {found.failed.reason}"


@pytest.fixture
def clock() -> Clock:
    """Now: what is issued is to be verified by the verifier's own clock."""
    from shardwise.record.tables import now

    return Clock(at=now())


def test_a_passed_exam_gives_one_certificate_that_verifies(core: Core) -> None:
    who, _ = person(core)
    id = pass_exam(core, who, supervised=True).id
    found = issuing.request(core, who, id, language="ar")
    assert verdict(core, found.jwt) == "issuer"
    assert issuing.request(core, who, id) == found
    assert issuing.issued_to(core, who) == (found,)
    said = issuing.payload(found.jwt)
    proofs = {each["genre"]: each["narrative"] for each in said["evidence"]}
    assert (proofs["supervised"], proofs["items"], proofs["attempt-number"]) == ("yes", "private", "1/2")
    assert said["credentialSubject"]["identifier"][0]["identityHash"] == "Amal Haddad"
    assert "amal@example.org" not in found.jwt + str(said)
    with core.store.reading() as session:
        assert "amal@example.org" not in str(session.get_one(Certificate, found.id).intent)


def test_who_asks_in_many_tabs_gets_the_same_certificate(core: Core) -> None:
    who, _ = person(core)
    id = pass_exam(core, who).id
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: issuing.request(core, who, id).jwt, range(8)))
    assert len(set(found)) == 1
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Certificate)) == 1
        assert session.scalar(select(func.count()).select_from(StatusEntry)) == 1


def test_who_did_not_pass_or_is_not_done_or_is_somebody_else_gets_none(core: Core) -> None:
    who, _ = person(core)
    other, _ = person(core, "noor@example.org")
    standing = begun(core, who)
    with pytest.raises(Conflict, match="not there yet"):
        issuing.request(core, who, standing.id)
    attempts.hand_in(core, who, standing.id)
    with pytest.raises(Conflict, match="not passed"):
        issuing.request(core, who, standing.id)
    passed = pass_exam(core, other)
    with pytest.raises(Missing):
        issuing.request(core, who, passed.id)
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Certificate)) == 0


@contextmanager
def _no_signature(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the server were killed after the intent."""
    with monkeypatch.context() as patch:
        patch.setattr(issuing, "sign", lambda core, id: None)
        yield


def test_an_intent_that_a_killed_server_left_is_signed_as_it_was_meant(
    core: Core, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    who, _ = person(core)
    id = pass_exam(core, who).id
    with _no_signature(monkeypatch), pytest.raises(Missing):
        issuing.request(core, who, id)
    assert issuing.issued_to(core, who) == ()
    assert issuing.recover(core) == 1
    assert issuing.recover(core) == 0
    (found,) = issuing.issued_to(core, who)
    assert found.issued == clock.at.replace(microsecond=0)
    assert verdict(core, found.jwt) == "issuer"
    assert issuing.request(core, who, id) == found


def test_two_that_sign_the_same_intent_at_once_sign_the_same(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    who, _ = person(core)
    id = pass_exam(core, who).id
    with _no_signature(monkeypatch), pytest.raises(Missing):
        issuing.request(core, who, id)
    made: list[str] = []
    together, real = threading.Barrier(4), issue

    def slow(*arguments: Any, **named: Any) -> Any:
        found = real(*arguments, **named)
        made.append(found.jwt)
        together.wait(10)
        return found

    monkeypatch.setattr(issuing, "issue", slow)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: issuing.sign(core, issuing.certificate_id(id, 1)), range(4)))
    assert len(made) == 4
    assert set(made) == {issuing.issued_to(core, who)[0].jwt}


def test_revoked_is_for_ever_and_suspended_is_not(core: Core) -> None:
    who, _ = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    found = issuing.request(core, who, pass_exam(core, who).id)
    assert issuing.set_state(core, boss, found.id, "suspended", reason="asked").state == "suspended"
    assert verdict(core, found.jwt).startswith("invalid")
    issuing.set_state(core, boss, f"urn:uuid:{found.id}", "valid")
    assert verdict(core, found.jwt) == "issuer"
    issuing.set_state(core, boss, found.id, "revoked")
    assert verdict(core, found.jwt).startswith("invalid")
    with pytest.raises(Conflict, match="for ever"):
        issuing.set_state(core, boss, found.id, "valid")
    with pytest.raises(Missing):
        issuing.set_state(core, boss, "0" * 8, "revoked")


def test_a_corrected_name_is_a_new_certificate_and_the_old_one_is_revoked(core: Core) -> None:
    who, _ = person(core, name="Amal Hadad")
    boss, _ = person(core, "boss@example.org", role="administrator")
    old = issuing.request(core, who, pass_exam(core, who).id)
    new = issuing.correct_name(core, boss, old.id, "Amal Haddad", other="أمل حداد")
    assert (new.edition, new.name, verdict(core, new.jwt)) == (2, "Amal Haddad", "issuer")
    assert issuing.issued(core, old.id).replaced_by == new.id
    assert verdict(core, old.jwt).startswith("invalid")
    assert {"genre": "replaces", "narrative": f"urn:uuid:{old.id}", "type": ["Evidence"]} in issuing.payload(new.jwt)[
        "evidence"
    ]
    with pytest.raises(Conflict, match="replaced already"):
        issuing.correct_name(core, boss, old.id, "Somebody Else")
    with pytest.raises(CourseError):
        issuing.correct_name(core, boss, new.id, "<b>\u202e</b>")


def test_a_renewed_one_holds_longer_and_the_old_one_runs_out_by_itself(core: Core) -> None:
    who, _ = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    old = issuing.request(core, who, pass_exam(core, who).id)
    new = issuing.extend(core, boss, old.id)
    assert old.expires is not None
    assert new.expires == issuing.months_later(old.expires, 36)
    assert verdict(core, new.jwt) == verdict(core, old.jwt) == "issuer"


def test_a_place_in_the_lists_is_never_used_twice(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([5, 5, 5, 9])
    monkeypatch.setattr(
        status,
        "free_place",
        lambda taken, *, number=1: Place(number=number, index=next(each for each in drawn if each not in taken)),
    )
    for number in range(2):
        who, _ = person(core, f"{number}@example.org")
        issuing.request(core, who, pass_exam(core, who).id)
    with core.store.reading() as session:
        assert sorted(session.scalars(select(StatusEntry.position))) == [5, 9]


def test_the_public_bank_is_refused_unless_the_policy_says_so_and_then_the_certificate_says_it(tmp_path: Path) -> None:
    from shardwise.record.tables import now

    clock = Clock(at=now())
    with closing(core_of(tmp_path / "no", clock=clock)) as core:
        exam_folder(tmp_path / "no" / "exams", banks=[])
        with pytest.raises(CourseError, match="too few"):
            sitting(core)
    exam_folder(tmp_path / "yes" / "exams", banks=[], public_bank=True)
    with closing(core_of(tmp_path / "yes", clock=clock)) as core:
        who, _ = person(core)
        found = issuing.request(core, who, pass_exam(core, who).id)
        proofs = {each["genre"]: each["narrative"] for each in issuing.payload(found.jwt)["evidence"]}
        assert proofs["items"] == "public"
        assert verdict(core, found.jwt) == "issuer"


def test_without_an_issuer_there_are_exams_and_no_certificates(tmp_path: Path) -> None:
    with closing(core_of(tmp_path, with_issuer=False)) as core:
        who, _ = person(core)
        id = pass_exam(core, who).id
        with pytest.raises(Conflict, match="no issuer"):
            issuing.request(core, who, id)


@pytest.mark.parametrize(
    ("at", "months", "day"),
    [("2026-01-31", 1, "2026-02-28"), ("2024-02-29", 36, "2027-02-28"), ("2026-11-30", 3, "2027-02-28")],
)
def test_months_end_where_months_end(at: str, months: int, day: str) -> None:
    from datetime import datetime

    assert issuing.months_later(datetime.fromisoformat(at), months) == datetime.fromisoformat(day)
