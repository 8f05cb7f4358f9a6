"""An organisation at a terminal: it becomes an issuer, and a verifier who trusts it says yes to what it issued."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certificates import office, render
from certificates.issuer import issue
from certificates.status import Place
from shardwise import cli
from tests.certificates.issuers import exam
from translations import translator

Printed = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWISE_TRUST", str(tmp_path / "mine.json"))
    return tmp_path / "issuer"


def made(folder: Path, *more: str) -> int:
    names = ("--name", "University", "--name", "ar=الجامعة", "--no-check")
    return run("issuer", "init", "university.example", "--folder", str(folder), *names, *more)


def certificate(folder: Path, path: Path) -> str:
    found = office.read(folder)
    at = datetime.now(UTC) - timedelta(minutes=1)
    given = issue(
        exam(), issuer=found, signer=office.signer(folder, found), status=Place(number=1, index=3), language="en", at=at
    )
    path.write_bytes(render.jwt(given))
    return str(path)


def test_from_a_domain_to_a_verdict(folder: Path, tmp_path: Path, capsys: Printed) -> None:
    assert made(folder, "--json", "--signatory", "A. Jansen", "--office", "nl=Decaan") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["did"] == "did:web:university.example"
    assert made(folder) == 2
    file = certificate(folder, tmp_path / "c.jwt")
    assert run("certificate", "verify", file, "--offline", "--json") == 1
    before = json.loads(capsys.readouterr().out)
    assert (before["verdict"], before["stranger"]["fingerprint"]) == ("unknown-issuer", told["fingerprint"])
    trust = str(folder / "public" / "trust.json")
    assert run("certificate", "trust", trust, "--yes", "--name", "Uni") == 0
    assert told["fingerprint"] in capsys.readouterr().out
    assert run("certificate", "verify", file, "--offline", "--json") == 1
    after = json.loads(capsys.readouterr().out)
    assert (after["verdict"], after["issuer"]) == ("status-not-checked", "Uni")
    assert run("certificate", "verify", file, "--offline", "--accept", "status-not-checked", "--lang", "ar") == 0
    assert translator("ar")("certificates.verdict-status-not-checked", issuer="Uni") in capsys.readouterr().out
    assert run("certificate", "verify", file, "--trust", trust, "--offline") == 1
    assert "University" in capsys.readouterr().out
    assert run("certificate", "verify", file, "--trust", file, "--offline") == 2


def test_a_key_that_is_known_to_others_is_replaced_and_its_certificates_fall(
    folder: Path, tmp_path: Path, capsys: Printed
) -> None:
    made(folder)
    file, trust = certificate(folder, tmp_path / "c.jwt"), str(folder / "public" / "trust.json")
    assert run("issuer", "rotate", "--folder", str(folder)) == 0
    assert run("certificate", "verify", file, "--trust", trust, "--offline", "--accept", "status-not-checked") == 0
    assert run("issuer", "rotate", "--folder", str(folder), "--key", "key-1") == 0
    capsys.readouterr()
    assert run("certificate", "verify", file, "--trust", trust, "--offline", "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "invalid"
    assert run("issuer", "rotate", "--folder", str(folder), "--key", "key-9") == 2
    assert run("issuer", "rotate", "--folder", str(folder), "--compromised", "--json") == 0


def test_one_issuer_endorses_another(folder: Path, tmp_path: Path, capsys: Printed) -> None:
    made(folder)
    other = tmp_path / "other"
    assert run("issuer", "init", "other.example", "--name", "Other", "--folder", str(other), "--no-check") == 0
    signed = str(tmp_path / "endorsement.jwt")
    assert run("issuer", "endorse", "did:web:university.example", signed, "--folder", str(other)) == 0
    assert run("issuer", "endorsed", signed, "--folder", str(other)) == 2
    assert run("issuer", "endorsed", signed, "--folder", str(folder)) == 0
    assert run("certificate", "trust", str(folder / "public" / "trust.json"), "--yes") == 0
    assert run("certificate", "trust", str(other / "public" / "trust.json"), "--yes", "--endorser") == 0
    file = certificate(folder, tmp_path / "c.jwt")
    capsys.readouterr()
    run("certificate", "verify", file, "--offline", "--json")
    assert json.loads(capsys.readouterr().out)["endorsers"] == ["Other"]
    assert run("issuer", "endorse", "nobody", signed, "--folder", str(other)) == 2


def test_a_page_with_the_keys_in_it_and_words_in_every_language(folder: Path, tmp_path: Path, capsys: Printed) -> None:
    made(folder)
    page = tmp_path / "verify.html"
    assert run("issuer", "page", str(page), "--folder", str(folder)) == 0
    assert "connect-src https://university.example/status/" in page.read_text(encoding="utf-8")
    for words in (["init"], ["check"], ["rotate"], ["page"], ["endorse"], ["endorsed"]):
        for code in ("en", "nl", "ar"):
            capsys.readouterr()
            assert run("issuer", *words, "--help", "--lang", code) == 0
            shown = capsys.readouterr().out
            assert translator(code)(f"shardwise.cli-issuer-{words[0]}").split()[0] in shown
            assert "cli-" not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("issuer", "check", "--folder", "nowhere"),
        ("issuer", "rotate", "--folder", "nowhere"),
        ("issuer", "page", "x.html", "--folder", "nowhere"),
        ("issuer", "init", "a b", "--name", "A", "--no-check", "--folder", "spoilt"),
        ("issuer", "init", "a.example", "--name", "en=A", "--name", "en=B", "--folder", "spoilt"),
        ("issuer", "init", "a.example", "--name", "A", "--smtp", "mail", "--folder", "spoilt"),
        ("certificate", "trust", "nowhere.json", "--yes"),
        ("certificate", "trust", "did:key:z6Mk", "--yes"),
    ],
)
def test_wrong_use_is_2_with_a_sentence(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    told = capsys.readouterr()
    assert told.err.strip()
    assert "Traceback" not in told.err
    assert not list(tmp_path.rglob("*.pem"))
