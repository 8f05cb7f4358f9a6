"""The first page, signing in and out, the style, the privacy page, and whether the service is well."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from sqlalchemy import text as sql

from shardwise.service import accounts, api, attempts
from shardwise.service.attempts import Open, Standing
from shardwise.service.core import Core
from shardwise.service.pages import privacy
from shardwise.service.pages.rendering import ICON, Renderer, clock_style, moment, spoken, style
from shardwise.service.people import TheCore, Visitor
from shardwise.service.sign_in import farewell, welcome
from shardwise.service.store import revision
from shardwise.service.tables import REVISIONS
from translations import CourseError, Language, translator

router = APIRouter()
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
LONGEST_CLOCK = 7 * 86_400


def renderer_of(request: Request) -> Renderer:
    found: Renderer = request.app.state.pages
    return found


def language_of(request: Request, person: accounts.Person | None = None) -> Language:
    return spoken(request, person, secure=renderer_of(request).secure)


def see(address: str) -> RedirectResponse:
    """After a form: on to a page, which a reload asks for again without sending the form again."""
    return RedirectResponse(address, status_code=303)


# --- what every page loads


@router.get("/static/{name}")
def static(name: str) -> Response:
    if name == style()[1]:
        return Response(style()[0], media_type="text/css", headers=FOR_EVER)
    if name == "icon.svg":
        return Response(ICON, media_type="image/svg+xml", headers={"cache-control": "public, max-age=86400"})
    seconds = name.removeprefix("clock-").removesuffix(".css")
    if name == f"clock-{seconds}.css" and seconds.isascii() and seconds.isdecimal() and int(seconds) <= LONGEST_CLOCK:
        return Response(clock_style(int(seconds)), media_type="text/css", headers=FOR_EVER)
    return Response(status_code=404)


@router.get("/robots.txt")
def robots() -> Response:
    """Only certificates whose holder wishes it are found by search engines; each page says so itself."""
    lines = ["User-agent: *", "Allow: /c/", "Disallow: /"]
    return Response("\n".join(lines) + "\n", media_type="text/plain", headers={"cache-control": "public, max-age=3600"})


# --- the first page


@router.get("/")
def home(request: Request, core: TheCore, person: Visitor) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    if person is None:
        return pages.page(request, "home.html", title=pages.house, language=language)
    standings = attempts.attempts_of(core, person)
    open_ = attempts.sittings_of(core, person, language.code)
    return pages.page(
        request,
        "home.html",
        title=text("shardwise.site-exams"),
        language=language,
        person=person,
        here="exams",
        running=[each for each in standings if each.state == "open"],
        finished=[
            {"id": each.id, "title": each.title, "finished": each.deadline, "outcome": _outcome(each, language)}
            for each in standings
            if each.state != "open"
        ],
        sittings=[
            {
                "id": each.id,
                "title": each.title,
                "window": text(
                    "shardwise.site-from-to", opens=moment(each.opens, language), closes=moment(each.closes, language)
                ),
                "left": max(0, each.attempts - each.used),
                "why_not": _why_not(each, language),
            }
            for each in open_
            if each.attempt is None
        ],
    )


def _outcome(standing: Standing, language: Language) -> str:
    text = translator(language)
    if standing.passed is None:
        return text("shardwise.site-being-graded")
    return text("shardwise.site-passed" if standing.passed else "shardwise.site-not-passed")


def _why_not(sitting: Open, language: Language) -> str:
    if sitting.state == "now":
        return ""
    values = {"moment": moment(sitting.again, language)} if sitting.state == "wait" and sitting.again else {}
    if sitting.state == "later":
        values = {"moment": moment(sitting.opens, language)}
    return translator(language)(f"shardwise.site-not-now-{sitting.state}", **values)


# --- signing in


def to_sign_in(request: Request) -> Response:
    """The way to the sign-in, and from there back to what was asked for."""
    pages = renderer_of(request)
    path = request.url.path.removeprefix(pages.prefix)  # which the way back puts before it again
    target = accounts.inside(path) if request.method == "GET" else "/"
    return see(f"{pages.at('/sign-in')}?next={quote(target)}")


@router.get("/sign-in")
def sign_in(request: Request, core: TheCore, person: Visitor, next: str = "") -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    if person is not None:
        return see(pages.at(accounts.inside(next)))
    return _sign_in(request, core, language, next=next)


def _sign_in(
    request: Request, core: Core, language: Language, *, next: str, problem: CourseError | None = None
) -> Response:
    pages, text, settings = renderer_of(request), translator(language), core.settings
    ways = []
    onward = f"?next={quote(accounts.inside(next))}"
    if settings.hub is not None:
        ways.append({"address": pages.at(f"/sign-in/hub{onward}"), "label": text("shardwise.site-sign-in-hub")})
    if settings.oidc is not None:
        label = text("shardwise.site-sign-in-with", provider=settings.oidc.name)
        ways.append({"address": pages.at(f"/sign-in/oidc{onward}"), "label": label})
    return pages.page(
        request,
        "sign-in.html",
        title=text("shardwise.site-sign-in"),
        language=language,
        status=200 if problem is None else 422,
        ways=ways,
        by_mail=settings.accounts != "off",
        minutes=settings.link_minutes,
        next=accounts.inside(next) if next else "",
        notice=None if problem is None else {"mood": "bad", "text": problem.in_language(text)},
    )


@router.post("/sign-in/link")
def ask_link(
    request: Request,
    core: TheCore,
    email: Annotated[str, Form(max_length=300)] = "",
    next: Annotated[str, Form(max_length=400)] = "",
) -> Response:
    """Says the same whether or not the address has an account."""
    pages, language = renderer_of(request), language_of(request)
    text = translator(language)
    try:
        accounts.ask_link(core, email=email, language=language.code, next=next)
    except CourseError as error:
        if error.id != "shardwise.service-bad-email":
            raise
        return _sign_in(request, core, language, next=next, problem=error)
    lines = [
        text("shardwise.site-link-sent", minutes=core.settings.link_minutes),
        text("shardwise.site-link-not-there"),
    ]
    if core.settings.smtp is None:
        lines.append(text("shardwise.site-link-outbox", path=str(core.settings.outbox)))
    return pages.page(
        request, "message.html", title=text("shardwise.site-look-at-mail"), language=language, lines=lines, way=None
    )


@router.get("/sign-in/link")
def show_link(request: Request, token: str = "") -> Response:
    """Following a link changes nothing yet: mail programs follow links too, and it opens once."""
    pages, language = renderer_of(request), language_of(request)
    text = translator(language)
    return pages.page(
        request,
        "confirm.html",
        title=text("shardwise.site-sign-in"),
        language=language,
        headers={"referrer-policy": "no-referrer, same-origin"},
        lines=[text("shardwise.site-link-follow")],
        action=pages.at("/sign-in/link/follow"),
        carried=[("token", token[:200])],
        button=text("shardwise.site-sign-in"),
    )


@router.post("/sign-in/link/follow")
def follow_link(core: TheCore, token: Annotated[str, Form(max_length=300)] = "") -> Response:
    found = accounts.use_link(core, token)
    api.wish(core, found)
    return welcome(core, found, next=str(found.wanted.get("next", "/")))


@router.post("/sign-out")
def sign_out(request: Request, core: TheCore) -> Response:
    response = see(renderer_of(request).at("/"))
    farewell(core, request, response)
    response.headers["clear-site-data"] = '"cache"'
    return response


# --- privacy, health


@router.get("/privacy")
def privacy_page(request: Request, core: TheCore, person: Visitor) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    title = translator(language)("shardwise.site-privacy")
    parts = privacy.parts(core, language)
    return pages.page(request, "privacy.html", title=title, language=language, person=person, parts=parts)


@router.get("/healthz")
def healthz() -> Response:
    """The process answers. No database: where that is slow, a restart helps nobody."""
    return JSONResponse({"state": "up"})


@router.get("/readyz")
def readyz(core: TheCore) -> Response:
    """Whether requests can be served: the database answers, its schema is this service's, and keys can sign."""
    checks: dict[str, Any] = {"database": False, "schema": False, "issuer": core.issuing is not None}
    try:
        with core.store.reading() as session:
            session.execute(sql("SELECT 1"))
            checks["database"] = True
            checks["schema"] = revision(session.connection()) == REVISIONS[-1]
    except Exception:  # whatever keeps the database away, the answer is no
        checks["database"] = False
    ready = bool(checks["database"] and checks["schema"])
    return JSONResponse({"state": "ready" if ready else "not ready", **checks}, status_code=200 if ready else 503)
