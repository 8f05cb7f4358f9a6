"""Cohorts and sittings: learners from CSV, when an exam can be taken and how, results and training record as CSV.

Reading a CSV is one function of its text to rows or problems; a dry run and the real one are the same code up to the
last step, and doing it twice changes nothing.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from shardwise.service.accounts import Person, address, spoken
from shardwise.service.attempts import hashed_code
from shardwise.service.core import Core
from shardwise.service.store import Conflict, Missing, audit
from shardwise.service.tables import Account, Attempt, Certificate, Cohort, Member, Sitting, StatusEntry, Wish
from translations import CourseError

COLUMNS = ("email", "name", "language", "extra_percent", "reference")
LARGEST = 1_000_000
ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Row:
    """One learner of a CSV. `line`: where it stands."""

    line: int
    email: str
    name: str
    language: str
    extra_percent: int
    reference: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong on a line (0: with the file)."""

    line: int
    error: CourseError


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What a CSV changes, or changed: `new` accounts, `joined` the cohort, `changed` members, `same` as before."""

    cohort: str
    new: int
    joined: int
    changed: int
    same: int
    problems: tuple[Problem, ...]
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A cohort, or a sitting, in a list."""

    id: str
    name: str
    members: int


def read_csv(text: str) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """The learners of a CSV: `email` is needed, `name`, `language`, `extra_percent`, `reference` may be there. Comma
    or semicolon.
    """
    if len(text) > LARGEST:
        return (), (Problem(line=0, error=CourseError("shardwise.service-csv-too-large", limit=LARGEST)),)
    text = text.lstrip("\ufeff")
    header = text.partition("\n")[0]
    delimiter = ";" if header.count(";") > header.count(",") else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip().lower() for name in reader.fieldnames or ()]
    except csv.Error:
        return (), (Problem(line=1, error=CourseError("shardwise.service-csv-broken")),)
    if "email" not in names or len(set(names)) != len(names):
        return (), (Problem(line=0, error=CourseError("shardwise.service-csv-no-email", columns=", ".join(COLUMNS))),)
    if unknown := [name for name in names if name not in COLUMNS]:
        error = CourseError("shardwise.service-csv-column", column=unknown[0][:50], columns=", ".join(COLUMNS))
        return (), (Problem(line=1, error=error),)
    reader.fieldnames = names
    rows: list[Row] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    try:
        for fields in reader:
            if len(rows) >= ROWS:
                problems.append(Problem(line=0, error=CourseError("shardwise.service-csv-too-large", limit=ROWS)))
                break
            if not any((value or "").strip() for value in fields.values() if isinstance(value, str)):
                continue
            try:
                row = _row(fields, reader.line_num)
                if row.email in seen:
                    raise CourseError("shardwise.service-csv-twice")
                seen.add(row.email)
                rows.append(row)
            except CourseError as error:
                problems.append(Problem(line=reader.line_num, error=error))
    except csv.Error:
        problems.append(Problem(line=reader.line_num, error=CourseError("shardwise.service-csv-broken")))
    return tuple(rows), tuple(problems)


def _row(fields: Mapping[str | None, Any], line: int) -> Row:
    from certificates.credential import holder_name

    if None in fields:
        raise CourseError("shardwise.service-csv-broken")
    said = {name: (value or "").strip() for name, value in fields.items() if name is not None}
    extra = said.get("extra_percent") or "0"
    if not extra.isascii() or not extra.isdecimal() or int(extra) > 300:
        raise CourseError("shardwise.service-csv-extra", limit=300)
    language = said.get("language") or "en"
    if spoken(language) != language:
        raise CourseError("shardwise.service-csv-language", language=language[:20])
    return Row(
        line=line,
        email=address(said["email"]),
        name=holder_name(said["name"]) if said.get("name") else "",
        language=language,
        extra_percent=int(extra),
        reference=said.get("reference", "")[:100],
    )


