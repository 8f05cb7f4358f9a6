"""Issuing certificates once and only once, whatever is killed in between; revoking, suspending, issuing again.

First the intent is written, with all that the certificate is made from: id, salt, moment and place in the status
lists. A constraint lets one intent an attempt and edition in. Only then is it signed, and the signed text is written
where none is yet. Whoever finds an intent without a signature (after a kill: the next start, or the next request)
signs that same intent: the same bytes, since Ed25519 has no chance in it. Nothing is handed out before it is written.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import logging
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from sqlalchemy import Integer, cast, func, or_, select
from sqlalchemy.orm import Session

from certificates import status as lists
from certificates.credential import Certificate as Signed
from certificates.evidence import Result
from certificates.exam import ExamEvidence
from certificates.issuer import Issuer, issue, reissue, renew
from certificates.signing import Signer
from certificates.status import Place
from certificates.strict import Refused
from shardwise.service.accounts import Person, spoken
from shardwise.service.attempts import settle
from shardwise.service.core import Core
from shardwise.service.exams import policy_of
from shardwise.service.signing import Issuing
from shardwise.service.store import Conflict, Forbidden, Missing, audit
from shardwise.service.tables import Account, Attempt, Certificate, Sitting, StatusEntry
from translations import CourseError

State = Literal["valid", "suspended", "revoked"]
_log = logging.getLogger("shardwise.service")


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A certificate that is there. `state`: `valid`, `suspended`, `revoked`; `expired` and `replaced_by` stand beside
    it.

    `name` and `jwt` are empty once the person's data was deleted: that it was issued, and its state, stay.
    """

    id: str
    attempt: str
    account: str
    exam: str
    title: str
    name: str
    language: str
    jwt: str
    edition: int
    issued: datetime
    expires: datetime | None
    expired: bool
    state: State
    reason: str
    replaced_by: str | None
    supervised: bool
    attempt_number: int


def number(id: str) -> str:
    """The id as the table has it: of `urn:uuid:...` and of an address the UUID. Raises Missing for anything else."""
    try:
        return str(uuid.UUID(id.rpartition("/")[2].removeprefix("urn:uuid:")))
    except ValueError:
        raise Missing("shardwise.service-no-such-certificate") from None


def certificate_id(attempt: str, edition: int) -> str:
    """The id of an attempt's certificate: the same whenever it is asked, and not to be guessed, since the attempt's is
    random.
    """
    return str(uuid.uuid5(uuid.UUID(attempt), f"certificate/{edition}"))


def issuing_of(core: Core) -> Issuing:
    if core.issuing is None:
        raise Conflict("shardwise.service-no-issuer")
    return core.issuing


# --- asking


def request(
    core: Core, person: Person, attempt: str, *, language: str | None = None, name_other: str | None = None
) -> Issued:
    """The certificate of a passed attempt; asked again, in two tabs or after a kill, the same one.

    Raises Conflict while it is not graded or was not passed, and CourseError where the account's name can't stand on a
    certificate.
    """
    from certificates.credential import holder_name

    issuing_of(core)
    settle(core, attempt)
    with core.store.writing() as session:
        at = core.clock()
        found = session.scalar(
            select(Attempt).where(Attempt.id == attempt, Attempt.account == person.id).with_for_update()
        )
        if found is None:
            raise Missing("shardwise.service-no-such-attempt")
        query = select(Certificate).where(Certificate.attempt == attempt).order_by(Certificate.edition.desc()).limit(1)
        kept = session.scalar(query)
        if kept is None:
            account = session.get_one(Account, person.id)
            evidence = evidence_of(core, session, found, account, name_other=name_other)
            reader = spoken(language or found.language)
            for each in (account.name, name_other):
                if each is not None:
                    holder_name(each)
            kept = _intend(
                session,
                found,
                edition=1,
                name=evidence.holder,
                language=reader,
                expires=evidence.expires_at,
                at=at,
                intent={"kind": "issue", "evidence": _flat(evidence), "salt": secrets.token_hex(32)},
            )
            _try(session, core, kept)
            audit(session, actor=person.id, action="certificate-intended", about=kept.id, attempt=attempt)
        id = kept.id
    sign(core, id)
    return issued(core, id)


