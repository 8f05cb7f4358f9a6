"""For examiners and administrators: certificates, cohorts, sittings, people, reports, and what was done by whom."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, UploadFile
from fastapi.responses import Response
from markupsafe import Markup
from sqlalchemy import select

from quiz.rendering import plain
from shardwise.service import accounts, cohorts, erasing, issuing, reports
from shardwise.service.accounts import Person
from shardwise.service.core import Core
from shardwise.service.pages.public import standing_of
from shardwise.service.pages.rendering import moment
from shardwise.service.pages.site import language_of, renderer_of, see
from shardwise.service.people import Administrator, Examiner, TheCore
from shardwise.service.security import csrf_token
from shardwise.service.store import Conflict, Forbidden, Missing
from shardwise.service.tables import ROLES, Account, Audit, Wish
from translations import CourseError, Language, formats, translator

router = APIRouter(prefix="/admin")
A_PAGE = 50
ROOMS = (
    ("certificates", "administrator"),
    ("people", "administrator"),
    ("cohorts", "examiner"),
    ("sittings", "examiner"),
    ("wishes", "examiner"),
    ("reports", "examiner"),
    ("audit", "administrator"),
)


@router.get("")
def rooms(request: Request, person: Examiner) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    return pages.page(
        request,
        "admin.html",
        title=text("shardwise.site-admin"),
        language=language,
        person=person,
        here="admin",
        rooms=[
            {
                "path": f"/admin/{name}",
                "title": text(f"shardwise.site-admin-{name}"),
                "about": text(f"shardwise.site-admin-{name}-about"),
            }
            for name, role in ROOMS
            if person.may(role)
        ],
    )


# --- certificates


@router.get("/certificates")
def certificates(request: Request, core: TheCore, person: Administrator, q: str = "", page: int = 1) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    found = issuing.search(core, q[:200])
    return pages.page(
        request,
        "admin-certificates.html",
        title=text("shardwise.site-admin-certificates"),
        language=language,
        person=person,
        here="admin",
        wide=True,
        query=q[:200],
        **_paged(request, [_row(each, language) for each in found], page, "found"),
    )


def _row(each: issuing.Issued, language: Language) -> dict[str, Any]:
    state, mood = standing_of(each)
    return {
        "short": each.id,
        "name": each.name or translator(language)("shardwise.site-erased"),
        "title": each.title,
        "issued": each.issued,
        "state": translator(language)(f"shardwise.site-certificate-{state}"),
        "mood": mood,
    }


def _paged(request: Request, rows: list[Any], page: int, name: str) -> dict[str, Any]:
    last = max(1, -(-len(rows) // A_PAGE))
    here = min(max(page, 1), last)
    kept = [(key, value) for key, value in request.query_params.multi_items() if key == "q"]
    return {
        name: rows[(here - 1) * A_PAGE : here * A_PAGE],
        "total": len(rows),
        "page": here,
        "pages": last,
        "page_at": lambda number: f"?{urlencode([*kept, ('page', number)])}",
    }


@router.get("/certificates/{id}")
def certificate(request: Request, core: TheCore, person: Administrator, id: str) -> Response:
    return _certificate(request, core, person, id)


def _certificate(
    request: Request, core: Core, person: Person, id: str, *, problem: CourseError | None = None
) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    found = issuing.issued(core, id)
    facts = [
        (text("shardwise.site-exam"), found.title),
        (text("shardwise.site-issued-at"), moment(found.issued, language)),
        (
            text("shardwise.site-expires"),
            formats.date(found.expires.date(), language) if found.expires else text("certificates.expires-never"),
        ),
        (text("shardwise.site-conditions"), text(_conditions(found.supervised))),
        (text("shardwise.site-attempt"), formats.number(found.attempt_number, language)),
        (text("shardwise.site-edition"), formats.number(found.edition, language)),
        (text("shardwise.site-certificate-id"), formats.isolate_latin(found.id)),
    ]
    if found.reason:
        facts.append((text("shardwise.site-reason"), found.reason))
    changes = [("suspended", "suspend"), ("revoked", "revoke-it")]
    if found.state == "suspended":
        changes = [("valid", "reinstate"), ("revoked", "revoke-it")]
    return pages.page(
        request,
        "admin-certificate.html",
        title=found.name or text("shardwise.site-erased"),
        language=language,
        person=person,
        here="admin",
        status=200 if problem is None else 422,
        notice=None if problem is None else {"mood": "bad", "text": problem.in_language(text)},
        certificate=_row(found, language),
        facts=[{"label": label, "value": value} for label, value in facts],
        can_change=found.state != "revoked" and bool(found.jwt),
        name_other=(issuing.name_other(issuing.payload(found.jwt)) if found.jwt else None) or "",
        can_renew=found.expires is not None and found.state == "valid" and found.replaced_by is None,
        states=[{"value": value, "label": text(f"shardwise.site-{name}")} for value, name in changes],
        key=secrets.token_urlsafe(12),
    )


def _conditions(supervised: bool) -> str:
    return f"shardwise.site-{'supervised' if supervised else 'unsupervised'}"


@router.post("/certificates/{id}/status")
def change_state(
    request: Request,
    core: TheCore,
    person: Administrator,
    id: str,
    state: Annotated[str, Form(max_length=20)] = "",
    reason: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    if state not in ("valid", "suspended", "revoked") or not reason.strip():
        return _certificate(request, core, person, id, problem=CourseError("shardwise.site-reason-needed"))
    issuing.set_state(core, person, id, state, reason=" ".join(reason.split()))  # type: ignore[arg-type]
    return see(renderer_of(request).at(f"/admin/certificates/{issuing.number(id)}"))


@router.post("/certificates/{id}/name")
def correct_name(
    request: Request,
    core: TheCore,
    person: Administrator,
    id: str,
    name: Annotated[str, Form(max_length=300)] = "",
    other: Annotated[str, Form(max_length=300)] = "",  # the form shows the present one; emptied, it goes
) -> Response:
    try:
        made = issuing.correct_name(core, person, id, name, other=other)
    except (Missing, Forbidden, Conflict):
        raise
    except CourseError as error:
        return _certificate(request, core, person, id, problem=error)
    return see(renderer_of(request).at(f"/admin/certificates/{made.id}"))


@router.post("/certificates/{id}/renew")
def renew(request: Request, core: TheCore, person: Administrator, id: str) -> Response:
    made = issuing.extend(core, person, id)
    return see(renderer_of(request).at(f"/admin/certificates/{made.id}"))


# --- people


@router.get("/people")
def people(request: Request, core: TheCore, person: Administrator, q: str = "", page: int = 1) -> Response:
    text = translator(language_of(request, person))
    with core.store.reading() as session:
        found = accounts.search(session, q[:200])
    rows = [
        [
            Markup('<a href="{}"><bdi>{}</bdi></a>').format(
                renderer_of(request).at(f"/admin/people/{each.id}"), each.name or text("shardwise.site-no-name")
            ),
            Markup("<bdi>{}</bdi>").format(each.email or "–"),
            text(f"shardwise.site-role-{each.role}"),
            text("shardwise.site-account-" + ("open" if each.active else "closed")),
        ]
        for each in found
    ]
    header = [text(f"shardwise.site-{name}") for name in ("holder", "email", "role", "state")]
    return _table(request, person, "people", header, rows, page, query=q[:200])


def _table(
    request: Request,
    person: Person,
    name: str,
    header: list[str],
    rows: list[list[Any]],
    page: int,
    *,
    query: str | None = None,
) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    return pages.page(
        request,
        "admin-table.html",
        title=text(f"shardwise.site-admin-{name}"),
        language=language,
        person=person,
        here="admin",
        wide=True,
        intro=text(f"shardwise.site-admin-{name}-about"),
        searchable=query is not None,
        query=query or "",
        header=header,
        **_paged(request, rows, page, "rows"),
    )


@router.get("/people/{account}")
def one(request: Request, core: TheCore, person: Administrator, account: str) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    with core.store.reading() as session:
        found = session.get(Account, account)
    if found is None:
        raise Missing("shardwise.service-no-such-account")
    return pages.page(
        request,
        "admin-person.html",
        title=found.name or text("shardwise.site-no-name"),
        language=language,
        person=person,
        here="admin",
        account_shown={"id": found.id, "email": found.email or "–", "role": found.role, "active": found.active},
        erased=found.erased,
        roles=[{"value": each, "label": text(f"shardwise.site-role-{each}")} for each in ROLES],
        self=found.id == person.id,
    )


@router.post("/people/{account}/role")
def set_role(
    request: Request, core: TheCore, person: Administrator, account: str, role: Annotated[str, Form(max_length=20)] = ""
) -> Response:
    accounts.set_role(core, person, account, role)
    return see(renderer_of(request).at(f"/admin/people/{account}"))


@router.post("/people/{account}/active")
def set_active(
    request: Request,
    core: TheCore,
    person: Administrator,
    account: str,
    active: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    accounts.set_active(core, person, account, active == "yes")
    return see(renderer_of(request).at(f"/admin/people/{account}"))


@router.post("/people/{account}/erase")
def erase(
    request: Request, core: TheCore, person: Administrator, account: str, sure: Annotated[str, Form(max_length=5)] = ""
) -> Response:
    if sure != "yes":
        raise CourseError("shardwise.site-erase-sure-needed")
    erasing.erase(core, person, account)
    return see(renderer_of(request).at(f"/admin/people/{account}"))


# --- cohorts and sittings


@router.get("/cohorts")
def all_cohorts(request: Request, core: TheCore, person: Examiner) -> Response:
    return _cohorts(request, core, person)


def _cohorts(
    request: Request, core: Core, person: Person, *, problem: str = "", preview: dict[str, Any] | None = None
) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    return pages.page(
        request,
        "admin-cohorts.html",
        title=translator(language)("shardwise.site-admin-cohorts"),
        language=language,
        person=person,
        here="admin",
        wide=True,
        status=422 if problem else 200,
        problem=problem,
        preview=preview,
        cohorts=cohorts.cohorts(core),
    )


@router.post("/cohorts")
def import_cohort(
    request: Request,
    core: TheCore,
    person: Examiner,
    name: Annotated[str, Form(max_length=300)] = "",
    file: UploadFile | None = None,
    text: Annotated[str, Form()] = "",
    really: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    """First what the file would do, without doing it; then, with the same text, for good."""
    language = language_of(request, person)
    say = translator(language)
    if file is not None and file.filename:
        try:
            text = file.file.read(cohorts.LARGEST + 1).decode("utf-8-sig")
        except UnicodeDecodeError:
            return _cohorts(request, core, person, problem=say("shardwise.site-cohort-not-text"))
    try:
        found = cohorts.apply(core, person, name, text, dry_run=really != "yes")
    except (Missing, Forbidden, Conflict):
        raise
    except CourseError as error:
        return _cohorts(request, core, person, problem=error.in_language(say))
    if not found.dry_run:
        return see(renderer_of(request).at("/admin/cohorts"))
    rows, _ = cohorts.read_csv(text)
    columns = ("email", "name", "language", "extra_percent", "reference")
    preview = {
        "name": name,
        "text": text,
        "summary": say(
            "shardwise.site-cohort-would",
            new=found.new,
            joined=found.joined,
            changed=found.changed,
            same=found.same,
        ),
        "problems": [
            say("shardwise.site-line", line=each.line, problem=each.error.in_language(say)) for each in found.problems
        ],
        "header": [say(f"shardwise.site-column-{each}") for each in columns],
        "rows": [[str(getattr(row, each)) for each in columns] for row in rows[:20]],
    }
    return _cohorts(request, core, person, preview=preview)


@router.get("/cohorts/{cohort}/training.csv")
def training(core: TheCore, _person: Examiner, cohort: str) -> Response:
    return _csv(cohorts.training_csv(core, cohort), "training.csv")


@router.get("/sittings")
def all_sittings(request: Request, core: TheCore, person: Examiner) -> Response:
    return _sittings(request, core, person)


def _sittings(request: Request, core: Core, person: Person, *, problem: str = "") -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    return pages.page(
        request,
        "admin-sittings.html",
        title=text("shardwise.site-admin-sittings"),
        language=language,
        person=person,
        here="admin",
        wide=True,
        status=422 if problem else 200,
        problem=problem,
        sittings=[
            {
                "id": each.id,
                "title": each.title or _called(core, each.exam, language),
                "cohort": each.cohort or text("shardwise.site-everybody"),
                "window": text(
                    "shardwise.site-from-to", opens=moment(each.opens, language), closes=moment(each.closes, language)
                ),
                "supervised": each.supervised,
                "numbers": text(
                    "shardwise.site-sitting-numbers", begun=each.begun, graded=each.graded, passed=each.passed
                ),
                "cancelled": each.cancelled,
                "can_cancel": not each.begun and not each.cancelled,
            }
            for each in cohorts.sittings(core)
        ],
        exams=[{"id": each, "title": _called(core, each, language)} for each in core.exams.ids()],
        cohorts=cohorts.cohorts(core),
    )


def _called(core: Core, exam: str, language: Language) -> str:
    try:
        return core.exams.exam(exam).blueprint.called(language.code)
    except CourseError:
        return exam


@router.post("/sittings")
def open_sitting(
    request: Request,
    core: TheCore,
    person: Examiner,
    exam: Annotated[str, Form(max_length=64)] = "",
    cohort: Annotated[str, Form(max_length=36)] = "",
    opens: Annotated[str, Form(max_length=40)] = "",
    closes: Annotated[str, Form(max_length=40)] = "",
    unlock: Annotated[str, Form(max_length=200)] = "",
    supervised: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    text = translator(language_of(request, person))
    try:
        since, until = _utc(opens), _utc(closes)
        cohorts.open_sitting(
            core,
            person,
            exam=exam,
            opens=since,
            closes=until,
            cohort=cohort or None,
            code=unlock.strip(),
            supervised=supervised == "yes",
        )
    except (Missing, Forbidden, Conflict):
        raise
    except CourseError as error:
        return _sittings(request, core, person, problem=plain(error.in_language(text), text.language))
    return see(renderer_of(request).at("/admin/sittings"))


def _utc(text: str) -> datetime:
    """A moment as a form gives it, which the page says is read as UTC. Raises CourseError for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CourseError("shardwise.site-no-moment") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@router.post("/sittings/{sitting}/cancel")
