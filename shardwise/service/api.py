"""The JSON API: what programs ask, the course's command line among them. Pages ask the same functions, never this.

A program signs in with a one-time link's token and sends what it gets as `Authorization: Bearer`. What changes
something takes an `Idempotency-Key`: the same key gets the same answer, and the thing is done once. Errors are
`{"error": id, "message": sentence}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.exc import DataError

from quiz.exam import ExamQuestion
from shardwise.service import accounts, attempts, cohorts, issuing
from shardwise.service.attempts import Open, Outcome, Standing, TaskStatus, Written
from shardwise.service.cohorts import Listed, SittingRow
from shardwise.service.issuing import Issued
from shardwise.service.people import Administrator, Examiner, NotSignedIn, SignedInPerson, TheCore, token_of
from shardwise.service.store import Busy, Conflict, Forbidden, Missing
from shardwise.service.tables import ROLES, Account, Audit, Wish
from translations import CourseError, translator


class Said(BaseModel):
    """An error: the message's id, and the sentence in the language asked for (Accept-Language)."""

    error: str
    message: str


FAILS: dict[int | str, dict[str, Any]] = {
    code: {"model": Said} for code in (400, 401, 403, 404, 409, 413, 421, 422, 429, 503)
}
router = APIRouter(prefix="/api", responses=FAILS)
admin = APIRouter(prefix="/api/admin", responses=FAILS)