def evidence_of(
    core: Core, session: Session, attempt: Attempt, account: Account, *, name_other: str | None = None
) -> ExamEvidence:
    """What a graded attempt shows. Raises Conflict where it shows no passed exam, or items that may not count."""
    found = attempt.outcome
    if found is None:
        raise Conflict("shardwise.service-not-graded-yet")
    if not found["passed"]:
        raise Conflict("shardwise.service-not-passed")
    policy = policy_of(attempt.policy)
    if found["public"] and not policy.public_bank:
        raise Forbidden("shardwise.service-bank-public", exam=attempt.exam, item="-")
    if not account.name:
        raise Conflict("shardwise.service-name-first")
    from labs.exercises import exercise

    ended = datetime.fromisoformat(found["ended"])
    practical = found["practical"]
    sitting = session.get_one(Sitting, attempt.sitting)
    return ExamEvidence(
        exam=attempt.exam,
        title=core.exams.title(attempt.exam, attempt.language),
        holder=account.name,
        holder_other=name_other,
        email=account.email,
        results=tuple(Result(id=each["id"], title=each["text"], share=each["share"]) for each in found["objectives"]),
        quiz_score=found["quiz"]["share"],
        pass_mark=found["quiz"]["needed"],
        labs=tuple(
            Result(
                id=each["exercise"],
                title=exercise(each["exercise"], attempt.language).title,
                share=each["points"] / each["of"] if each["of"] else 0.0,
            )
            for each in (found["tasks"] if practical else ())
        ),
        labs_score=practical["share"] if practical else None,
        labs_mark=practical["needed"] if practical else None,
        attempt_hash=found["attempt_hash"],
        bank_hash=attempt.paper["bank"],
        seed_hash="sha256:" + hashlib.sha256(bytes.fromhex(attempt.seed)).hexdigest(),
        course_version=version("shardwise"),
        language=attempt.language,
        awarded_at=ended,
        expires_at=None if policy.valid_months is None else months_later(ended, policy.valid_months),
        supervised=attempt.supervised,
        public_bank=found["public"],
        attempt=attempt.number,
        attempts=max(policy.attempts, attempt.number) if sitting.attempts is None else None,
    )


def months_later(at: datetime, months: int) -> datetime:
    """The same day so many months later, or that month's last."""
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    day = min(at.day, calendar.monthrange(year, month + 1)[1])
    return at.replace(year=year, month=month + 1, day=day)


def _flat(evidence: ExamEvidence) -> dict[str, Any]:
    flat: dict[str, Any] = json.loads(json.dumps(asdict(evidence), default=lambda each: each.isoformat()))
    return flat


def _evidence(flat: Mapping[str, Any]) -> ExamEvidence:
    moments = {
        name: None if flat[name] is None else datetime.fromisoformat(flat[name])
        for name in ("awarded_at", "expires_at")
    }
    lists_ = {name: tuple(Result(**each) for each in flat[name]) for name in ("results", "labs")}
    return ExamEvidence(**{**flat, **moments, **lists_})


# --- intending and signing


def _intend(
    session: Session,
    attempt: Attempt,
    *,
    edition: int,
    name: str,
    language: str,
    expires: datetime | None,
    at: datetime,
    intent: dict[str, Any],
) -> Certificate:
    id = certificate_id(attempt.id, edition)
    made = Certificate(
        id=id,
        attempt=attempt.id,
        edition=edition,
        account=attempt.account,
        name=name,
        language=language,
        intent={**intent, "at": at.astimezone(UTC).replace(microsecond=0).isoformat()},
        made=at,
        expires=expires,
    )
    place = _place(session)
    session.add(made)
    session.add(StatusEntry(certificate=id, list=str(place.number), position=place.index, changed=at))
    session.flush()
    return made


def _place(session: Session) -> Place:
    """A place that no certificate ever had. Two that draw the same at once: the constraint lets one in."""
    newest = session.scalar(select(func.max(cast(StatusEntry.list, Integer)))) or 1
    while True:
        taken = set(session.scalars(select(StatusEntry.position).where(StatusEntry.list == str(newest))))
        if (place := lists.free_place(taken, number=newest)) is not None:
            return place
        newest += 1


