"""The wall around every request: who may be asked under which name, how much, how often, and from whose pages.

`Guard` is the outermost ASGI layer, and it fails closed: a form that carries no token of the session it came from is
refused before any route sees it, whichever route that is. A page may run no script at all, load nothing but our own
style and pictures, and stand in no frame. What a route sets itself (the verification page its own policy) is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardwise.service.limits import Limits, Rule

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; font-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), interest-cohort=()",
    "cache-control": "no-store",
}
"""`same-origin` and not `no-referrer`: a browser that may not name the page sends no usable `Origin` with a form."""
HSTS = "max-age=31536000; includeSubDomains"

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
VISITOR_SECONDS = 86_400
LOGGER = "shardwise.service"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


def cookie_name(name: str, *, secure: bool) -> str:
    """`__Host-` binds the cookie to this host, its root and TLS; a browser takes it over TLS only."""
    return f"__Host-{name}" if secure else name


def set_cookie(
    response: Response, name: str, value: str, *, secure: bool, seconds: int, same_site: str = "lax"
) -> None:
    """A cookie that no script reads and no foreign page's form carries. 'lax', so that a link from a mail arrives
    signed in; what changes anything is a form, which carries a token too.
    """
    response.headers.append("set-cookie", _cookie(name, value, secure=secure, seconds=seconds, same_site=same_site))


def _cookie(name: str, value: str, *, secure: bool, seconds: int, same_site: str = "lax") -> str:
    parts = [f"{cookie_name(name, secure=secure)}={value}", "Path=/", "HttpOnly", f"SameSite={same_site.title()}"]
    parts.append(f"Max-Age={seconds}")
    return "; ".join([*parts, "Secure"] if secure else parts)


@dataclass(frozen=True, kw_only=True)
class Limited:
    """Which requests a rule counts, and of whom: of an `address`, or of an `account` (else its address)."""

    rule: Rule
    methods: frozenset[str]
    path: re.Pattern[str]
    by: str = "address"


def default_limits(*, scale: float = 1.0) -> tuple[Limited, ...]:
    """A class behind one address takes an exam without noticing; a password list, a code guesser and a crawler do.

    The first rule that fits a request's path and method counts it, and the last one counts everything.
    """

    def limited(name: str, times: float, seconds: float, path: str, methods: str, by: str = "address") -> Limited:
        rule = Rule(name=name, times=max(1, round(times * scale)), seconds=seconds)
        return Limited(rule=rule, methods=frozenset(methods.split()), path=re.compile(path), by=by)

    return (
        limited("sign-in", 60, 300, r"/(api/)?sign-in\b.*|/api/requests", "POST GET"),
        limited("unlock", 10, 300, r".*/(start|unlock)", "POST", "account"),
        limited("report", 20, 3600, r".*/report", "POST", "account"),
        limited("code", 30, 600, r".*/(practical|tasks)\b.*", "POST", "account"),
        limited("draw", 120, 60, r"/c/.*\.(pdf|png|svg)", "GET HEAD"),
        limited("write", 240, 60, r".*", "POST PUT PATCH DELETE", "account"),
        limited("health", 600, 60, r"/healthz|/readyz", "GET HEAD"),
        limited("read", 3000, 60, r".*", "GET HEAD OPTIONS"),
    )


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a request got no further: a status, the id of a message, and what the message names."""

    status: int
    message: str
    values: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Raised inside the wall; becomes a page or JSON at its edge."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True)
class Protection:
    """What the wall is made of. `hosts` are names without port; `origin` is the service's own, as browsers write it."""

    origin: str
    hosts: frozenset[str]
    secret: bytes
    prefix: str = ""
    session_cookie: str = "shardwise"
    visitor_cookie: str = "shardwise-visitor"
    body_bytes: int = 64_000
    upload_bytes: int = 1_000_000
    uploads: re.Pattern[str] = re.compile(r".*/(practical|tasks)\b.*|/admin/cohorts.*|/api/admin/.*")
    body_seconds: float = 20.0
    answer_seconds: float = 60.0
    limits: tuple[Limited, ...] = field(default_factory=default_limits)

    @property
    def secure(self) -> bool:
        return self.origin.startswith("https://")