Id = Annotated[str, Path(min_length=36, max_length=36, pattern=r"^[0-9a-f-]{36}$")]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=8, max_length=100, pattern=r"^[\x21-\x7e]+$"),
]
Spoken = Annotated[str | None, Query(alias="lang", pattern=r"^[a-z]{2,3}$")]
AnswerBody = str | list[str] | dict[str, str] | None
Short = Annotated[str, Field(max_length=200)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", str_max_length=2000)


class AskLink(Strict):
    email: Short
    language: Annotated[str, Field(max_length=3)] = "en"
    next: Annotated[str, Field(max_length=300)] = "/"


class UseLink(Strict):
    token: Short


class Visit(BaseModel):
    token: str
    expires: datetime
    account: str


class Me(BaseModel):
    id: str
    name: str
    email: str | None
    role: Literal["learner", "examiner", "administrator"]
    language: str


class Profile(Strict):
    name: Annotated[str | None, Field(max_length=300)] = None
    language: Annotated[str | None, Field(max_length=3)] = None


class Start(Strict):
    code: Annotated[str, Field(max_length=200)] = ""
    language: Annotated[str, Field(max_length=3)] = "en"


class Give(Strict):
    answer: Annotated[AnswerBody, Field(description="As the question's form asks; null takes an answer back.")]


class Code(Strict):
    source: Annotated[str, Field(max_length=attempts.SOURCE_BYTES)]
    model_config = ConfigDict(extra="forbid", str_max_length=attempts.SOURCE_BYTES)


class Begin(BaseModel):
    exercise: str
    kind: str
    source: str


class Ask(Strict):
    language: Annotated[str | None, Field(max_length=3)] = None
    name_other: Annotated[str | None, Field(max_length=300)] = None


class Issuer(BaseModel):
    """Who issues here, and what can be asked for: shown by `shardwise certificate request` before anything is sent."""

    did: str | None
    name: str | None
    fingerprint: str | None
    exams: list[dict[str, str]]
    sign_in: list[str]


class AskExam(Strict):
    email: Short
    exam: Annotated[str, Field(max_length=64)]
    language: Annotated[str, Field(max_length=3)] = "en"


# --- who issues, who am I


@router.get("/issuer")
def who_issues(core: TheCore, lang: Spoken = None) -> Issuer:
    """Who issues here, under which key, which exams there are, and how one signs in."""
    language = accounts.spoken(lang or core.settings.language)
    issuing_ = core.issuing
    ways = [
        name
        for name, there in (
            ("email", core.settings.accounts != "off"),
            ("oidc", core.settings.oidc is not None),
            ("hub", core.settings.hub is not None),
        )
        if there
    ]
    exams = []
    for id in core.exams.ids():
        exams.append({"exam": id, "title": core.exams.exam(id).blueprint.called(language)})
    return Issuer(
        did=issuing_.issuer.did if issuing_ else None,
        name=issuing_.issuer.name(language) if issuing_ else None,
        fingerprint=issuing_.issuer.key.fingerprint if issuing_ else None,
        exams=exams,
        sign_in=ways,
    )


@router.post("/sign-in/email", status_code=202)
def ask_link(core: TheCore, body: AskLink) -> dict[str, str]:
    """Asks for a one-time link by e-mail. The answer is the same whether or not there is an account."""
    accounts.ask_link(core, email=body.email, language=body.language, next=body.next)
    return {"message": translator(accounts.spoken(body.language))("shardwise.service-link-sent")}


@router.post("/sign-in/link")
def use_link(core: TheCore, body: UseLink) -> Visit:
    """Uses a one-time link's token: a token for `Authorization: Bearer`."""
    signed = accounts.use_link(core, body.token)
    wish(core, signed)
    return Visit(token=signed.token, expires=signed.expires, account=signed.account)


def wish(core: Any, signed: accounts.SignedIn) -> None:
    """Keeps the exam that a link was asked for with (`/api/requests`), once its address is proven."""
    exam = signed.wanted.get("exam")
    if not exam or exam not in core.exams.ids():
        return
    with core.store.writing() as session:
        known = select(Wish).where(Wish.account == signed.account, Wish.exam == exam)
        if session.scalar(known) is None:
            session.add(Wish(account=signed.account, exam=exam, made=core.clock()))


@router.post("/requests", status_code=202)
def ask_exam(core: TheCore, body: AskExam) -> dict[str, str]:
    """Asks this issuer for one of its exams: a one-time link goes to the address; using it tells the examiners."""
    core.exams.exam(body.exam)
    accounts.ask_link(
        core, email=body.email, language=body.language, purpose="request", wanted={"exam": body.exam}, next="/"
    )
    return {"message": translator(accounts.spoken(body.language))("shardwise.service-link-sent")}


@router.post("/sign-out", status_code=204)
def sign_out(core: TheCore, _person: SignedInPerson, request: Request) -> Response:
    """Ends this visit: its token opens nothing any more."""
    accounts.leave(core, token_of(request))
    return Response(status_code=204)


@router.get("/me")
def me(person: SignedInPerson) -> Me:
    """Whose token this is."""
    return Me(**{name: getattr(person, name) for name in Me.model_fields})


@router.patch("/me")
def change_me(core: TheCore, person: SignedInPerson, body: Profile) -> Me:
    """The name as certificates shall show it, and the language."""
    accounts.change(core, person, name=body.name, language=body.language)
    with core.store.reading() as session:
        account = session.get_one(Account, person.id)
        return Me.model_validate(account, from_attributes=True)


# --- exams


@router.get("/exams")
def exams(core: TheCore, person: SignedInPerson, lang: Spoken = None) -> list[Open]:
    """What I can take, and when."""
    return list(attempts.sittings_of(core, person, accounts.spoken(lang or person.language)))


@router.post("/exams/{sitting}/start")
def start(core: TheCore, person: SignedInPerson, sitting: Id, body: Start, key: Key = None) -> Standing:
    """Begins my attempt; while one is open, that one again."""
    return attempts.start(core, person, sitting, code=body.code, language=body.language, key=key)


@router.get("/attempts")
def my_attempts(core: TheCore, person: SignedInPerson) -> list[Standing]:
    """All my attempts, the latest first."""
    return list(attempts.attempts_of(core, person))


@router.get("/attempts/{attempt}")
def standing(core: TheCore, person: SignedInPerson, attempt: Id) -> Standing:
    """How much time is left, what is answered, what is handed in."""
    return attempts.standing(core, person, attempt)


Number = Annotated[int, Path(ge=1, le=1000)]


@router.get("/attempts/{attempt}/questions/{number}")
def question(core: TheCore, person: SignedInPerson, attempt: Id, number: Number, lang: Spoken = None) -> ExamQuestion:
    """One question, with my answer so far. It holds no key."""
    return attempts.question(core, person, attempt, number, lang)


@router.put("/attempts/{attempt}/answers/{number}")
def answer(
    core: TheCore, person: SignedInPerson, attempt: Id, number: Number, body: Give, key: Key = None, lang: Spoken = None
) -> Written:
    """Writes my answer; what acknowledges it is sent once it is on the disk."""
    return attempts.answer(core, person, attempt, number, body.answer, key=key, language=lang)


Exercise = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,60}$")]