def sign(core: Core, id: str) -> None:
    """Signs an intent and writes what came out, once. An intent that is signed already stays as it is, and so does one
    whose holder's data was deleted, before or meanwhile.
    """
    issuing = issuing_of(core)
    with core.store.reading() as session:
        found = session.get_one(Certificate, id)
        if found.jwt is not None or found.state != "intended":
            return
        intent, signed = found.intent, _meant(session, found)
    made = signed(issuing.issuer, issuing.signer)
    with core.store.writing() as session:
        kept = session.scalar(select(Certificate).where(Certificate.id == id).with_for_update())
        if kept is None or kept.jwt is not None or kept.state != "intended":
            return
        kept.jwt, kept.state, kept.issued = made.jwt, "issued", datetime.fromisoformat(intent["at"])
        if "evidence" in intent:
            # The address served its purpose: the certificate has its salted hash.
            kept.intent = {**intent, "evidence": {**intent["evidence"], "email": None}}
        audit(session, actor=None, action="certificate-issued", about=id, edition=kept.edition)


def _meant(session: Session, found: Certificate) -> Callable[[Issuer, Signer], Signed]:
    """How to make the certificate that an intent means."""
    entry = session.get_one(StatusEntry, found.id)
    intent, old = found.intent, dict[str, Any]()
    if (of := intent.get("of")) is not None:
        old = payload(session.get_one(Certificate, of).jwt or "")
    common: dict[str, Any] = {
        "status": Place(number=int(entry.list), index=entry.position),
        "language": found.language,
        "id": f"urn:uuid:{found.id}",
        "at": datetime.fromisoformat(intent["at"]),
    }
    name = found.name

    def make(issuer: Issuer, signer: Signer) -> Signed:
        if intent["kind"] == "issue":
            return issue(_evidence(intent["evidence"]), salt=intent["salt"], issuer=issuer, signer=signer, **common)
        if intent["kind"] == "reissue":
            other = intent.get("holder_other")
            return reissue(old, holder=name, holder_other=other, issuer=issuer, signer=signer, **common)
        until = None if intent["expires"] is None else datetime.fromisoformat(intent["expires"])
        return renew(old, expires_at=until, issuer=issuer, signer=signer, **common)

    return make


@dataclass(frozen=True)
class _Blank:
    """Stands where a signer stands and signs nothing, to see whether a certificate can be made at all."""

    did: str
    key_id: str
    public_key: bytes

    def sign(self, data: bytes) -> bytes:
        return bytes(64)


def _try(session: Session, core: Core, made: Certificate) -> None:
    """Raises CourseError where an intent could never be signed, so that it is not written: whoever asked is told."""
    issuing = issuing_of(core)
    key = issuing.issuer.key
    try:
        _meant(session, made)(issuing.issuer, _Blank(issuing.issuer.did, key.id, key.public))
    except Refused as refused:
        raise CourseError("certificates.exam-incomplete") from refused


def recover(core: Core) -> int:
    """Signs every intent that a killed server left; how many there were. One that can't be signed stays, is logged, and
    keeps neither the others nor the service from going on.
    """
    if core.issuing is None:
        return 0
    with core.store.reading() as session:
        left = session.scalars(
            select(Certificate.id).where(Certificate.jwt.is_(None), Certificate.state == "intended")
        ).all()
    done = 0
    for each in left:
        try:
            sign(core, each)
            done += 1
        except Exception as error:
            _log.error("signing-failed", exc_info=error)
    return done


def payload(jwt: str) -> dict[str, Any]:
    """The credential in a token of ours."""
    from certificates import strict

    return strict.parse_json(strict.decode_base64url(jwt.split(".")[1]))


# --- looking up


def issued(core: Core, id: str) -> Issued:
    """A certificate by its id, for anybody. Raises Missing where there is none, or none yet."""
    with core.store.reading() as session:
        row = _rows(session, Certificate.id == number(id))
    if not row:
        raise Missing("shardwise.service-no-such-certificate")
    return _issued(core, *row[0])