class Csrf:
    """Tokens that only the session which was shown a form can send back; each is masked anew."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"shardwise forms", "sha256")

    def token(self, session: str) -> str:
        mask = secrets.token_hex(8)
        return mask + self._tag(mask, session)

    def holds(self, token: str, session: str) -> bool:
        if not session or not re.fullmatch(r"[0-9a-f]{80}", token):
            return False
        return hmac.compare_digest(token[16:], self._tag(token[:16], session))

    def _tag(self, mask: str, session: str) -> str:
        return hmac.new(self._key, f"{mask}\n{session}".encode(), hashlib.sha256).hexdigest()


def csrf_token(request: Request) -> str:
    """The token for a form on this page; who has no session is given a cookie for a day to bind it to."""
    state = request.scope["shardwise.guard"]
    token: str = state.token()
    return token


def keyed(secret: bytes, text: str) -> str:
    """A short keyed hash, by which logs tell two people apart without knowing either."""
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:12]


OnRefusal = Callable[[Scope, Refusal], Response]
AccountOf = Callable[[str], str | None]


class Guard:
    """The layer. `account_of` gives the account that a session's token belongs to, so that who signs in ten times is
    still one person to the limits; a made-up token counts as none. `on_refusal` words a refusal, else it is a plain
    line. What fails inside is written to the log by its kind, and answered without a word about it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        protection: Protection,
        limits: Limits,
        account_of: AccountOf | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        self.app, self.protection, self.limits = app, protection, limits
        self._account_of = account_of or (lambda token: token)
        self.csrf = Csrf(protection.secret)
        self._on_refusal = on_refusal or _plainly

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        visit = _Visit(self, scope)
        scope["shardwise.guard"] = visit
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                visit.dress(MutableHeaders(scope=message))
            await send(message)

        try:
            await self._let_through(visit, scope, receive, sent)
        except Refused as refused:
            if not started:
                await self._on_refusal(scope, refused.refusal)(scope, receive, sent)
        except Exception:
            logging.getLogger(LOGGER).error(
                "failed", exc_info=True, extra={"fields": {"request": scope.get("shardwise.request", "")}}
            )
            if started:
                raise
            refusal = Refusal(status=500, message="shardwise.service-failed")
            await self._on_refusal(scope, refusal)(scope, receive, sent)

    async def _let_through(self, visit: _Visit, scope: Scope, receive: Receive, send: Send) -> None:
        visit.check_host()
        await self._count(visit, scope)
        if scope["method"] not in SAFE:
            body = await self._body(visit, receive)
            await self._check_form(visit, scope, body)
            receive = _again(body, receive)
        try:
            async with asyncio.timeout(self.protection.answer_seconds):
                await self.app(scope, receive, send)
        except TimeoutError:
            raise Refused(Refusal(status=503, message="shardwise.service-too-slow")) from None

    async def _count(self, visit: _Visit, scope: Scope) -> None:
        for limited in self.protection.limits:
            if scope["method"] in limited.methods and limited.path.fullmatch(visit.path):
                wait = await asyncio.to_thread(self._take, visit, limited)
                if wait:
                    seconds = max(1, -int(-wait // 1))
                    refusal = Refusal(
                        status=429,
                        message="shardwise.service-too-often",
                        values={"seconds": seconds},
                        headers={"retry-after": str(seconds)},
                    )
                    raise Refused(refusal)
                return

    def _take(self, visit: _Visit, limited: Limited) -> float:
        account = self._account_of(visit.bearer) if limited.by == "account" and visit.bearer else None
        return self.limits.take(limited.rule, visit.address if account is None else f"account {account}")

    async def _body(self, visit: _Visit, receive: Receive) -> bytes:
        """The whole body, within its limits: what a form may hold is small, and nobody may send it for ever."""
        upload = self.protection.uploads.fullmatch(visit.path)
        limit = self.protection.upload_bytes if upload else self.protection.body_bytes
        declared = visit.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > limit:
            raise _too_large(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self.protection.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(Refusal(status=400, message="shardwise.service-broken-off"))
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise _too_large(limit)
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refused(Refusal(status=408, message="shardwise.service-too-slow")) from None

    async def _check_form(self, visit: _Visit, scope: Scope, body: bytes) -> None:
        """A request that changes something comes from our own page, by a person whose session was shown the form."""
        foreign = Refused(Refusal(status=403, message="shardwise.service-foreign"))
        origin, site = visit.headers.get("origin"), visit.headers.get("sec-fetch-site")
        if origin is not None and origin != self.protection.origin:
            raise foreign
        if site is not None and site not in ("same-origin", "none"):
            raise foreign
        kind = visit.headers.get("content-type", "").partition(";")[0].strip().lower()
        token = visit.headers.get(CSRF_HEADER)
        if token is None and kind not in FORMS and kind:
            # JSON cannot be sent by a foreign form, and a foreign script is stopped by its origin; without a cookie
            # there is nothing to borrow.
            if not visit.cookie(self.protection.session_cookie) or origin == self.protection.origin:
                return
            raise foreign
        if token is None and visit.headers.get("authorization") and not visit.cookie(self.protection.session_cookie):
            return
        if token is None and kind in FORMS[:2]:
            token = await _field(scope, body)
        if not self.csrf.holds(token or "", visit.session):
            raise Refused(Refusal(status=403, message="shardwise.service-form-old"))


class _Visit:
    """One request as the wall sees it."""

    def __init__(self, guard: Guard, scope: Scope) -> None:
        self._guard, self.scope = guard, scope
        self.headers = Headers(scope=scope)
        self.path: str = scope["path"].removeprefix(guard.protection.prefix) or "/"
        self.address = (scope.get("client") or ("unknown", 0))[0]
        self._cookies = _cookies(self.headers.getlist("cookie"))
        self._given: str | None = None
        self.began = time.monotonic()

    def cookie(self, name: str) -> str:
        return self._cookies.get(cookie_name(name, secure=self._guard.protection.secure), "")

    @property
    def session(self) -> str:
        """What forms are bound to: the session; before there is one, the visitor's own cookie; else nothing."""
        protection = self._guard.protection
        return self.cookie(protection.session_cookie) or self.cookie(protection.visitor_cookie)

    @property
    def bearer(self) -> str:
        """The token that says who asks."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else self.cookie(self._guard.protection.session_cookie)

    def token(self) -> str:
        if not self.session and self._given is None:
            self._given = secrets.token_urlsafe(24)
        return self._guard.csrf.token(self.session or self._given or "")

    def check_host(self) -> None:
        host = self.headers.get("host", "")
        name = re.sub(r":\d+$", "", host).lower()
        if len(self.headers.getlist("host")) != 1 or name not in self._guard.protection.hosts:
            raise Refused(Refusal(status=421, message="shardwise.service-unknown-host"))

    def dress(self, headers: MutableHeaders) -> None:
        protection = self._guard.protection
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if protection.secure:
            headers["strict-transport-security"] = HSTS
        if self._given is not None:
            cookie = _cookie(protection.visitor_cookie, self._given, secure=protection.secure, seconds=VISITOR_SECONDS)
            headers.append("set-cookie", cookie)


def _cookies(lines: Sequence[str]) -> dict[str, str]:
    """The cookies as the routes read them: one that others set on this host, however odd, hides none of ours."""
    return {name: value for line in lines for name, value in cookie_parser(line).items()}


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more; after it whatever the server says."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay


async def _field(scope: Scope, body: bytes) -> str | None:
    """The token in a form. A form that cannot be read has none."""

    async def once() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        async with Request(dict(scope), once).form(max_files=4, max_fields=1000) as form:
            value: Any = form.get(CSRF_FIELD)
            return value if isinstance(value, str) else None
    except Exception:  # whatever the parser has to say, its answer is no
        return None


def _too_large(limit: int) -> Refused:
    return Refused(Refusal(status=413, message="shardwise.service-too-large", values={"limit": limit}))


def _plainly(_scope: Scope, refusal: Refusal) -> Response:
    return PlainTextResponse(refusal.message, status_code=refusal.status, headers=dict(refusal.headers))