@router.get("/attempts/{attempt}/practical/{exercise}")
def practical(core: TheCore, person: SignedInPerson, attempt: Id, exercise: Exercise, lang: Spoken = None) -> Begin:
    """The source from which a task begins."""
    found = attempts.task(core, person, attempt, exercise)
    language = accounts.spoken(lang or person.language)
    return Begin(exercise=found.exercise, kind=found.kind, source=found.start(language))


@router.post("/attempts/{attempt}/practical/{exercise}", status_code=202)
def submit(
    core: TheCore, person: SignedInPerson, attempt: Id, exercise: Exercise, body: Code, key: Key = None
) -> TaskStatus:
    """Hands code in for a task; it is graded in the sandbox, and the last one handed in counts."""
    return attempts.submit(core, person, attempt, exercise, body.source.encode("utf-8", "replace"), key=key)


@router.post("/attempts/{attempt}/hand-in")
def hand_in(core: TheCore, person: SignedInPerson, attempt: Id) -> Standing:
    """Ends my attempt, for good."""
    return attempts.hand_in(core, person, attempt)


@router.get("/attempts/{attempt}/result")
def result(core: TheCore, person: SignedInPerson, attempt: Id, lang: Spoken = None) -> Outcome:
    """The result by objective and task, once everything is graded."""
    return attempts.outcome(core, person, attempt, lang)


# --- certificates


@router.post("/attempts/{attempt}/certificate")
def ask_certificate(core: TheCore, person: SignedInPerson, attempt: Id, body: Ask) -> Issued:
    """The certificate of a passed attempt: made at the first request, the same one at every further one."""
    return issuing.request(core, person, attempt, language=body.language, name_other=body.name_other)


@router.get("/certificates")
def my_certificates(core: TheCore, person: SignedInPerson) -> list[Issued]:
    """All my certificates, the latest first."""
    return list(issuing.issued_to(core, person))


@router.get("/certificates/{certificate}.jwt", response_class=Response)
def certificate_jwt(core: TheCore, certificate: Id) -> Response:
    """The signed certificate, for whoever knows its id: the id is the key to the public page too."""
    found = issuing.issued(core, certificate)
    if not found.jwt:
        raise Missing("shardwise.service-no-such-certificate")
    return Response(found.jwt, media_type="application/vc+jwt")


# --- examiners


class NewSitting(Strict):
    exam: Annotated[str, Field(max_length=64)]
    opens: datetime
    closes: datetime
    cohort: Annotated[str | None, Field(max_length=36)] = None
    title: Short = ""
    code: Short = ""
    supervised: bool = False
    attempts: Annotated[int | None, Field(ge=1, le=100)] = None


class NewCohort(Strict):
    name: Annotated[str, Field(max_length=200)]
    csv: Annotated[str, Field(max_length=900_000)]
    dry_run: bool = False
    model_config = ConfigDict(extra="forbid", str_max_length=900_000)


class CohortChange(BaseModel):
    cohort: str
    new: int
    joined: int
    changed: int
    same: int
    dry_run: bool
    problems: list[dict[str, Any]]


class Made(BaseModel):
    id: str


class MoreTime(Strict):
    minutes: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]


@admin.get("/cohorts")
def all_cohorts(core: TheCore, _person: Examiner) -> list[Listed]:
    """All cohorts, with their number of learners."""
    return list(cohorts.cohorts(core))


@admin.post("/cohorts")
def cohort(core: TheCore, person: Examiner, body: NewCohort) -> CohortChange:
    """Learners from CSV; with `dry_run`, or where a line is wrong, it only says what it would do. Twice changes
    nothing.
    """
    found = cohorts.apply(core, person, body.name, body.csv, dry_run=body.dry_run)
    problems = [{"line": each.line, "error": each.error.id, "message": str(each.error)} for each in found.problems]
    return CohortChange(
        **{name: getattr(found, name) for name in CohortChange.model_fields if name != "problems"}, problems=problems
    )


@admin.get("/cohorts/{cohort}/training.csv", response_class=Response)
def training(core: TheCore, _person: Examiner, cohort: Id) -> Response:
    """The training record of a cohort."""
    return _csv(cohorts.training_csv(core, cohort), f"training-{cohort[:8]}.csv")


@admin.get("/sittings")
def sittings(core: TheCore, _person: Examiner) -> list[SittingRow]:
    """All sittings, the latest to open first."""
    return list(cohorts.sittings(core))