def issued_to(core: Core, person: Person) -> tuple[Issued, ...]:
    """A person's own certificates, the latest first."""
    with core.store.reading() as session:
        rows = _rows(session, Certificate.account == person.id)
    return tuple(_issued(core, *each) for each in rows)


def search(core: Core, text: str = "", *, limit: int = 200) -> tuple[Issued, ...]:
    """For administrators: by a part of the name, an e-mail address, an id; all where the text is empty; the latest
    first.
    """
    wanted = text.strip().lower()
    with core.store.reading() as session:
        conditions = []
        if wanted:
            mine = select(Account.id).where(Account.email == wanted)
            like = f"%{wanted.replace('%', '').replace('_', '')}%"
            conditions = [
                or_(
                    func.lower(Certificate.name).like(like),
                    Certificate.account.in_(mine),
                    Certificate.id == wanted.removeprefix("urn:uuid:"),
                )
            ]
        rows = _rows(session, *conditions, limit=limit)
    return tuple(_issued(core, *each) for each in rows)


def _rows(session: Session, *conditions: Any, limit: int = 1000) -> list[tuple[Certificate, StatusEntry, Attempt]]:
    query = (
        select(Certificate, StatusEntry, Attempt)
        .join(StatusEntry, StatusEntry.certificate == Certificate.id)
        .join(Attempt, Attempt.id == Certificate.attempt)
        .where(Certificate.state != "intended", *conditions)
        .order_by(Certificate.issued.desc(), Certificate.edition.desc())
        .limit(limit)
    )
    return [tuple(each) for each in session.execute(query)]  # type: ignore[misc]


def _issued(core: Core, found: Certificate, entry: StatusEntry, attempt: Attempt) -> Issued:
    return Issued(
        id=found.id,
        attempt=found.attempt,
        account=found.account,
        exam=attempt.exam,
        title=core.exams.title(attempt.exam, attempt.language),
        name=found.name,
        language=found.language,
        jwt=found.jwt or "",
        edition=found.edition,
        issued=found.issued or found.made,
        expires=found.expires,
        expired=found.expires is not None and found.expires <= core.clock(),
        state=entry.state,  # type: ignore[arg-type]
        reason=entry.reason,
        replaced_by=found.replaced_by,
        supervised=attempt.supervised,
        attempt_number=attempt.number,
    )


# --- changing what holds


def set_state(core: Core, person: Person, id: str, state: State, *, reason: str = "") -> Issued:
    """Revokes (for ever), suspends or reinstates, and with it what was issued of the same attempt: a certificate and
    the one that renewed it say the same, and both would hold. Raises Conflict where a revoked one is to hold again.
    """
    with core.store.writing() as session:
        entry = session.scalar(select(StatusEntry).where(StatusEntry.certificate == number(id)).with_for_update())
        if entry is None:
            raise Missing("shardwise.service-no-such-certificate")
        at = core.clock()
        _set(session, entry, state, reason=reason, actor=person.id, at=at)
        for each in _editions(session, session.get_one(Certificate, entry.certificate).attempt):
            _set(session, each, state, reason=reason, actor=person.id, at=at)
    return issued(core, id)


def _editions(session: Session, attempt: str) -> Sequence[StatusEntry]:
    """The places of whatever was issued of an attempt and is not revoked."""
    same = select(StatusEntry).join(Certificate, Certificate.id == StatusEntry.certificate)
    return session.scalars(same.where(Certificate.attempt == attempt, StatusEntry.state != "revoked")).all()


def _set(session: Session, entry: StatusEntry, state: State, *, reason: str, actor: str, at: datetime) -> None:
    if entry.state == state:
        return
    if entry.state == "revoked":
        raise Conflict("shardwise.service-revoked-for-ever")
    entry.state, entry.reason, entry.changed = state, reason[:200], at
    audit(session, actor=actor, action=f"certificate-{state}", about=entry.certificate)


