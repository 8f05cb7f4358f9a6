"""Becoming an issuer and staying one: keys that only their owner reads, rotation, documents that are published, names,
renewal, and a look from outside at a real TLS server.
"""

from __future__ import annotations

import http.server
import json
import socketserver
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from openbadgeslib.ob3 import resolve_verification_method

from certificates import checks, discovery, office, signing, status, trust, verify
from certificates.issuer import Issuer, Signatory, issue, reissue, renew
from certificates.network import Fetcher, Unreachable
from certificates.strict import Refused
from certificates.summary import facts, rows, summarize
from certificates.trust import Trust
from tests.certificates import issuers
from tests.certificates.issuers import ISSUER, PLACE, SIGNER, exam, issued
from translations import CourseError, translator


def made(folder: Path, **more: Any) -> office.Made:
    values: dict[str, Any] = {"domain": "university.example", "names": {"en": "University", "ar": "الجامعة"}}
    return office.init(folder, **(values | more))


# --- the folder


def test_init_makes_a_key_of_mode_0600_and_what_is_to_be_published(tmp_path: Path) -> None:
    found = made(tmp_path / "issuer", signatory=Signatory(names={"en": "A. Jansen"}, offices={"en": "Dean"}))
    assert stat.S_IMODE(found.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.key.parent.stat().st_mode) == 0o700
    document = json.loads((found.folder / "public" / "did.json").read_text())
    assert document["id"] == found.issuer.did == "did:web:university.example"
    listed = trust.read(found.folder / "public" / "trust.json")
    assert listed == found.issuer.trust
    signer = office.signer(found.folder)
    assert (signer.did, signer.key_id) == (found.issuer.did, "did:web:university.example#key-1")
    assert "PRIVATE" not in repr(signer)
    assert "_private" not in repr(signer)
    with pytest.raises(CourseError, match="already exists"):
        made(tmp_path / "issuer")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o640),
        lambda path: path.chmod(0o604),
        lambda path: path.chmod(0o700),
        lambda path: (path.rename(path.with_name("other")), path.symlink_to(path.with_name("other"))),
        lambda path: path.unlink(),
        lambda path: path.write_text("not a key"),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_text(signing.keys.create().pem()),
    ],
)
def test_a_key_that_others_can_reach_or_that_is_another_signs_nothing(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    found = made(tmp_path / "issuer")
    spoil(found.key)
    with pytest.raises(CourseError) as raised:
        office.signer(found.folder)
    assert raised.value.in_language(translator("ar"))


@pytest.mark.parametrize(
    "values",
    [
        {"domain": "not a domain"},
        {"domain": "university.example/path"},
        {"domain": ""},
        {"names": {}},
        {"names": {"english": "University"}},
        {"names": {"en": "University\u202e"}},
        {"address": "http://university.example"},
        {"contact": "nobody"},
    ],
)
def test_what_an_issuer_cannot_be_is_refused_before_a_key_is_made(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(CourseError):
        made(tmp_path / "issuer", **values)
    assert not list((tmp_path / "issuer").rglob("*.pem"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("logo.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        ("logo.svg", b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'),
        ("logo.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="https://evil.example/a.png"/></svg>'),
        ("logo.svg", b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"/>'),
        ("logo.svg", b"\x89PNG\r\n\x1a\n"),
        ("logo.png", b"<svg/>"),
        ("logo.gif", b"GIF89a"),
        ("logo.svg", b"<svg>" + b" " * 300_000 + b"</svg>"),
    ],
)
def test_a_logo_that_does_more_than_show_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CourseError):
        made(tmp_path / "issuer", logo=tmp_path / name)


def test_a_port_stands_in_the_did_as_it_should(tmp_path: Path) -> None:
    found = made(tmp_path / "issuer", domain="localhost:8443").issuer
    assert found.did == "did:web:localhost%3A8443"
    assert trust.document_address(found.did) == "https://localhost:8443/.well-known/did.json"
    assert trust.domain(found.did) == "localhost:8443"


# --- rotation


def test_what_the_old_key_signed_stays_valid_and_it_signs_nothing_new(tmp_path: Path) -> None:
    folder = tmp_path / "issuer"
    first = made(folder)
    old = office.signer(folder)
    past = datetime.now(UTC) - timedelta(hours=2)
    before = issue(exam(), issuer=first.issuer, signer=old, status=PLACE, language="en", at=past)
    second = office.rotate(folder, at=past + timedelta(hours=1))
    after = issue(exam(), issuer=second.issuer, signer=office.signer(folder), status=PLACE, language="en")
    assert first.key.exists()
    for each in (before, after):
        assert verify(each.jwt.encode(), trust=second.issuer.trust).verdict == "status-not-checked"
    document = second.issuer.did_document()
    assert [each["id"][-5:] for each in document["verificationMethod"]] == ["key-1", "key-2"]
    assert len(document["assertionMethod"]) == 2
    with pytest.raises(ValueError, match="present key"):
        issue(exam(), issuer=second.issuer, signer=old, status=PLACE, language="en")
    late = issue(exam(), issuer=first.issuer, signer=old, status=PLACE, language="en")
    failed = verify(late.jwt.encode(), trust=second.issuer.trust).failed
    assert failed is not None
    assert failed.reason == "issuer-key-retired"


def test_nothing_that_a_compromised_key_signed_counts_and_the_document_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "issuer"
    first = made(folder)
    before = issue(
        exam(),
        issuer=first.issuer,
        signer=office.signer(folder),
        status=PLACE,
        language="en",
        at=datetime.now(UTC) - timedelta(days=1),
    )
    office.rotate(folder)
    second = office.condemn(folder, "key-1")
    assert second == office.read(folder)
    found = verify(before.jwt.encode(), trust=second.trust)
    assert (found.verdict, found.failed and found.failed.reason) == ("invalid", "issuer-key-compromised")
    document = json.loads((folder / "public" / "did.json").read_text())
    assert [each["id"][-5:] for each in document["verificationMethod"]] == ["key-1", "key-2"]
    assert "revoked" in document["verificationMethod"][0]
    assert document["assertionMethod"] == [f"{second.did}#key-2"]
    with pytest.raises(CourseError, match="no earlier key"):
        office.condemn(folder, "key-2")
    third = office.rotate(folder, compromised=True).issuer
    assert [each.compromised for each in third.keys] == [True, True, False]


def test_the_did_document_is_read_by_others_and_by_us() -> None:
    document = ISSUER.did_document()
    served = json.dumps(document).encode()
    for key in ISSUER.keys:
        pem = resolve_verification_method(key.id, download=lambda _: served)
        found = serialization.load_pem_public_key(pem)
        assert found.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw) == key.public
    party = discovery.discover(ISSUER.did, fetch=lambda _: served)
    assert [(each.id, each.public, each.compromised) for each in party.keys] == [
        (each.id, each.public, each.compromised) for each in ISSUER.keys
    ]
    for spoiled in ({"id": "did:web:evil.example"}, {"verificationMethod": []}, {"verificationMethod": [{}]}):
        with pytest.raises(CourseError):
            discovery.discover(ISSUER.did, fetch=lambda _, more=spoiled: json.dumps(document | more).encode())  # type: ignore[misc]


# --- what is issued


def test_a_certificate_says_what_was_shown_and_under_which_conditions() -> None:
    summary = summarize(issued().credential)
    assert (summary.holder, summary.holder_other) == ("Noor el-Amrani", "نور العمراني")
    assert (summary.holder_in("rtl"), summary.holder_in("ltr")) == ("نور العمراني", "Noor el-Amrani")
    assert [str(value) for _, value in summary.results] == ["100", "75", "50", "100"]
    assert [str(value) for _, value in summary.labs] == ["100", "80"]
    assert (str(summary.quiz), str(summary.practical), summary.attempt) == ("85", "90", "1/3")
    assert (summary.supervised, summary.public_bank) == (True, False)
    assert "example.org" not in json.dumps(issued().credential).lower()
    for language in ("en", "nl", "ar"):
        assert len(dict(rows(issued(language).credential, language))) >= 11
        assert len(facts(summarize(issued(language).credential), language)) == 8
    public = issued(public_bank=True).credential
    assert "anybody can read" in public["credentialSubject"]["achievement"]["criteria"]["narrative"]


def test_equal_arguments_give_equal_bytes_and_a_certificate_its_own_id() -> None:
    assert issued().jwt == issued().jwt
    fresh = [issue(exam(), issuer=ISSUER, signer=SIGNER, status=PLACE, language="en").id for _ in range(2)]
    assert fresh[0] != fresh[1]


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("exam-failed", {"quiz_score": 0.79}),
        ("exam-failed", {"labs_score": 0.5}),
        ("exam-incomplete", {"results": ()}),
        ("exam-incomplete", {"labs": ()}),
        ("exam-incomplete", {"labs_score": None}),
        ("exam-incomplete", {"quiz_score": 1.2}),
        ("exam-incomplete", {"quiz_score": float("nan")}),
        ("exam-incomplete", {"attempt": 4}),
        ("exam-incomplete", {"attempt": 0}),
        ("exam-incomplete", {"seed_hash": "20261130"}),
        ("exam-incomplete", {"exam": "Course Exam"}),
        ("exam-incomplete", {"awarded_at": datetime(2026, 11, 28)}),
        ("exam-incomplete", {"awarded_at": datetime(2990, 1, 1, tzinfo=UTC)}),
        ("ends-too-early", {"expires_at": datetime(2026, 11, 28, tzinfo=UTC)}),
        ("name-missing", {"holder": " "}),
        ("name-unsafe", {"holder_other": "نور\u202e"}),
        ("name-long", {"holder": "N" * 201}),
    ],
)
def test_no_certificate_without_a_passed_exam_and_a_name(reason: str, changes: dict[str, Any]) -> None:
    with pytest.raises(CourseError) as raised:
        issued(**changes)
    assert raised.value.id == f"certificates.{reason}"


def test_a_corrected_name_makes_a_new_certificate_that_refers_to_the_old_one() -> None:
    old = issued()
    place = status.Place(number=1, index=99)
    new = reissue(
        old.credential, holder="Nour", holder_other=None, issuer=ISSUER, signer=SIGNER, status=place, language="en"
    )
    before, after = summarize(old.credential), summarize(new.credential)
    assert (after.holder, after.holder_other, after.replaces) == ("Nour", None, old.id)
    assert new.id != old.id
    assert (after.awarded, after.expires, after.results) == (before.awarded, before.expires, before.results)
    assert after.moment > before.moment
    assert new.credential["credentialStatus"]["statusListIndex"] == "99"
    revoked = status.signed_list(issuer=ISSUER, signer=SIGNER, purpose="suspension", number=1, indices=[PLACE.index])
    also = status.signed_list(issuer=ISSUER, signer=SIGNER, purpose="revocation", number=1, indices=[PLACE.index])

    def fetch(address: str) -> bytes:
        return (revoked if "suspension" in address else also).encode()

    judged = [verify(each.jwt.encode(), trust=ISSUER.trust, fetch=fetch, email=issuers.EMAIL) for each in (old, new)]
    assert judged[1].verdict == "issuer"
    assert judged[0].failed is not None
    assert judged[0].failed.reason == "revocation-revoked"
    again = reissue(new.credential, holder="Noura", issuer=ISSUER, signer=SIGNER, status=place, language="en")
    assert summarize(again.credential).replaces == new.id
    with pytest.raises(ValueError, match="another issuer"):
        reissue(
            old.credential | {"issuer": {"id": "did:web:b.example"}},
            holder="N",
            issuer=ISSUER,
            signer=SIGNER,
            status=place,
            language="en",
        )


def test_a_renewed_certificate_ends_later_and_refers_to_the_old_one() -> None:
    old, place = issued(), status.Place(number=1, index=98)
    values: dict[str, Any] = {"issuer": ISSUER, "signer": SIGNER, "status": place, "language": "en"}
    new = renew(old.credential, expires_at=datetime(2990, 5, 1, tzinfo=UTC), **values)
    assert summarize(new.credential).expires == datetime(2990, 5, 1, tzinfo=UTC)
    assert summarize(new.credential).replaces == old.id
    assert "exp" not in renew(old.credential, expires_at=None, **values).credential
    with pytest.raises(CourseError, match="must end after"):
        renew(old.credential, expires_at=datetime(2026, 1, 1, tzinfo=UTC), **values)


def test_places_in_a_list_are_drawn_at_random_and_never_twice() -> None:
    taken: set[int] = set()
    for _ in range(300):
        place = status.free_place(taken)
        assert place is not None
        assert place.index not in taken
        taken.add(place.index)
    assert sorted(taken) != list(range(300))
    assert max(taken) > 50_000
    assert status.free_place(range(status.SIZE)) is None
    with pytest.raises(ValueError, match="outside"):
        status.encode([status.SIZE])


# --- the network, against a real TLS server


def authority(folder: Path, *, days: int = 90) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for 127.0.0.1, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days, hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "tls.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cafile=str(pem))


@contextmanager
def listening(kind: type[socketserver.BaseRequestHandler], context: ssl.SSLContext | None) -> Iterator[int]:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            with suppress(OSError):  # a client that doesn't trust it hangs up
                if context is None:
                    kind(request, client_address, self)
                    return
                with context.wrap_socket(request, server_side=True) as secure:
                    kind(secure, client_address, self)  # type: ignore[arg-type]

    with Server(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(5)


def site(pages: dict[str, bytes]) -> type[http.server.BaseHTTPRequestHandler]:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", "https://evil.example/")
                self.end_headers()
            elif self.path == "/slow":
                self.send_response(200)
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b"A")
                    time.sleep(0.1)
            elif self.path == "/large":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"A" * 400_000)
            elif self.path in pages:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(pages[self.path])
            else:
                self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    return Site