def apply(core: Core, person: Person | None, name: str, text: str, *, dry_run: bool = False) -> Applied:
    """Puts the learners of a CSV into a cohort, made where there is none of this name. With problems, or dry, nothing
    is written.

    An account's own name stays once it has one: the person, or a certificate, has it already.
    """
    shown = " ".join(name.split())
    if not 1 <= len(shown) <= 100:
        raise CourseError("shardwise.service-cohort-name")
    rows, problems = read_csv(text)
    counts = {"new": 0, "joined": 0, "changed": 0, "same": 0}
    dry = dry_run or bool(problems)
    with core.store.trying() if dry else core.store.writing() as session:
        cohort = session.scalar(select(Cohort).where(Cohort.name == shown))
        if cohort is None:
            cohort = Cohort(name=shown, made=core.clock())
            session.add(cohort)
            session.flush()
        for row in rows:
            counts[_joined(session, core, cohort.id, row)] += 1
        if any(counts[each] for each in ("new", "joined", "changed")):
            actor = None if person is None else person.id
            audit(session, actor=actor, action="cohort-changed", about=cohort.id, **counts)
        id = cohort.id
    return Applied(cohort=id, **counts, problems=problems, dry_run=dry)


def _joined(session: Session, core: Core, cohort: str, row: Row) -> str:
    account = session.scalar(select(Account).where(Account.email == row.email))
    made = account is None
    if account is None:
        account = Account(email=row.email, name=row.name, language=row.language, made=core.clock())
        session.add(account)
        session.flush()
    elif row.name and not account.name:
        account.name = row.name
    member = session.get(Member, (cohort, account.id))
    if member is None:
        session.add(
            Member(
                cohort=cohort,
                account=account.id,
                extra_percent=row.extra_percent,
                reference=row.reference,
                made=core.clock(),
            )
        )
        return "new" if made else "joined"
    if (member.extra_percent, member.reference) == (row.extra_percent, row.reference):
        return "same"
    member.extra_percent, member.reference = row.extra_percent, row.reference
    return "changed"


def cohorts(core: Core) -> tuple[Listed, ...]:
    with core.store.reading() as session:
        found = []
        for each in session.scalars(select(Cohort).order_by(Cohort.name)):
            members = len(session.scalars(select(Member.account).where(Member.cohort == each.id)).all())
            found.append(Listed(id=each.id, name=each.name, members=members))
        return tuple(found)


def named(core: Core, name: str) -> str:
    """The id of a cohort. Raises Missing where none is called so."""
    with core.store.reading() as session:
        found = session.scalar(select(Cohort.id).where(Cohort.name == " ".join(name.split())))
    if found is None:
        raise Missing("shardwise.service-no-such-cohort")
    return found


# --- sittings


def open_sitting(
    core: Core,
    person: Person | None,
    *,
    exam: str,
    opens: datetime,
    closes: datetime,
    cohort: str | None = None,
    title: str = "",
    code: str = "",
    supervised: bool = False,
    attempts: int | None = None,
) -> str:
    """The id of a new sitting. Raises CourseError for an exam that can't be drawn, a window that never opens, no such
    cohort.
    """
    core.exams.exam(exam).check()
    if opens.tzinfo is None or closes.tzinfo is None or closes <= opens:
        raise CourseError("shardwise.service-window")
    if attempts is not None and not 1 <= attempts <= 100:
        raise CourseError("shardwise.service-attempts")
    if code and len(code.strip()) < 6:
        raise CourseError("shardwise.service-code-short", least=6)
    unlock = hashed_code(code) if code else None
    with core.store.writing() as session:
        if cohort is not None and session.get(Cohort, cohort) is None:
            raise Missing("shardwise.service-no-such-cohort")
        made = Sitting(
            exam=exam,
            title=" ".join(title.split())[:200],
            cohort=cohort,
            opens=opens,
            closes=closes,
            unlock=unlock,
            supervised=supervised,
            attempts=attempts,
            made=core.clock(),
        )
        session.add(made)
        session.flush()
        actor = None if person is None else person.id
        audit(session, actor=actor, action="sitting-opened", about=made.id, exam=exam, supervised=supervised)
        return made.id


