"""Certificates: once and only once, for those who passed; what is revoked stays so; what was issued again says what it
replaces.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

import certificates
from certificates import status, trust
from certificates.issuer import issue
from certificates.status import Place
from shardwise.service import attempts, erasing, issuing
from shardwise.service.app import issuer_of
from shardwise.service.core import Core
from shardwise.service.store import Conflict, Missing
from shardwise.service.tables import Certificate, StatusEntry
from tests.certificates import issuers
from tests.shardwise.service.making import (
    Clock,
    begun,
    core_of,
    exam_folder,
    issuer_folder,
    pass_exam,
    person,
    sitting,
)
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
    third = issuing.correct_name(core, boss, new.id, "Amal M. Haddad")
    assert issuing.name_other(issuing.payload(third.jwt)) == "أمل حداد"
    fourth = issuing.correct_name(core, boss, third.id, "Amal Haddad", other="")
    assert issuing.name_other(issuing.payload(fourth.jwt)) is None


def test_a_renewed_one_holds_longer_and_the_old_one_runs_out_by_itself(core: Core) -> None:
    who, _ = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    old = issuing.request(core, who, pass_exam(core, who).id)
    new = issuing.extend(core, boss, old.id)
    assert old.expires is not None
    assert new.expires == issuing.months_later(old.expires, 36)
    assert verdict(core, new.jwt) == verdict(core, old.jwt) == "issuer"


def test_of_a_renewed_certificate_neither_holds_once_one_is_revoked_or_corrected(core: Core) -> None:
    who, _ = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    first = issuing.request(core, who, pass_exam(core, who).id)
    second = issuing.extend(core, boss, first.id)
    issuing.set_state(core, boss, second.id, "suspended", reason="asked")
    assert verdict(core, first.jwt).startswith("invalid")
    third = issuing.correct_name(core, boss, second.id, "Amal H.")
    assert third.state == "suspended"
    issuing.set_state(core, boss, third.id, "valid")
    assert verdict(core, third.jwt) == "issuer"
    assert [issuing.issued(core, each.id).state for each in (first, second)] == ["revoked", "revoked"]
    issuing.set_state(core, boss, third.id, "revoked", reason="fraud")
    with pytest.raises(Conflict, match="for ever"):
        issuing.correct_name(core, boss, third.id, "Amal Haddad")


def test_what_could_never_be_signed_is_not_meant_either(core: Core, clock: Clock) -> None:
    """Else the next start would find an intent that it can't sign."""
    who, _ = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    kept = issuing.request(core, who, pass_exam(core, who).id)
    with pytest.raises(CourseError):
        issuing.correct_name(core, boss, kept.id, "Amal Haddad", other="<\u202e>")
    assert verdict(core, kept.jwt) == "issuer"
    clock.at -= timedelta(days=5 * 365)
    late, _ = person(core, "late@example.org")
    id = pass_exam(core, late).id
    clock.at += timedelta(days=5 * 365)  # longer than such a certificate holds
    with pytest.raises(CourseError):
        issuing.request(core, late, id)
    with core.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Certificate)) == 1
    assert issuing.recover(core) == 0


def test_an_intent_that_cannot_be_signed_keeps_no_other_from_being_signed(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []
    for email in ("amal@example.org", "noor@example.org"):
        who, _ = person(core, email)
        ids.append(pass_exam(core, who).id)
        with _no_signature(monkeypatch), pytest.raises(Missing):
            issuing.request(core, who, ids[-1])
    with core.store.writing() as session:
        broken = session.get_one(Certificate, issuing.certificate_id(ids[0], 1))
        broken.intent = {**broken.intent, "salt": "short"}
    assert issuing.recover(core) == 1
    assert issuing.issued(core, issuing.certificate_id(ids[1], 1)).jwt


def test_who_is_deleted_while_their_certificate_is_being_signed_stays_deleted(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, _ = person(core)
    id = pass_exam(core, who).id
    with _no_signature(monkeypatch), pytest.raises(Missing):
        issuing.request(core, who, id)
    real = issue

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        erasing.erase(core, None, who.id)
        return real(*arguments, **named)

    monkeypatch.setattr(issuing, "issue", meanwhile)
    issuing.sign(core, issuing.certificate_id(id, 1))
    found = issuing.issued(core, issuing.certificate_id(id, 1))
    assert (found.jwt, found.name, found.state) == ("", "", "revoked")


def test_the_tenth_list_comes_after_the_ninth(core: Core) -> None:
    with core.store.writing() as session:
        for number in ("9", "10"):
            session.add(StatusEntry(certificate=f"restored {number}", list=number, position=0))
    who, _ = person(core)
    made = issuing.request(core, who, pass_exam(core, who).id)
    with core.store.reading() as session:
        assert session.get_one(StatusEntry, made.id).list == "10"


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


MODULE = """
from certificates import office
from pathlib import Path

FOLDER = Path({folder!r})

class Module:
    '''As a hardware module has it: four members, and a key that is handed out to nobody.'''

    def __init__(self, inner):
        self.did, self.key_id, self.public_key, self._inner = inner.did, inner.key_id, inner.public_key, inner
        self.signed = 0

    def sign(self, data):
        self.signed += 1
        return self._inner.sign(data)

def module(issuer):
    return Module(office.signer(FOLDER, issuer))

def of_another(issuer):
    other = module(issuer)
    other.public_key = bytes(32)
    return other

def broken(issuer):
    raise OSError("no card in the reader")
"""


def test_the_key_may_lie_in_a_module_that_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = issuer_folder(tmp_path / "issuer")
    (tmp_path / "card_of_this_test.py").write_text(MODULE.format(folder=str(folder)), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = issuer_of(folder, signer="card_of_this_test:module")
    assert found is not None
    made = issue(
        issuers.exam_in("en"),
        issuer=found.issuer,
        signer=found.signer,
        status=Place(number=1, index=7),
        language="en",
    )
    assert found.signer.signed == 1  # type: ignore[attr-defined]
    trusted = trust.parse(json.dumps(found.issuer.trust.as_json()).encode())
    assert certificates.verify(made.jwt.encode(), trust=trusted).verdict == "status-not-checked"
    for name in ("of_another", "broken", "missing"):
        with pytest.raises(CourseError) as refused:
            issuer_of(folder, signer=f"card_of_this_test:{name}")
        assert refused.value.id == "shardwise.service-no-signer"
    with pytest.raises(CourseError):
        issuer_of(folder, signer="there.is.no.such:module")
