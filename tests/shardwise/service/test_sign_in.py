"""Signing in: links that open once, a real OpenID Connect provider, a real JupyterHub whose service this is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import socketserver
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from sqlalchemy import func, select

from shardwise.service import accounts, sign_in
from shardwise.service.core import Core
from shardwise.service.mail import Letter
from shardwise.service.settings import Oidc, Secret, Smtp
from shardwise.service.store import Forbidden
from shardwise.service.tables import Account, Identity
from tests.shardwise.classroom import a_hub
from tests.shardwise.service.making import Clock, core_of, exam_folder, person, served
from translations import CourseError

URL = "http://127.0.0.1:8470"


def sent(core: Core) -> list[str]:
    """The tokens in the outbox."""
    core.mail.close()
    core.mail.__init__(core.settings)  # type: ignore[misc]
    if not core.settings.outbox.exists():
        return []
    return re.findall(r"token=([\w-]+)", core.settings.outbox.read_text(encoding="utf-8"))


# --- links


def test_a_link_opens_one_visit_once_and_not_for_long(core: Core, clock: Clock) -> None:
    accounts.ask_link(core, email=" Amal@Example.org ", language="nl")
    (token,) = sent(core)
    assert stat.S_IMODE(core.settings.outbox.stat().st_mode) == 0o600
    assert "aan te melden" in core.settings.outbox.read_text(encoding="utf-8")
    signed = accounts.use_link(core, token)
    with core.store.reading() as session:
        who = accounts.person_of(session, signed.token, core.clock())
        assert who is not None
        assert (who.email, who.role) == ("amal@example.org", "learner")
        assert signed.token not in str([dict(each._mapping) for each in session.execute(select(Account))])
    for again in (token, "guessed", ""):
        with pytest.raises(Forbidden, match="used, too old"):
            accounts.use_link(core, again)
    accounts.ask_link(core, email="amal@example.org", language="nl")
    clock.on(minutes=20)
    with pytest.raises(Forbidden):
        accounts.use_link(core, sent(core)[-1])
    clock.on(hours=12)
    with core.store.reading() as session:
        assert accounts.person_of(session, signed.token, core.clock()) is None


def test_asking_says_nothing_about_who_has_an_account_and_is_limited(tmp_path: Path, clock: Clock) -> None:
    with closing(core_of(tmp_path, clock=clock, accounts="invited")) as core:
        person(core, "known@example.org")
        with served(core) as client:
            answers = [
                client.post("/api/sign-in/email", json={"email": email})
                for email in ("known@example.org", "stranger@example.org")
            ]
            assert len({(each.status_code, each.text) for each in answers}) == 1
            for _ in range(9):
                assert client.post("/api/sign-in/email", json={"email": "known@example.org"}).text == answers[0].text
            assert client.post("/api/sign-in/email", json={"email": "no address"}).status_code == 422
            assert len(sent(core)) == core.settings.links_per_hour
            assert "stranger" not in core.settings.outbox.read_text(encoding="utf-8")


@pytest.mark.parametrize("email", ["=?utf-8?q??=@example.org", "=?utf-8?q?=0abcc?=@example.org"])
def test_an_address_that_a_header_reads_as_something_else_is_none(email: str) -> None:
    with pytest.raises(CourseError, match="address"):
        accounts.address(email)


def test_a_letter_that_cannot_be_written_ends_no_other_letter(tmp_path: Path) -> None:
    with closing(core_of(tmp_path)) as core:
        core.mail.send(Letter(to="=?utf-8?q??=@example.org", subject="x", text="x"))
        accounts.ask_link(core, email="amal@example.org", language="en")
        assert len(sent(core)) == 1


def test_below_a_path_of_a_hub_the_way_back_names_that_path_once(tmp_path: Path) -> None:
    with closing(core_of(tmp_path, public_url=f"{URL}/services/exams")) as core, served(core) as client:
        answer = client.get("/services/exams/certificates")
        assert answer.headers["location"] == "/services/exams/sign-in?next=/certificates"


def test_an_administrator_named_in_the_settings_is_one_from_the_first_link(tmp_path: Path, clock: Clock) -> None:
    with closing(core_of(tmp_path, clock=clock, accounts="invited", administrators=("boss@example.org",))) as core:
        accounts.ask_link(core, email="boss@example.org", language="en")
        signed = accounts.use_link(core, sent(core)[-1])
        with core.store.reading() as session:
            who = accounts.person_of(session, signed.token, core.clock())
        assert who is not None
        assert who.may("administrator")
        with pytest.raises(Forbidden, match="own rights"):
            accounts.set_role(core, who, who.id, "learner")


def test_a_closed_account_is_out_at_once_and_stays_out(core: Core) -> None:
    who, token = person(core)
    boss, _ = person(core, "boss@example.org", role="administrator")
    accounts.set_active(core, boss, who.id, False)
    with core.store.reading() as session:
        assert accounts.person_of(session, token, core.clock()) is None
    accounts.ask_link(core, email="amal@example.org", language="en")
    assert sent(core) == []


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil", "https://evil.example", "javascript:alert(1)", ""])
def test_nobody_is_led_out_of_the_service(path: str) -> None:
    assert accounts.inside(path) == "/"
    assert accounts.inside("/attempts/1?lang=ar") == "/attempts/1?lang=ar"


class _Smtp(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as a client without TLS asks for."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                letter = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    letter += part
                self.server.letters.append(letter)  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


def test_links_go_by_smtp_where_there_is_a_server(tmp_path: Path, clock: Clock) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
        server.letters = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        smtp = Smtp(
            host="127.0.0.1",
            port=server.server_address[1],
            sender="exams@example.org",
            tls="none",
            user=None,
            password=None,
        )
        with closing(core_of(tmp_path, clock=clock, smtp=smtp)) as core:
            accounts.ask_link(core, email="amal@example.org", language="ar")
            core.mail.close()
            assert not core.settings.outbox.exists()
        server.shutdown()
        (letter,) = server.letters  # type: ignore[attr-defined]
        assert b"To: amal@example.org" in letter


# --- OpenID Connect


@dataclass
class Provider:
    """A provider that keeps to OpenID Connect Core: discovery, code with PKCE, a signed ID token. `spoil` breaks a
    thing.
    """

    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "a", "use": "sig", "alg": "RS256"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    spoil: str = ""
    url: str = ""

    def get(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        return {"keys": [self.key.as_dict(private=False)]}

    def authorize(self, url: str) -> str:
        """What a browser does there: the address that it is sent back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["redirect_uri"] == f"{URL}/sign-in/oidc/callback"
        assert asked["code_challenge_method"] == "S256"
        assert set(asked["scope"].split()) >= {"openid", "email"}
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url}
        if self.spoil == "iss":
            back["iss"] = "https://other.example"
        return f"/sign-in/oidc/callback?{urlencode(back)}"

    def token(self, body: str, authorization: str) -> Any:
        given = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self.codes.pop(given["code"])
        assert base64.b64decode(authorization.removeprefix("Basic ")) == b"shardwise:a secret"
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "248289761001",
            "aud": "shardwise",
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
            "email": "amal@example.org",
            "email_verified": True,
            "name": "Amal Haddad",
            **self.claims,
        }
        key, header = self.key, {"alg": "RS256", "kid": "a"}
        if self.spoil == "key":
            key = RSAKey.generate_key(2048, {"kid": "a"})
        return {"access_token": "x", "token_type": "Bearer", "id_token": jwt.encode(header, claims, key)}


