"""The wall: what it refuses, and that no route behind it sees what was refused."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shardwise.service import security
from shardwise.service.limits import Limits, Rule
from shardwise.service.security import CSRF_FIELD, Csrf, Guard, Protection, default_limits
from tests.shardwise.service.conftest import Server

SECRET = b"0123456789abcdef0123456789abcdef"
ORIGIN = "http://exam.example"


class Room:
    """A route behind the wall that notes what reached it."""

    def __init__(self, limits: Limits, **changes: Any) -> None:
        self.reached: list[str] = []
        fields: dict[str, Any] = {"origin": ORIGIN, "hosts": frozenset({"exam.example"}), "secret": SECRET}
        self.protection = Protection(**{**fields, **changes})
        routes = [Route("/{path:path}", self.any, methods=["GET", "POST", "PUT", "DELETE"])]
        self.guard = Guard(Starlette(routes=routes), protection=self.protection, limits=limits)

    async def any(self, request: Request) -> Response:
        if request.method != "GET":
            self.reached.append((await request.body()).decode("latin-1"))
        if request.url.path == "/own-policy":
            return PlainTextResponse("x", headers={"content-security-policy": "default-src 'self'"})
        if request.url.path == "/slow":
            await asyncio.sleep(5)
        return PlainTextResponse(security.csrf_token(request))

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.guard)
            base = self.protection.origin
            async with httpx.AsyncClient(
                transport=transport, base_url=base, cookies=more.pop("cookies", None)
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(once())


@pytest.fixture
def limits(tmp_path: Path) -> Iterator[Limits]:
    made = Limits(f"sqlite:///{tmp_path / 'limits.db'}", secret=SECRET)
    yield made
    made.close()


@pytest.fixture
def room(limits: Limits) -> Room:
    return Room(limits)


def visitor(room: Room) -> tuple[Mapping[str, str], str]:
    """The cookies and the token of somebody who was shown a form."""
    shown = room.ask("GET", "/form")
    return dict(shown.cookies), shown.text


def test_every_answer_forbids_scripts_frames_and_sniffing(room: Room) -> None:
    for found in (room.ask("GET", "/"), room.ask("POST", "/", data={"a": "b"}), room.ask("GET", "/none/of/it")):
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "same-origin"
        assert found.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in found.headers


def test_over_tls_the_browser_is_told_to_stay_there_and_cookies_are_bound(limits: Limits) -> None:
    room = Room(limits, origin="https://exam.example")
    found = room.ask("GET", "/form")
    assert found.headers["strict-transport-security"].startswith("max-age=31536000")
    cookie = found.headers["set-cookie"]
    assert cookie.startswith("__Host-shardwise-visitor=")
    for part in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
        assert part in cookie
    assert "Domain" not in cookie


def test_a_route_may_have_its_own_policy(room: Room) -> None:
    assert room.ask("GET", "/own-policy").headers["content-security-policy"] == "default-src 'self'"


@pytest.mark.parametrize("host", ["evil.example", "exam.example.evil.example", "", "exam.example@evil.example"])
def test_a_foreign_host_name_is_refused(room: Room, host: str) -> None:
    assert room.ask("GET", "/", headers={"host": host}).status_code == 421


def test_a_form_with_its_token_goes_through_whole(room: Room) -> None:
    cookies, token = visitor(room)
    found = room.ask("POST", "/any", data={CSRF_FIELD: token, "said": "grün"}, cookies=cookies)
    assert found.status_code == 200
    assert room.reached == [f"csrf={token}&said=gr%C3%BCn"]
    files = {"file": ("a.py", b"x = 1\n")}
    assert room.ask("POST", "/any", data={CSRF_FIELD: token}, files=files, cookies=cookies).status_code == 200
    assert b"x = 1" in room.reached[1].encode()


def test_no_form_gets_through_without_the_token_of_its_session(room: Room) -> None:
    cookies, token = visitor(room)
    others, other = visitor(room)
    session = {"shardwise": "some-session"}
    tries: list[dict[str, Any]] = [
        {"data": {"a": "b"}},
        {"data": {CSRF_FIELD: token}},
        {"data": {CSRF_FIELD: other}, "cookies": cookies},
        {"data": {CSRF_FIELD: token}, "cookies": others},
        {"data": {CSRF_FIELD: token[:-1] + ("0" if token[-1] != "0" else "1")}, "cookies": cookies},
        {"data": {CSRF_FIELD: token}, "cookies": {**cookies, **session}},  # signed in since: another session
        {"data": {CSRF_FIELD: ""}, "cookies": session},
        {"content": b"csrf=" + token.encode(), "headers": {"content-type": "text/plain"}, "cookies": cookies},
        {"content": b"", "cookies": session},
        {"content": b"\xff\xfe=;&", "headers": {"content-type": "multipart/form-data; boundary=x"}, "cookies": session},
        {"json": {"a": 1}, "cookies": session},
        {"json": {"a": 1}, "cookies": session, "headers": {"origin": "null"}},
        {"json": {"a": 1}, "cookies": session, "headers": {"authorization": "Bearer x"}},
        {"data": {CSRF_FIELD: token}, "cookies": cookies, "headers": {"origin": "https://evil.example"}},
        {"data": {CSRF_FIELD: token}, "cookies": cookies, "headers": {"sec-fetch-site": "cross-site"}},
        {"data": {CSRF_FIELD: token}, "cookies": cookies, "headers": {"sec-fetch-site": "same-site"}},
    ]
    for each in tries:
        for method in ("POST", "PUT", "DELETE"):
            assert room.ask(method, "/any", **each).status_code == 403, each
    assert room.reached == []


def test_odd_cookies_of_others_on_the_same_host_hide_no_session(room: Room) -> None:
    odd = 'theirs={"a":1}; other="open; shardwise=some-session'
    token = Csrf(SECRET).token("some-session")
    asked = room.ask("POST", "/any", data={CSRF_FIELD: token}, headers={"cookie": odd})
    assert asked.status_code == 200
    assert room.ask("POST", "/any", json={}, headers={"cookie": odd}).status_code == 403  # as without the odd ones


def test_json_from_our_own_pages_or_from_programs_goes_through(room: Room) -> None:
    session = {"shardwise": "some-session"}
    own = {"origin": ORIGIN}
    assert room.ask("POST", "/", json={}, cookies=session, headers=own).status_code == 200
    assert room.ask("POST", "/", json={}, headers={"authorization": "Bearer x"}).status_code == 200
    token = Csrf(SECRET).token("some-session")
    assert room.ask("POST", "/", json={}, cookies=session, headers={"x-csrf-token": token}).status_code == 200


def test_tokens_are_masked_anew_and_hold_for_their_session_only() -> None:
    forms = Csrf(SECRET)
    first, second = forms.token("a"), forms.token("a")
    assert first != second
    assert forms.holds(first, "a")
    assert forms.holds(second, "a")
    assert not forms.holds(first, "b")
    assert not forms.holds(first, "")
    assert not Csrf(b"another secret of thirty-two byt").holds(first, "a")


@pytest.mark.parametrize("length", ["10000000", "-1", "1e3", "٣"])
def test_a_declared_length_that_cannot_be_is_refused_before_reading(room: Room, length: str) -> None:
    headers = [(b"content-length", length.encode()), (b"host", b"exam.example")]
    assert _raw(room.guard, headers, [])["status"] == 413


def test_a_body_without_a_declared_length_is_cut_off_at_the_limit(limits: Limits) -> None:
    room = Room(limits, body_bytes=1000)
    pieces = [b"a" * 300] * 50
    given = iter(pieces)
    found = _raw(room.guard, [(b"host", b"exam.example")], given)
    assert found["status"] == 413
    assert len(list(given)) >= 45  # it did not read on


def test_who_sends_a_body_for_ever_and_who_answers_for_ever_is_cut_off(limits: Limits) -> None:
    room = Room(limits, body_seconds=0.1, answer_seconds=0.1)
    assert _raw(room.guard, [(b"host", b"exam.example")], None)["status"] == 408
    assert room.ask("GET", "/slow").status_code == 503


def _raw(guard: Guard, headers: list[tuple[bytes, bytes]], pieces: Any) -> dict[str, Any]:
    """A POST whose body comes in pieces; None: nothing ever comes."""
    found: dict[str, Any] = {}

    async def receive() -> dict[str, Any]:
        if pieces is None:
            await asyncio.sleep(5)
        piece = next(pieces, None) if not isinstance(pieces, list) else None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.update(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "client": ("10.0.0.1", 1)}
    asyncio.run(guard({**scope, "query_string": b"", "scheme": "http", "http_version": "1.1"}, receive, send))
    return found


def test_websockets_are_closed(room: Room) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    asyncio.run(room.guard({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


# --- limits


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_rule_lets_its_number_through_at_once_and_then_one_a_step(tmp_path: Path) -> None:
    clock, rule = Clock(), Rule(name="sign-in", times=5, seconds=50)
    limits = Limits(f"sqlite:///{tmp_path / 'limits.db'}", secret=SECRET, clock=clock)
    assert [limits.take(rule, "a") for _ in range(5)] == [0.0] * 5
    assert limits.take(rule, "a") == pytest.approx(10, abs=0.01)
    assert limits.take(rule, "b") == 0.0
    assert limits.take(Rule(name="other", times=5, seconds=50), "a") == 0.0
    clock.now += 9.9
    assert limits.take(rule, "a") > 0
    clock.now += 0.2
    assert limits.take(rule, "a") == 0.0
    assert limits.take(rule, "a") > 0
    clock.now += 50
    assert [limits.take(rule, "a") for _ in range(5)] == [0.0] * 5
    limits.close()
    again = Limits(f"sqlite:///{tmp_path / 'limits.db'}", secret=SECRET, clock=clock)
    assert again.take(rule, "a") > 0  # a restart forgets nothing
    assert b"sign-in" not in (tmp_path / "limits.db").read_bytes()
    again.close()


def _hammer(url: str, times: int, passed: Any) -> None:
    limits = Limits(url, secret=SECRET, clock=lambda: 5_000_000.0)
    rule = Rule(name="x", times=40, seconds=3600)
    for _ in range(times):
        if limits.take(rule, "one") == 0:
            with passed.get_lock():
                passed.value += 1
    limits.close()


def test_several_workers_together_let_no_more_through_than_one(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    passed = context.Value("i", 0)
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    workers = [context.Process(target=_hammer, args=(url, 30, passed)) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
        assert each.exitcode == 0
    assert passed.value == 40


def test_counters_on_postgresql_are_shared_by_machines(postgres: Server) -> None:
    clock, rule = Clock(), Rule(name="sign-in", times=5, seconds=50)
    url = postgres.database()
    machines = [Limits(url, secret=SECRET, clock=clock) for _ in range(2)]
    passed = [machines[turn % 2].take(rule, "a") == 0 for turn in range(7)]
    assert passed == [True] * 5 + [False] * 2
    clock.now += 10.1
    assert machines[1].take(rule, "a") == 0
    assert machines[0].take(rule, "a") > 0
    for each in machines:
        each.close()


def test_guessing_is_slowed_by_account_and_address_and_the_answer_says_until_when(limits: Limits) -> None:
    room = Room(limits)
    session = {"shardwise": "somebody"}
    data = {CSRF_FIELD: Csrf(SECRET).token("somebody"), "unlock": "guess"}
    found = [room.ask("POST", "/exams/1/start", data=data, cookies=session) for _ in range(12)]
    assert [each.status_code for each in found] == [200] * 10 + [429] * 2
    assert 1 <= int(found[-1].headers["retry-after"]) <= 300
    other = {"shardwise": "somebody-else"}
    data = {CSRF_FIELD: Csrf(SECRET).token("somebody-else"), "unlock": "guess"}
    assert room.ask("POST", "/exams/1/start", data=data, cookies=other).status_code == 200
    links = [room.ask("GET", "/sign-in").status_code for _ in range(62)]
    assert links == [200] * 60 + [429] * 2


def test_made_up_sessions_count_as_the_one_address_they_come_from(limits: Limits) -> None:
    room = Room(limits)
    room.guard = Guard(room.guard.app, protection=room.protection, limits=limits, account_of=lambda _token: None)
    found = []
    for number in range(12):
        data = {CSRF_FIELD: Csrf(SECRET).token(f"made-up-{number}")}
        found.append(room.ask("POST", "/x/start", data=data, cookies={"shardwise": f"made-up-{number}"}).status_code)
    assert found == [200] * 10 + [429] * 2


def test_a_class_behind_one_address_is_not_taken_for_an_attack(limits: Limits) -> None:
    room = Room(limits)
    for learner in range(40):
        session, token = {"shardwise": f"visit-{learner}"}, Csrf(SECRET).token(f"visit-{learner}")
        for number in range(8):
            path = f"/attempts/{learner}/questions/{number}"
            assert room.ask("POST", path, data={CSRF_FIELD: token}, cookies=session).status_code == 200


def test_every_request_falls_under_some_rule() -> None:
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
        assert any(method in each.methods and each.path.fullmatch("/anything/at/all") for each in default_limits())


@pytest.mark.parametrize("path", ["/api/attempts/1/practical/zero-1", "/attempts/1/tasks/zero-1"])
def test_code_is_counted_and_has_its_room_by_page_as_by_program(path: str) -> None:
    rule = next(each for each in default_limits() if "POST" in each.methods and each.path.fullmatch(path))
    assert rule.rule.name == "code"
    assert Protection(origin=ORIGIN, hosts=frozenset(), secret=SECRET).uploads.fullmatch(path)


def test_the_rules_can_be_scaled() -> None:
    tenth = default_limits(scale=0.1)
    assert [each.rule.times for each in tenth] == [max(1, round(each.rule.times / 10)) for each in default_limits()]
    assert dataclasses.replace(tenth[0].rule, times=60) == default_limits()[0].rule
    assert all(isinstance(each.path, re.Pattern) for each in tenth)


def test_refusals_are_worded_by_whoever_asks_for_it(limits: Limits) -> None:
    said: list[str] = []

    def word(_scope: Any, refusal: security.Refusal) -> Response:
        said.append(refusal.message)
        return PlainTextResponse("no", status_code=refusal.status)

    room = Room(limits)
    room.guard = Guard(room.guard.app, protection=room.protection, limits=limits, on_refusal=word)
    assert room.ask("POST", "/", data={}).text == "no"
    assert said == ["shardwise.service-form-old"]