def cancel(core: Core, person: Person, id: str) -> None:
    """Nobody can begin any more. Raises Conflict where somebody has begun."""
    with core.store.writing() as session:
        found = session.get(Sitting, id, with_for_update=True)
        if found is None:
            raise Missing("shardwise.service-no-such-sitting")
        if session.scalar(select(Attempt.id).where(Attempt.sitting == id).limit(1)) is not None:
            raise Conflict("shardwise.service-sitting-begun")
        found.cancelled = core.clock()
        audit(session, actor=person.id, action="sitting-cancelled", about=id)


@dataclass(frozen=True, kw_only=True)
class SittingRow:
    """A sitting as examiners see it."""

    id: str
    exam: str
    title: str
    cohort: str | None
    opens: datetime
    closes: datetime
    needs_code: bool
    supervised: bool
    attempts: int | None
    cancelled: bool
    begun: int
    graded: int
    passed: int


def sittings(core: Core) -> tuple[SittingRow, ...]:
    """All, the latest to open first."""
    with core.store.reading() as session:
        found = []
        for each in session.scalars(select(Sitting).order_by(Sitting.opens.desc())):
            tries = session.scalars(select(Attempt).where(Attempt.sitting == each.id)).all()
            cohort = None if each.cohort is None else session.get_one(Cohort, each.cohort).name
            found.append(
                SittingRow(
                    id=each.id,
                    exam=each.exam,
                    title=each.title,
                    cohort=cohort,
                    opens=each.opens,
                    closes=each.closes,
                    needs_code=each.unlock is not None,
                    supervised=each.supervised,
                    attempts=each.attempts,
                    cancelled=each.cancelled is not None,
                    begun=len(tries),
                    graded=sum(one.state == "graded" for one in tries),
                    passed=sum(bool(one.outcome and one.outcome["passed"]) for one in tries),
                )
            )
        return tuple(found)


# --- exams that learners asked for


def accept(core: Core, person: Person, wish: str, cohort: str) -> None:
    """Puts whoever asked into a cohort."""
    with core.store.writing() as session:
        found = session.get(Wish, wish, with_for_update=True)
        if found is None or found.state != "waiting":
            raise Missing("shardwise.service-no-such-request")
        if session.get(Cohort, cohort) is None:
            raise Missing("shardwise.service-no-such-cohort")
        if session.get(Member, (cohort, found.account)) is None:
            session.add(Member(cohort=cohort, account=found.account, made=core.clock()))
        found.state = "accepted"
        audit(session, actor=person.id, action="request-accepted", about=wish, cohort=cohort)


def decline(core: Core, person: Person, wish: str) -> None:
    """Takes a request off the list."""
    with core.store.writing() as session:
        found = session.get(Wish, wish, with_for_update=True)
        if found is None or found.state != "waiting":
            raise Missing("shardwise.service-no-such-request")
        found.state = "declined"
        audit(session, actor=person.id, action="request-declined", about=wish)


# --- what goes out as CSV


RESULTS = (
    "reference",
    "email",
    "name",
    "attempt",
    "begun",
    "ended",
    "state",
    "quiz_share",
    "practical_share",
    "passed",
    "supervised",
    "certificate",
)
TRAINING = (
    "reference",
    "email",
    "name",
    "exam",
    "title",
    "completed",
    "result",
    "supervised",
    "certificate",
    "valid_until",
    "state",
)


def results_csv(core: Core, sitting: str) -> str:
    """Every attempt of a sitting, one row each, for the organisation's own books."""
    with core.store.reading() as session:
        found = session.get(Sitting, sitting)
        if found is None:
            raise Missing("shardwise.service-no-such-sitting")
        rows = [
            _result_row(session, found, attempt)
            for attempt in session.scalars(select(Attempt).where(Attempt.sitting == sitting).order_by(Attempt.begun))
        ]
    return written(RESULTS, rows)