@admin.post("/sittings", status_code=201)
def new_sitting(core: TheCore, person: Examiner, body: NewSitting) -> Made:
    """An exam that can be taken: by whom, when, with which code, supervised or not."""
    return Made(id=cohorts.open_sitting(core, person, **dict(body)))


@admin.post("/sittings/{sitting}/cancel", status_code=204)
def cancel(core: TheCore, person: Examiner, sitting: Id) -> Response:
    """Takes a sitting back that nobody has begun."""
    cohorts.cancel(core, person, sitting)
    return Response(status_code=204)


@admin.get("/sittings/{sitting}/results.csv", response_class=Response)
def results(core: TheCore, _person: Examiner, sitting: Id) -> Response:
    """Every attempt of a sitting."""
    return _csv(cohorts.results_csv(core, sitting), f"results-{sitting[:8]}.csv")


@admin.post("/attempts/{attempt}/time")
def more_time(core: TheCore, person: Examiner, attempt: Id, body: MoreTime) -> Standing:
    """More time for an attempt that is open, within its sitting's window."""
    return attempts.extend(core, person, attempt, body.minutes)


class Wished(BaseModel):
    id: str
    exam: str
    email: str | None
    name: str
    made: datetime


@admin.get("/requests")
def wishes(core: TheCore, _person: Examiner) -> list[Wished]:
    """Exams that learners asked for from the course, and that wait for a cohort."""
    with core.store.reading() as session:
        query = select(Wish, Account).join(Account, Account.id == Wish.account).where(Wish.state == "waiting")
        return [
            Wished(id=each.id, exam=each.exam, email=account.email, name=account.name, made=each.made)
            for each, account in session.execute(query.order_by(Wish.made).limit(1000))
        ]


class Accept(Strict):
    cohort: Annotated[str, Field(max_length=36)]


@admin.post("/requests/{wish}/accept", status_code=204)
def accept(core: TheCore, person: Examiner, wish: Id, body: Accept) -> Response:
    """Puts whoever asked into a cohort."""
    cohorts.accept(core, person, wish, body.cohort)
    return Response(status_code=204)


@admin.post("/requests/{wish}/decline", status_code=204)
def decline(core: TheCore, person: Examiner, wish: Id) -> Response:
    """Takes a request off the list."""
    cohorts.decline(core, person, wish)
    return Response(status_code=204)


# --- administrators


class Role(Strict):
    role: Annotated[str, Field(max_length=20, description=", ".join(ROLES))]


class AccountRow(BaseModel):
    id: str
    name: str
    email: str | None
    role: str
    active: bool
    made: datetime


class Reason(Strict):
    reason: Annotated[str, Field(max_length=200)] = ""


class NewName(Strict):
    name: Annotated[str, Field(max_length=300)]
    other: Annotated[str | None, Field(max_length=300)] = None


class Noted(BaseModel):
    made: datetime
    actor: str | None
    action: str
    about: str
    detail: dict[str, Any]


Search = Annotated[str, Query(max_length=200)]


@admin.get("/accounts")
def all_accounts(core: TheCore, _person: Administrator, q: Search = "") -> list[AccountRow]:
    """Accounts, by a part of name or address."""
    with core.store.reading() as session:
        found = accounts.search(session, q)
        return [AccountRow.model_validate(each, from_attributes=True) for each in found]


@admin.put("/accounts/{account}/role", status_code=204)
def role(core: TheCore, person: Administrator, account: Id, body: Role) -> Response:
    """Learner, examiner or administrator."""
    accounts.set_role(core, person, account, body.role)
    return Response(status_code=204)


@admin.post("/accounts/{account}/close", status_code=204)
def close(core: TheCore, person: Administrator, account: Id) -> Response:
    """Nobody signs in to it any more; its visits end at once."""
    accounts.set_active(core, person, account, False)
    return Response(status_code=204)


@admin.post("/accounts/{account}/open", status_code=204)
def reopen(core: TheCore, person: Administrator, account: Id) -> Response:
    """Opens a closed account again."""
    accounts.set_active(core, person, account, True)
    return Response(status_code=204)


@admin.get("/certificates")
def all_certificates(core: TheCore, _person: Administrator, q: Search = "") -> list[Issued]:
    """Certificates, by a part of the name, an address or an id."""
    return list(issuing.search(core, q))