@contextmanager
def providing(provider: Provider) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(provider.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            self.answer(provider.token(body, self.headers["authorization"]))

        def answer(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    with providing(made):
        yield made


@pytest.fixture
def oidc(tmp_path: Path, provider: Provider) -> Iterator[Core]:
    provider.claims, provider.spoil = {}, ""
    sign_in._providers.clear()
    own = Oidc(issuer=provider.url, client_id="shardwise", client_secret=Secret("a secret"), name="University")
    from shardwise.record.tables import now

    with closing(core_of(tmp_path, clock=Clock(at=now()), accounts="off", oidc=own)) as core:
        yield core


def through(core: Core, provider: Provider, *, next: str = "/") -> tuple[int, str, httpx.Response]:
    """Away, back, and who I am then."""
    with served(core) as client:
        away = client.get("/sign-in/oidc", params={"next": next})
        assert away.status_code == 303
        back = client.get(provider.authorize(away.headers["location"]))
        return back.status_code, back.headers.get("location", ""), client.get("/api/me")


def test_a_person_of_the_provider_comes_in_with_verified_address_and_name(oidc: Core, provider: Provider) -> None:
    status, where, me = through(oidc, provider, next="/certificates")
    assert (status, where) == (303, "/certificates")
    assert {"email": "amal@example.org", "name": "Amal Haddad", "role": "learner"}.items() <= me.json().items()
    through(oidc, provider)
    with oidc.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Account)) == 1
        assert session.scalars(select(Identity)).one().provider == f"oidc {provider.url}"