def test_the_server_is_asked_within_limits(tmp_path: Path) -> None:
    context, trusting = authority(tmp_path)
    with listening(site({"/list": b"hello"}), context) as port:
        at = f"https://127.0.0.1:{port}"
        fetch = Fetcher(context=trusting, seconds=1.5)
        assert fetch(f"{at}/list") == b"hello"
        with pytest.raises(Refused, match="revocation-redirect"):
            fetch(f"{at}/away")
        with pytest.raises(Refused, match="revocation-large"):
            fetch(f"{at}/large")
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            fetch(f"{at}/slow")
        assert time.monotonic() - begun < 4
        for missing in (f"{at}/nothing", "https://127.0.0.1:1/list", "https://nowhere.invalid/list"):
            with pytest.raises(Unreachable):
                fetch(missing)
        with pytest.raises(Unreachable):
            Fetcher(seconds=3)(f"{at}/list")  # its certificate is nobody's
        for refused in ("http://127.0.0.1/list", "https://user@127.0.0.1/list", "file:///etc/passwd"):
            with pytest.raises(Refused):
                fetch(refused)


def test_an_issuer_is_looked_at_from_outside(tmp_path: Path) -> None:
    context, trusting = authority(tmp_path)
    pages: dict[str, bytes] = {}
    with listening(site(pages), context) as port:
        host = f"127.0.0.1:{port}"
        found = made(tmp_path / "issuer", domain=host).issuer

        def seen(issuer: Issuer = found, **more: Any) -> dict[str, tuple[bool, str]]:
            return {each.name: (each.good, each.reason) for each in checks.examine(issuer, context=trusting, **more)}

        assert seen() == {"tls": (True, "tls"), "did": (False, "did-missing"), "status": (False, "status-missing")}
        pages["/.well-known/did.json"] = (tmp_path / "issuer" / "public" / "did.json").read_bytes()
        signer = office.signer(tmp_path / "issuer")
        listed = status.signed_list(issuer=found, signer=signer, purpose="suspension", number=1, indices=[])
        pages["/status/suspension/1.jwt"] = listed.encode()
        assert all(good for good, _ in seen().values())
        certificate = issue(exam(), issuer=found, signer=signer, status=PLACE, language="en")
        fetch = Fetcher(context=trusting)
        assert verify(certificate.jwt.encode(), trust=found.trust, fetch=fetch).verdict == "issuer"
        assert discovery.discover(found.did, fetch=fetch).keys == found.keys
        pages["/.well-known/did.json"] = b"{}"
        pages["/status/suspension/1.jwt"] = b"<html>"
        assert seen() == {"tls": (True, "tls"), "did": (False, "did-other"), "status": (False, "status-refused")}
        strange = {each.reason for each in checks.examine(found)}
        assert strange == {"tls-refused"}
        for language in ("en", "nl", "ar"):
            assert all(each.detail(language) for each in checks.examine(found, context=trusting))
    gone = replace(found, address="https://127.0.0.1:1")
    assert seen(gone) == {"tls": (False, "tls-unreachable")}
    soon, trusting = authority(tmp_path, days=3)
    with listening(site({}), soon) as port:
        ending = checks.examine(replace(found, address=f"https://127.0.0.1:{port}"), context=trusting)
        assert ending[0].reason == "tls-ends"