@admin.post("/certificates/{certificate}/revoke")
def revoke(core: TheCore, person: Administrator, certificate: Id, body: Reason) -> Issued:
    """It holds no more, for ever."""
    return issuing.set_state(core, person, certificate, "revoked", reason=body.reason)


@admin.post("/certificates/{certificate}/suspend")
def suspend(core: TheCore, person: Administrator, certificate: Id, body: Reason) -> Issued:
    """It does not hold for now."""
    return issuing.set_state(core, person, certificate, "suspended", reason=body.reason)


@admin.post("/certificates/{certificate}/reinstate")
def reinstate(core: TheCore, person: Administrator, certificate: Id) -> Issued:
    """A suspended one holds again."""
    return issuing.set_state(core, person, certificate, "valid")


@admin.post("/certificates/{certificate}/correct")
def correct(core: TheCore, person: Administrator, certificate: Id, body: NewName) -> Issued:
    """Issues it again under a corrected name; the old one is revoked."""
    return issuing.correct_name(core, person, certificate, body.name, other=body.other)


@admin.post("/certificates/{certificate}/renew")
def renew(core: TheCore, person: Administrator, certificate: Id) -> Issued:
    """Issues it again with a later end."""
    return issuing.extend(core, person, certificate)


@admin.get("/audit")
def audit_log(
    core: TheCore, _person: Administrator, limit: Annotated[int, Query(ge=1, le=1000)] = 200, about: Search = ""
) -> list[Noted]:
    """What was done, the latest first."""
    with core.store.reading() as session:
        query = select(Audit).order_by(Audit.made.desc()).limit(limit)
        found = session.scalars(query.where(Audit.about == about) if about else query)
        return [Noted.model_validate(each, from_attributes=True) for each in found]


# --- what is published for everybody

published = APIRouter(include_in_schema=False)


@published.get("/.well-known/did.json")
@published.get("/did.json")
def did(core: TheCore) -> Response:
    """The issuer's DID document."""
    return JSONResponse(
        issuing.issuing_of(core).issuer.did_document(),
        media_type="application/did+json",
        headers={"access-control-allow-origin": "*", "cache-control": "public, max-age=300"},
    )


@published.get("/status/{purpose}/{number}.jwt")
def status_list(core: TheCore, purpose: str, number: int) -> Response:
    """A signed status list, for whoever verifies."""
    return Response(
        issuing.status_list(core, purpose, number),
        media_type="application/vc+jwt",
        headers={"access-control-allow-origin": "*", "cache-control": "public, max-age=60"},
    )


def _csv(text: str, name: str) -> Response:
    return Response(
        text, media_type="text/csv; charset=utf-8", headers={"content-disposition": f'attachment; filename="{name}"'}
    )


# --- what goes wrong


def install(app: FastAPI, *, prefix: str = "") -> None:
    """The routes, and errors as JSON (which the pages word for people)."""
    for each in (router, admin, published):
        app.include_router(each, prefix=prefix)
    app.add_exception_handler(CourseError, _said)
    app.add_exception_handler(RequestValidationError, _wrong)
    app.add_exception_handler(DataError, _unheld)


def status_of(error: CourseError) -> int:
    """The HTTP status of an error that the service foresees."""
    kinds: Sequence[tuple[type[CourseError], int]] = (
        (NotSignedIn, 401),
        (Forbidden, 403),
        (Missing, 404),
        (Conflict, 409),
        (Busy, 503),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), 422)


async def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, CourseError)
    code = accounts.spoken(request.headers.get("accept-language", "en")[:2])
    said = {"error": error.id, "message": error.in_language(translator(code))}
    status = status_of(error)
    return JSONResponse(said, status_code=status, headers={"retry-after": "30"} if status == 503 else None)


async def _wrong(request: Request, error: Exception) -> Response:
    """A request of the wrong shape. Where it is wrong is said; what stood there is not: it may be somebody's answer."""
    assert isinstance(error, RequestValidationError)
    where = ", ".join(".".join(str(step) for step in each["loc"]) for each in error.errors()[:3])
    shown = CourseError("shardwise.service-bad-request", where=where[:200])
    return await _said(request, shown)


async def _unheld(request: Request, _error: Exception) -> Response:
    """A text that the database can't hold or look for: PostgreSQL has no NUL. Said as any other error is."""
    said: Response = await request.app.exception_handlers[CourseError](
        request, CourseError("shardwise.service-bad-request", where="NUL")
    )
    return said