def test_an_address_that_the_provider_did_not_verify_is_nobodys(oidc: Core, provider: Provider) -> None:
    person(oidc, "amal@example.org", role="administrator")
    provider.claims = {"email_verified": False}
    _, _, me = through(oidc, provider)
    assert (me.json()["email"], me.json()["role"]) == (None, "learner")


@pytest.mark.parametrize(
    ("claims", "spoil"),
    [
        ({"aud": "another"}, ""),
        ({"iss": "https://other.example"}, ""),
        ({"exp": 1_000_000_000}, ""),
        ({"nonce": "another"}, ""),
        ({"aud": ["shardwise", "another"]}, ""),
        ({"aud": ["shardwise", "another"], "azp": "another"}, ""),
        ({"sub": None}, ""),
        ({}, "key"),
        ({}, "iss"),
    ],
)
def test_a_token_that_is_not_whole_opens_nothing(
    oidc: Core, provider: Provider, claims: dict[str, Any], spoil: str
) -> None:
    provider.claims, provider.spoil = claims, spoil
    status, _, me = through(oidc, provider)
    assert (status, me.status_code) == (403, 401)
    with oidc.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(Account)) == 0


def test_nobody_is_signed_in_by_anothers_errand_and_none_comes_back_twice(oidc: Core, provider: Provider) -> None:
    with served(oidc) as mine, httpx.Client(base_url=mine.base_url) as theirs:
        back = provider.authorize(mine.get("/sign-in/oidc").headers["location"])
        assert theirs.get(back).status_code == 403
        assert theirs.get("/api/me").status_code == 401
        assert mine.get(back).status_code == 303
        assert mine.get(back).status_code == 403


# --- JupyterHub


@pytest.mark.node
@pytest.mark.timeout(180)
def test_a_user_of_a_real_hub_comes_in_as_that_user(tmp_path: Path) -> None:
    if not a_hub.NODE.is_file():
        pytest.skip(f"The Hub's proxy is not installed, so this test is skipped (npm ci in {a_hub.NODE.parents[3]}).")
    exam_folder(tmp_path / "exams")
    port, subconfig = a_hub.free_port(), tmp_path / "services.py"
    environment = {
        "SHARDWISE_SERVICE_DATA": str(tmp_path / "data"),
        "SHARDWISE_SERVICE_EXAMS": str(tmp_path / "exams"),
        "SHARDWISE_SERVICE_ACCOUNTS": "off",
        "SHARDWISE_SERVICE_ADMINISTRATORS": "teacher",
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
    }
    command = [sys.executable, "-m", "shardwise.cli", "serve", "--port", str(port)]
    service = {
        "name": "exams",
        "url": f"http://127.0.0.1:{port}",
        "command": command,
        "environment": environment,
        "oauth_no_confirm": True,
    }
    subconfig.write_text(
        "import pathlib, re\n"
        f"config = pathlib.Path({str(tmp_path / 'jupyterhub_config.py')!r}).read_text()\n"
        f"service = {service!r}\n"
        "url = re.search('bind_url = \"(.+)\"', config)[1] + '/services/exams'\n"
        'service["environment"]["SHARDWISE_SERVICE_PUBLIC_URL"] = url\n'
        "c.JupyterHub.services = [service]\n"
        'c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", "access:services!service=exams"]}]\n',
        encoding="utf-8",
    )
    hub = a_hub.Hub(tmp_path, python=Path(sys.executable), users=["teacher", "amal"], subconfig=subconfig)
    with hub:
        roles = {}
        for name in ("teacher", "amal"):
            with httpx.Client(base_url=hub.address, follow_redirects=True, timeout=30) as client:
                _until(client, "/services/exams/healthz", hub)
                assert client.get("/services/exams/api/me").status_code == 401
                shown = client.get("/services/exams/sign-in/hub", params={"next": "/"})
                assert shown.url.path == "/hub/login", hub.said()
                form = {
                    "username": name,
                    "password": a_hub.PASSWORD,
                    "_xsrf": client.cookies.get("_xsrf", path="/hub/"),
                }
                next = parse_qs(shown.url.query.decode())["next"][0]
                client.post("/hub/login", params={"next": next}, data=form)
                me = client.get("/services/exams/api/me")
                assert me.status_code == 200, hub.said()
                roles[name] = me.json()["role"]
        assert roles == {"teacher": "administrator", "amal": "learner"}


def _until(client: httpx.Client, path: str, hub: a_hub.Hub) -> None:
    end = time.monotonic() + 90
    while client.get(path).status_code != 200:
        assert time.monotonic() < end, hub.said()
        time.sleep(0.5)