def cancel(request: Request, core: TheCore, person: Examiner, sitting: str) -> Response:
    cohorts.cancel(core, person, sitting)
    return see(renderer_of(request).at("/admin/sittings"))


@router.get("/sittings/{sitting}/results.csv")
def results(core: TheCore, _person: Examiner, sitting: str) -> Response:
    return _csv(cohorts.results_csv(core, sitting), "results.csv")


def _csv(text: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


# --- wishes, reports, the log


@router.get("/wishes")
def wishes(request: Request, core: TheCore, person: Examiner, page: int = 1) -> Response:
    language = language_of(request, person)
    text = translator(language)
    known = cohorts.cohorts(core)
    with core.store.reading() as session:
        query = select(Wish, Account).join(Account, Account.id == Wish.account).where(Wish.state == "waiting")
        found = session.execute(query.order_by(Wish.made).limit(1000)).all()
    rows = [
        [
            Markup("<bdi>{}</bdi>").format(account.name or account.email or account.id),
            _called(core, wish.exam, language),
            moment(wish.made, language),
            _accept(request, wish.id, known, text),
        ]
        for wish, account in found
    ]
    header = [text(f"shardwise.site-{name}") for name in ("holder", "exam", "date", "accept-into")]
    return _table(request, person, "wishes", header, rows, page)


def _accept(request: Request, wish: str, known: tuple[cohorts.Listed, ...], text: Callable[..., str]) -> Markup:
    options = Markup("").join(Markup('<option value="{}">{}</option>').format(each.id, each.name) for each in known)
    at = renderer_of(request).at(f"/admin/wishes/{wish}")
    token = csrf_token(request)
    return Markup(
        '<form method="post" action="{at}"><input type="hidden" name="csrf" value="{token}">'
        '<select name="cohort" aria-label="{label}"><option value=""></option>{options}</select> '
        '<button class="small" name="then" value="accept">{accept}</button> '
        '<button class="small quietly" name="then" value="decline">{decline}</button></form>'
    ).format(
        at=at,
        token=token,
        label=text("shardwise.site-cohort"),
        options=options,
        accept=text("shardwise.site-accept"),
        decline=text("shardwise.site-decline"),
    )


@router.post("/wishes/{wish}")
def settle_wish(
    request: Request,
    core: TheCore,
    person: Examiner,
    wish: str,
    cohort: Annotated[str, Form(max_length=36)] = "",
    then: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    if then == "decline":
        cohorts.decline(core, person, wish)
    else:
        cohorts.accept(core, person, wish, cohort)
    return see(renderer_of(request).at("/admin/wishes"))


@router.get("/reports")
def all_reports(request: Request, core: TheCore, person: Examiner, page: int = 1) -> Response:
    language = language_of(request, person)
    text = translator(language)
    rows: list[list[Any]] = [
        [
            Markup('<bdi class="code">{}</bdi>').format(f"{each.item} v{each.version}"),
            Markup('<bdi class="code">{}</bdi>').format(each.seed),
            each.language,
            Markup("<bdi>{}</bdi>").format(each.said or "–"),
            moment(each.made, language),
            _close(request, each, text),
        ]
        for each in reports.reports(core)
    ]
    header = [text(f"shardwise.site-{name}") for name in ("item", "seed", "language", "said", "date", "state")]
    return _table(request, person, "reports", header, rows, page)


def _close(request: Request, each: reports.Reported, text: Callable[..., str]) -> Markup | str:
    if each.state != "open":
        return text("shardwise.site-report-closed")
    return Markup(
        '<form method="post" action="{}"><input type="hidden" name="csrf" value="{}"><button class="small">{}</button>'
        "</form>"
    ).format(
        renderer_of(request).at(f"/admin/reports/{each.id}"), csrf_token(request), text("shardwise.site-report-close")
    )


@router.post("/reports/{report}")
def close_report(request: Request, core: TheCore, person: Examiner, report: str) -> Response:
    reports.close(core, person, report)
    return see(renderer_of(request).at("/admin/reports"))


@router.get("/audit")
def audit_log(request: Request, core: TheCore, person: Administrator, q: str = "", page: int = 1) -> Response:
    """The latest 2,000 entries, or those about one id."""
    language = language_of(request, person)
    text = translator(language)
    with core.store.reading() as session:
        query = select(Audit).order_by(Audit.made.desc(), Audit.id).limit(2000)
        wanted = q.strip()[:100]
        found = session.scalars(
            query.where((Audit.about == wanted) | (Audit.actor == wanted) | (Audit.action == wanted))
            if wanted
            else query
        ).all()
    rows: list[list[Any]] = [
        [
            moment(each.made, language),
            Markup('<bdi class="code">{}</bdi>').format(each.action),
            Markup('<bdi class="code">{}</bdi>').format(each.actor or "–"),
            Markup('<bdi class="code">{}</bdi>').format(each.about or "–"),
            Markup('<bdi class="code">{}</bdi>').format(", ".join(f"{k}={v}" for k, v in each.detail.items()) or "–"),
        ]
        for each in found
    ]
    header = [text(f"shardwise.site-{name}") for name in ("date", "action", "actor", "about", "detail")]
    return _table(request, person, "audit", header, rows, page, query=wanted)