def _result_row(session: Session, sitting: Sitting, attempt: Attempt) -> dict[str, Any]:
    account = session.get_one(Account, attempt.account)
    outcome = attempt.outcome or {}
    certificate = _certificate(session, attempt.id)
    return {
        "reference": _reference(session, sitting.cohort, account.id),
        "email": account.email or "",
        "name": account.name,
        "attempt": attempt.number,
        "begun": _moment(attempt.begun),
        "ended": _moment(attempt.ended),
        "state": attempt.state,
        "quiz_share": _share(outcome.get("quiz")),
        "practical_share": _share(outcome.get("practical")),
        "passed": "" if not outcome else "yes" if outcome["passed"] else "no",
        "supervised": "yes" if attempt.supervised else "no",
        "certificate": "" if certificate is None else certificate.id,
    }


def training_csv(core: Core, cohort: str) -> str:
    """What every member of a cohort completed, one row a learner and exam: passed ones with their certificate, and the
    rest.
    """
    with core.store.reading() as session:
        if session.get(Cohort, cohort) is None:
            raise Missing("shardwise.service-no-such-cohort")
        rows: list[dict[str, Any]] = []
        for member in session.scalars(select(Member).where(Member.cohort == cohort).order_by(Member.made)):
            account = session.get_one(Account, member.account)
            best: dict[str, Attempt] = {}
            query = select(Attempt).where(Attempt.account == account.id, Attempt.state == "graded")
            for each in session.scalars(query.order_by(Attempt.begun)):
                held = best.get(each.exam)
                if held is None or not (held.outcome or {}).get("passed"):
                    best[each.exam] = each
            for exam, attempt in sorted(best.items()):
                rows.append(
                    _training_row(session, member, account, attempt, core.exams.title(exam, core.settings.language))
                )
            if not best:
                none = dict.fromkeys(TRAINING, "")
                rows.append({**none, "reference": member.reference, "email": account.email or "", "name": account.name})
    return written(TRAINING, rows)


def _training_row(session: Session, member: Member, account: Account, attempt: Attempt, title: str) -> dict[str, Any]:
    certificate = _certificate(session, attempt.id)
    entry = None if certificate is None else session.get(StatusEntry, certificate.id)
    passed = bool((attempt.outcome or {}).get("passed"))
    return {
        "reference": member.reference,
        "email": account.email or "",
        "name": account.name,
        "exam": attempt.exam,
        "title": title,
        "completed": _moment(attempt.ended),
        "result": "passed" if passed else "not passed",
        "supervised": "yes" if attempt.supervised else "no",
        "certificate": "" if certificate is None else certificate.id,
        "valid_until": _moment(None if certificate is None else certificate.expires),
        "state": "" if entry is None else entry.state,
    }


def _certificate(session: Session, attempt: str) -> Certificate | None:
    query = select(Certificate).where(Certificate.attempt == attempt, Certificate.jwt.is_not(None))
    return session.scalar(query.order_by(Certificate.edition.desc()).limit(1))


def _reference(session: Session, cohort: str | None, account: str) -> str:
    member = None if cohort is None else session.get(Member, (cohort, account))
    return "" if member is None else member.reference


def _share(part: Mapping[str, Any] | None) -> str:
    return "" if part is None else f"{part['share']:.4f}"


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")


def written(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    """A CSV with a byte order mark, so that spreadsheets read UTF-8; a cell that one of them would run as a formula is
    quoted.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: harmless(row.get(name, "")) for name in columns})
    return "\ufeff" + out.getvalue()


def harmless(value: Any) -> Any:
    """The value with an apostrophe before whatever a spreadsheet would run: at its start, and after a semicolon, where
    spreadsheets of half of Europe begin a new cell, quoted or not.
    """
    return re.sub(r"(^|;)(?=\s*[=+\-@\t\r])", r"\1'", value) if isinstance(value, str) else value
