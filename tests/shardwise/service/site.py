"""The service as people meet it: a real server on a port of its own, over TLS, and ways into it.

Browsers find it under the name that its certificates carry (`exams.example`), with the rule that `RESOLVE` gives
Chromium; nothing asks a network.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shardwise.service import attempts
from shardwise.service.accounts import Person
from shardwise.service.app import create_app, issuer_of, make_core
from shardwise.service.core import Core
from shardwise.service.serving import bound
from tests.shardwise.service import making
from tests.shardwise.service.making import Clock

HOST = "exams.example"
ORIGIN = f"https://{HOST}"
FORMS = ("choice", "several", "number", "bytes", "order", "match", "fault")


@dataclass
class Site:
    """A running service."""

    core: Core
    port: int
    folder: Path
    app: Any

    @property
    def resolve(self) -> str:
        return f"--host-resolver-rules=MAP {HOST} 127.0.0.1:{self.port}"

    def client(self, token: str = "", **headers: str) -> httpx.Client:
        """A browser without a screen: it keeps cookies and names its origin."""
        context = ssl.create_default_context(cafile=str(self.folder / "tls" / "cert.pem"))
        transport = _Named(self.port, verify=context)
        cookies = {"__Host-shardwise": token} if token else {}
        return httpx.Client(transport=transport, base_url=ORIGIN, cookies=cookies, headers=headers, timeout=30)


class _Named(httpx.HTTPTransport):
    """Goes to the port, whatever the name stands for elsewhere; the certificate is checked against the name."""

    def __init__(self, port: int, **more: Any) -> None:
        super().__init__(**more)
        self._port = port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        there = httpx.Request(
            request.method,
            request.url.copy_with(host="127.0.0.1", port=self._port),
            headers=request.headers,  # with the name
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": HOST},
        )
        return super().handle_request(there)


def exams(folder: Path, *, practical: bool = True, items: int = 12, explanations: bool = True) -> Path:
    """An exam from the public bank, so that every form is met, with a task whose code is graded."""
    folder.mkdir(parents=True, exist_ok=True)
    title = {
        "en": "Training on many GPUs",
        "nl": "Trainen op veel GPU's",
        "ar": "التدريب على وحدات GPU كثيرة",
    }
    lines = [{"unit": "04-zero-1", "items": 1, "forms": [form]} for form in FORMS]
    lines.append({"unit": "04-zero-1", "items": max(0, items - len(FORMS))})
    blueprint = {"version": 1, "id": "many", "title": title, "lines": [each for each in lines if each["items"]]}
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "plans" / "many.yaml").write_text(yaml.safe_dump(blueprint, allow_unicode=True), encoding="utf-8")
    task = {"tasks": 1, "exercises": ["zero-1"], "kinds": ["write"], "pass_mark": 0.5}
    exam = {
        "blueprint": "plans/many.yaml",
        "banks": [],
        "public_bank": True,
        "minutes": 45,
        "attempts": 3,
        "wait_hours": 0,
        "explanations": explanations,
        "valid_months": 24,
        "practical": task if practical else None,
    }
    (folder / "many.yaml").write_text(yaml.safe_dump({"version": 1, "exam": exam}), encoding="utf-8")
    return folder


def issuer(folder: Path) -> Path:
    from certificates import office
    from certificates.issuer import Signatory

    if not (folder / office.FILE).exists():
        names = {"en": "Example University", "nl": "Voorbeelduniversiteit", "ar": "جامعة المثال"}
        signatory = Signatory(names={"en": "Prof. A. Jansen"}, offices={"en": "Dean"})
        office.init(folder, domain=HOST, names=names, signatory=signatory, contact="exams@example.org")
    return folder


@contextmanager
def running(folder: Path, *, clock: Clock | None = None, work: bool = False, **changes: Any) -> Iterator[Site]:
    """The service over TLS. `work`: code is graded and overdue attempts are swept beside it."""
    exams(folder / "exams", practical=changes.pop("practical", True), explanations=changes.pop("explanations", True))
    tls = _certificate(folder / "tls")
    wanted = {"public_url": ORIGIN, "smtp": making_smtp(), **changes}
    made = make_core(
        making.settings(folder, **wanted),
        clock=clock or Clock(at=datetime.now(UTC)),
        issuing=issuer_of(issuer(folder / "issuer")),
    )
    app = create_app(core=made, work=work)
    listening = bound("127.0.0.1", 0)
    port = int(listening.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        ssl_certfile=str(tls / "cert.pem"),
        ssl_keyfile=str(tls / "key.pem"),
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    try:
        until = datetime.now(UTC) + timedelta(seconds=30)
        while not server.started:
            assert thread.is_alive(), "the server ended as it began"
            assert datetime.now(UTC) < until, "the server did not begin"
            threading.Event().wait(0.02)
        yield Site(core=made, port=port, folder=folder, app=app)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        assert not thread.is_alive(), "the server did not end"


def making_smtp() -> Any:
    """A mail server that nobody runs: nothing is sent in these tests, and the settings are safe."""
    from shardwise.service.settings import Smtp

    return Smtp(host="127.0.0.1", port=9, sender="exams@example.org", tls="none", user=None, password=None)


def _certificate(folder: Path) -> Path:
    """A certificate for the name, signed by itself, for an hour."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder


def sitting(core: Core, **changes: Any) -> str:
    return making.sitting(core, **{"exam": "many", **changes})


def csrf(page: str) -> str:
    """The token in a form of a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]{80})"', page)
    assert found, page[:2000]
    return found[1]


def graded(core: Core, attempt: str, *, points: float = 1.0) -> None:
    """Gives every code that waits a verdict, as the grader writes it: the grader has tests of its own."""
    from sqlalchemy import select

    from labs.exercises import exercise
    from shardwise.service.tables import Submission

    with core.store.writing() as session:
        for each in session.scalars(select(Submission).where(Submission.attempt == attempt)):
            of = exercise(each.task).of
            each.state, each.result = "graded", {"verdict": {"points": round(of * points), "of": of}}
    attempts.settle(core, attempt)


def passed(core: Core, who: Person, *, language: str = "en", supervised: bool = False, wrong: int = 0) -> str:
    """An attempt that was passed, by way of the service's own functions; its id."""
    begun = attempts.start(core, who, sitting(core, supervised=supervised), language=language)
    for number in range(1 + wrong, begun.questions + 1):
        attempts.answer(core, who, begun.id, number, making.right(core, begun.id, number))
    for each in begun.tasks:
        attempts.submit(core, who, begun.id, each.exercise, b"def optimizer_step(units):\n    pass\n")
    attempts.hand_in(core, who, begun.id)
    if begun.tasks:
        graded(core, begun.id)
    return begun.id