def test_mail_is_looked_at_without_sending_any(tmp_path: Path) -> None:
    context, trusting = authority(tmp_path)
    said: list[bytes] = []

    def post(encrypts: bool) -> type[socketserver.StreamRequestHandler]:
        class Post(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 ready\r\n")
                reader, writer = self.rfile, self.wfile
                secure: ssl.SSLSocket | None = None
                while line := reader.readline(1000):
                    said.append(line)
                    word = line[:4].upper()
                    if word == b"EHLO":
                        writer.write(b"250-mail\r\n250 STARTTLS\r\n" if encrypts else b"250 mail\r\n")
                    elif word == b"STAR":
                        writer.write(b"220 go ahead\r\n")
                        secure = context.wrap_socket(self.connection, server_side=True)
                        reader, writer = secure.makefile("rb"), secure.makefile("wb", buffering=0)  # type: ignore[assignment]
                    else:
                        writer.write(b"221 bye\r\n")
                if secure is not None:
                    reader.close()
                    writer.close()
                    secure.close()

        return Post

    issuer = replace(ISSUER, address="https://127.0.0.1:1")

    def seen(port: int, roots: ssl.SSLContext | None = None) -> str:
        found = checks.examine(issuer, smtp=("127.0.0.1", port), context=roots or trusting)
        return next(each.reason for each in found if each.name == "mail")

    with listening(post(True), None) as port:
        assert seen(port) == "mail"
        assert seen(port, ssl.create_default_context()) == "mail-refused"
    with listening(post(False), None) as port:
        assert seen(port) == "mail-in-clear"
    assert seen(1) == "mail-unreachable"
    assert not any(each.upper().startswith((b"MAIL", b"RCPT", b"AUTH")) for each in said)


def test_an_empty_list_trusts_nobody() -> None:
    assert verify(issued().jwt.encode(), trust=Trust()).verdict == "unknown-issuer"
