"""Puts the pages and the wall around an application."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.engine import make_url
from starlette.exceptions import HTTPException
from starlette.types import Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from shardwise.service import api, logs
from shardwise.service.accounts import hashed, person_of
from shardwise.service.core import Core
from shardwise.service.limits import Limits
from shardwise.service.pages import admin, exam, public, site
from shardwise.service.pages.rendering import Renderer, spoken
from shardwise.service.people import COOKIE, NotSignedIn
from shardwise.service.security import Guard, Protection, Refusal
from translations import CourseError, translator

REMEMBERED, REMEMBERED_SECONDS = 10_000, 15.0


def install(app: FastAPI, core: Core, *, prefix: str = "") -> None:
    """Pages, words for what goes wrong, health checks and the wall. `prefix`: where a Hub puts the service."""
    settings = core.settings
    renderer = Renderer(prefix=prefix, secure=settings.https, verifies=core.issuing is not None)
    app.state.pages = renderer
    for room in (site, exam, public, admin):
        app.include_router(room.router, prefix=prefix, include_in_schema=False)
    app.add_exception_handler(NotSignedIn, _to_sign_in)
    app.add_exception_handler(CourseError, _said)
    app.add_exception_handler(HTTPException, _unknown)
    programs = app.exception_handlers.get(RequestValidationError)

    async def wrong(request: Request, raised: Exception) -> Response:
        """What a form or address holds that it can't hold."""
        if for_programs(request) and programs is not None:
            answer: Response = await programs(request, raised)  # type: ignore[misc]
            return answer
        return refused(request, renderer, Refusal(status=422, message="shardwise.site-bad-form"))

    app.add_exception_handler(RequestValidationError, wrong)
    limits = Limits(_limits_url(core), secret=settings.secret.value.encode())
    app.state.limits = limits
    own = urlsplit(settings.public_url)
    names = {own.hostname or "", *(("localhost", "127.0.0.1", "[::1]") if settings.loopback else ())}
    protection = Protection(
        origin=f"{own.scheme}://{own.netloc}",
        hosts=frozenset(names),
        secret=settings.secret.value.encode(),
        session_cookie=COOKIE,
        prefix=prefix,
    )

    account_of = _Accounts(core)

    def worded(scope: Scope, refusal: Refusal) -> Response:
        return refused(Request(scope), renderer, refusal)

    app.add_middleware(Guard, protection=protection, limits=limits, account_of=account_of, on_refusal=worded)
    app.add_middleware(logs.Logged, secret=settings.secret.value.encode())
    if settings.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))


class _Accounts:
    """Whose token it is, for the limits alone: remembered for some seconds, by the token's hash."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._turn = threading.Lock()

    def __call__(self, token: str) -> str | None:
        name, now = hashed(token), time.monotonic()
        with self._turn:
            kept = self._known.get(name)
        if kept is not None and kept[0] > now:
            return kept[1]
        with self._core.store.reading() as session:
            found = person_of(session, token, self._core.clock())
        account = None if found is None else found.id
        with self._turn:
            self._known[name] = (now + REMEMBERED_SECONDS, account)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return account


def _limits_url(core: Core) -> str:
    """Beside a SQLite database a file of its own, since counting must not wait for answers being written."""
    url = make_url(core.settings.database)
    if url.get_backend_name() != "sqlite":
        shared = url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
        return shared.render_as_string(hide_password=False)
    core.settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{core.settings.data / 'limits.db'}"


# --- what goes wrong


def for_programs(request: Request) -> bool:
    """Whether a program asked, which reads JSON; else a person did."""
    return "/api/" in request.url.path or request.url.path.endswith(("/healthz", "/readyz", "/did.json"))


def refused(request: Request, renderer: Renderer, refusal: Refusal) -> Response:
    if for_programs(request):
        said = translator(spoken(request, secure=renderer.secure))(refusal.message, **refusal.values)
        body = {"error": refusal.message, "message": said}
        return JSONResponse(body, status_code=refusal.status, headers=dict(refusal.headers))
    language = spoken(request, secure=renderer.secure)
    text = translator(language)
    return renderer.page(
        request,
        "message.html",
        title=text(f"shardwise.site-error-{'gone' if refusal.status == 404 else 'refused'}"),
        language=language,
        status=refusal.status,
        headers=refusal.headers,
        lines=[text(refusal.message, **refusal.values)],
        way={"address": renderer.at("/"), "label": text("shardwise.site-to-start")},
    )


async def _said(request: Request, raised: Exception) -> Response:
    """An error that the service foresees, in the reader's words."""
    assert isinstance(raised, CourseError)
    status = api.status_of(raised)
    headers = {"retry-after": "30"} if status == 503 else {}
    refusal = Refusal(status=status, message=raised.id, values=raised.values, headers=headers)
    return refused(request, request.app.state.pages, refusal)


async def _unknown(request: Request, raised: Exception) -> Response:
    """An address that leads nowhere, or a method that an address doesn't have."""
    assert isinstance(raised, HTTPException)
    message = "shardwise.site-no-page" if raised.status_code == 404 else "shardwise.site-bad-form"
    refusal = Refusal(status=raised.status_code, message=message, headers=dict(raised.headers or {}))
    return refused(request, request.app.state.pages, refusal)


async def _to_sign_in(request: Request, _raised: Exception) -> Response:
    if for_programs(request):
        return refused(request, request.app.state.pages, Refusal(status=401, message="shardwise.service-sign-in-first"))
    return site.to_sign_in(request)