def correct_name(core: Core, person: Person, id: str, name: str, *, other: str | None = None) -> Issued:
    """The same certificate under a corrected name; the old one is revoked in the same transaction. What was suspended
    stays so under the new name; what was revoked is not issued again: that raises Conflict.

    `other`: the name in the other script; None leaves it as it was, an empty text takes it off.
    """
    from certificates.credential import holder_name

    issuing_of(core)
    with core.store.writing() as session:
        old, entry = _latest(session, id)
        if entry.state == "revoked":
            raise Conflict("shardwise.service-revoked-for-ever")
        shown = holder_name(name)
        if other is None:
            other = name_other(payload(old.jwt or ""))
        other = other.strip() or None if other else None
        made = _again(
            session, core, old, name=shown, expires=old.expires, intent={"kind": "reissue", "holder_other": other}
        )
        session.get_one(Account, old.account).name = shown
        at = core.clock()
        if entry.state == "suspended":
            stays = session.get_one(StatusEntry, made.id)
            _set(session, stays, "suspended", reason=entry.reason, actor=person.id, at=at)
        for each in _editions(session, old.attempt):
            if each.certificate != made.id:
                _set(session, each, "revoked", reason="replaced", actor=person.id, at=at)
        audit(session, actor=person.id, action="certificate-reissued", about=made.id, of=old.id)
        new = made.id
    sign(core, new)
    return issued(core, new)


def name_other(credential: Mapping[str, Any]) -> str | None:
    """The holder's name in the other script, where the certificate has one."""
    names = [each for each in credential["credentialSubject"]["identifier"] if each["identityType"] == "name"]
    return str(names[1]["identityHash"]) if len(names) > 1 else None


def extend(core: Core, person: Person, id: str) -> Issued:
    """The same certificate with a later end, as long again as the exam's policy says; the old one runs out."""
    issuing_of(core)
    with core.store.writing() as session:
        old, entry = _latest(session, id)
        if entry.state != "valid":
            raise Conflict("shardwise.service-not-valid")
        months = policy_of(session.get_one(Attempt, old.attempt).policy).valid_months
        if months is None or old.expires is None:
            raise Conflict("shardwise.service-no-end")
        expires = months_later(max(old.expires, core.clock()), months)
        made = _again(
            session, core, old, name=old.name, expires=expires, intent={"kind": "renew", "expires": expires.isoformat()}
        )
        audit(session, actor=person.id, action="certificate-renewed", about=made.id, of=old.id)
        new = made.id
    sign(core, new)
    return issued(core, new)


def _latest(session: Session, id: str) -> tuple[Certificate, StatusEntry]:
    """A certificate that is the last of its attempt. Raises Conflict for one that was replaced already."""
    found = session.scalar(select(Certificate).where(Certificate.id == number(id)).with_for_update())
    if found is None or found.jwt is None:
        raise Missing("shardwise.service-no-such-certificate")
    if found.replaced_by is not None:
        raise Conflict("shardwise.service-replaced")
    if not found.name:
        raise Conflict("shardwise.service-erased")
    return found, session.get_one(StatusEntry, found.id)


def _again(
    session: Session, core: Core, old: Certificate, *, name: str, expires: datetime | None, intent: dict[str, Any]
) -> Certificate:
    made = _intend(
        session,
        session.get_one(Attempt, old.attempt),
        edition=old.edition + 1,
        name=name,
        language=old.language,
        expires=expires,
        at=core.clock(),
        intent={**intent, "of": old.id},
    )
    _try(session, core, made)
    old.replaced_by = made.id
    return made


# --- what is published


def status_list(core: Core, purpose: str, number: int) -> str:
    """A signed status list. Raises Missing where there is none of this purpose and number."""
    issuing = issuing_of(core)
    if purpose not in lists.PURPOSES or not 1 <= number <= 9999:
        raise Missing("shardwise.service-no-such-list")
    states = ("revoked",) if purpose == "revocation" else ("revoked", "suspended")
    with core.store.reading() as session:
        here = select(StatusEntry.position).where(StatusEntry.list == str(number))
        if number > 1 and session.scalar(here.limit(1)) is None:
            raise Missing("shardwise.service-no-such-list")
        indices = session.scalars(here.where(StatusEntry.state.in_(states))).all()
    return lists.signed_list(
        issuer=issuing.issuer, signer=issuing.signer, purpose=purpose, number=number, indices=indices, at=core.clock()
    )
