"""Deleting a person's data on request, so that nothing names them and the status lists stay right.

What stays: that an account was (a random id and the moment it went), that a certificate was issued (its number, exam,
dates), and its place in the status lists, which no other certificate may ever get. Its certificates are revoked in the
same transaction: nobody could answer for them any more, so the public page says that they were withdrawn, and every
verifier is told the same. What goes: name, address, identities, visits, links, cohorts, wishes, answers, code, reports,
results, and the signed certificates themselves.

Who was deleted is also noted in a file beside the database, by the account's random id alone: a backup made before is
restored without them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from shardwise.service.accounts import Person, address
from shardwise.service.core import Core
from shardwise.service.settings import Settings
from shardwise.service.store import Forbidden, Missing, audit
from shardwise.service.tables import (
    Account,
    Answer,
    Attempt,
    Certificate,
    Identity,
    LoginLink,
    Member,
    Report,
    Request,
    StatusEntry,
    Submission,
    Visit,
    Wish,
)

REASON = "erased"


@dataclass(frozen=True, kw_only=True)
class Erased:
    """What went. `certificates` were revoked; `addresses` the letters of the outbox file are taken out by."""

    account: str
    attempts: int
    answers: int
    submissions: int
    certificates: int


def erase(core: Core, person: Person | None, account: str) -> Erased:
    """Deletes what is known of a person. Raises Missing where there is no such account, Forbidden for one's own.

    `person` None: at the command line, by whoever runs the service. Again changes nothing.
    """
    if person is not None and person.id == account:
        raise Forbidden("shardwise.service-own-role")
    with core.store.writing() as session:
        found = session.get(Account, account, with_for_update=True)
        if found is None:
            raise Missing("shardwise.service-no-such-account")
        email = found.email
        done = erase_rows(session, found, actor=None if person is None else person.id, at=core.clock())
    note(core.settings, account, core.clock())
    if email is not None:
        forget_letters(core.settings.outbox, [email])
    return done


def account_of(core: Core, wanted: str) -> str:
    """The account with this id or e-mail address. Raises Missing where there is none."""
    with core.store.reading() as session:
        found = session.get(Account, wanted)
        if found is None and "@" in wanted:
            found = session.scalar(select(Account).where(Account.email == address(wanted)))
    if found is None:
        raise Missing("shardwise.service-no-such-account")
    return found.id


def erase_rows(session: Session, account: Account, *, actor: str | None, at: datetime) -> Erased:
    """The deletion itself, in whatever transaction the caller has."""
    id, email = account.id, account.email
    attempts = session.scalars(select(Attempt).where(Attempt.account == id)).all()
    tries = [each.id for each in attempts]
    answers = _gone(session, Answer, Answer.attempt.in_(tries))
    submissions = _gone(session, Submission, Submission.attempt.in_(tries))
    _gone(session, Report, Report.attempt.in_(tries))
    certificates = session.scalars(select(Certificate).where(Certificate.account == id)).all()
    for each in certificates:
        entry = session.get(StatusEntry, each.id)
        if entry is not None and entry.state != "revoked":
            entry.state, entry.reason, entry.changed = "revoked", REASON, at
        elif entry is not None:
            entry.reason = REASON  # what an examiner wrote about the person goes too
        each.name, each.jwt, each.intent, each.listed = "", None, {}, False
        each.state = "issued"  # one that was intended and never signed must not be signed now
    kept = {each.attempt for each in certificates}
    for attempt in attempts:
        if attempt.id in kept:
            attempt.paper = {"version": 1, "id": attempt.id, "questions": [], "tasks": []}
            attempt.seed, attempt.outcome, attempt.state = "", None, "graded"
        else:
            session.delete(attempt)
    for table in (Identity, Visit, Member, Wish, Request):
        _gone(session, table, table.account == id)
    if email is not None:
        _gone(session, LoginLink, LoginLink.email == email)
    account.email, account.name, account.active, account.role = None, "", False, "learner"
    if account.erased is None:
        account.erased = at
        audit(session, actor=actor, action="person-erased", about=id, certificates=len(certificates))
    return Erased(
        account=id, attempts=len(tries), answers=answers, submissions=submissions, certificates=len(certificates)
    )


def _gone(session: Session, table: type, *conditions: object) -> int:
    found = session.execute(delete(table).where(*conditions))  # type: ignore[arg-type]
    return int(getattr(found, "rowcount", 0))


# --- what a restored backup must not bring back


def list_file(settings: Settings) -> Path:
    return settings.data / "erased.jsonl"


def note(settings: Settings, account: str, at: datetime) -> None:
    """One line more in the list, on the disk when this returns."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(list_file(settings), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, (json.dumps({"account": account, "at": at.isoformat()}) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def noted(settings: Settings) -> set[str]:
    """The ids of all who were deleted here; a line that was cut off by a power cut is left out."""
    path = list_file(settings)
    found: set[str] = set()
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.add(str(json.loads(line)["account"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found


def erase_noted(session: Session, accounts: Iterable[str], at: datetime) -> int:
    """Deletes those of the list whom a backup brought back."""
    back = session.scalars(
        select(Account).where(Account.id.in_(list(accounts)), or_(Account.erased.is_(None), Account.email.is_not(None)))
    ).all()
    for each in back:
        erase_rows(session, each, actor=None, at=at)
    return len(back)


def forget_letters(outbox: Path, addresses: Iterable[str]) -> None:
    """Takes a person's letters out of the outbox file that stands in for a mail server on one machine."""
    if not outbox.exists():
        return
    wanted = {each.encode() for each in addresses}
    letters = outbox.read_bytes().split(b"\n\n")
    kept, leaving = [], False
    for part in letters:
        if part.lstrip().startswith(b"To:"):
            leaving = part.lstrip().partition(b"\n")[0].removeprefix(b"To:").strip().lower() in wanted
        if not leaving:
            kept.append(part)
    scratch = outbox.with_suffix(f".{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"\n\n".join(kept))
    scratch.replace(outbox)
