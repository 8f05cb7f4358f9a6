"""No certificate without mastery, whole evidence and a usable name; and what stands in one."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certificates import Result, issue, keys, verify
from certificates.credential import credential
from certificates.summary import rows, summarize
from tests.certificates import samples
from translations import CourseError, translator


def made(**changes: Any) -> dict[str, Any]:
    return dict(issue(samples.evidence(**changes), key=samples.KEY, language="en").credential)


def refusal(**changes: Any) -> str:
    with pytest.raises(CourseError) as raised:
        issue(samples.evidence(**changes), key=samples.KEY, language="en")
    for language in ("en", "nl", "ar"):
        assert raised.value.in_language(translator(language))
    return raised.value.id


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("not-mastered", {"pass_mark": 0.81}),
        ("not-mastered", {"objective_mark": 0.9}),
        ("checks-open", {"checks_passed": 1}),
        ("checks-open", {"checks_passed": 0, "checks": 0}),
        ("practice-supervised", {"supervised": True}),
        ("evidence-incomplete", {"attempt_hash": ""}),
        ("evidence-incomplete", {"bank_hash": f"sha256:{'A1' * 32}"}),
        ("evidence-incomplete", {"results": ()}),
        ("evidence-incomplete", {"quiz_score": 1.01}),
        ("evidence-incomplete", {"quiz_score": float("nan")}),
        ("evidence-incomplete", {"results": (Result(id="a", title="A", share=1.2),)}),
        ("evidence-incomplete", {"results": (Result(id="a", title="A", share=1), Result(id="a", title="B", share=1))}),
        ("evidence-incomplete", {"seed": -1}),
        ("evidence-incomplete", {"issued_at": datetime(2026, 11, 29)}),
        ("evidence-incomplete", {"issued_at": datetime.now(UTC) + timedelta(days=1)}),
    ],
)
def test_evidence_that_does_not_show_mastery_gives_no_certificate(reason: str, changes: dict[str, Any]) -> None:
    assert refusal(**changes) == f"certificates.{reason}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("  ", "name-missing"),
        ("N" * 201, "name-long"),
        ("Noor \u202egnorw", "name-unsafe"),
        ("No\u200bor", "name-unsafe"),
        ("Noor\x00", "name-unsafe"),
        ("Noor \ud800", "name-unsafe"),
        ("1234 ...", "name-unsafe"),
    ],
)
def test_a_name_that_cannot_be_shown_as_it_is_gives_no_certificate(name: str, reason: str) -> None:
    assert refusal(holder=name) == f"certificates.{reason}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("  Noor   el-Amrani ", "Noor el-Amrani"),
        ("Zoe\u0308 Müller", "Zoë Müller"),
        ("نور الهدى", "نور الهدى"),
        ("علی‌رضا", "علی‌رضا"),  # Persian names need the zero-width non-joiner.
        ("N" * 200, "N" * 200),
    ],
)
def test_a_name_is_normalised_and_kept(name: str, shown: str) -> None:
    assert summarize(made(holder=name)).holder == shown


def test_the_credential_says_everything_that_was_shown() -> None:
    body = made()
    subject = body["credentialSubject"]
    assert body["issuer"]["id"] == subject["id"] == samples.KEY.did
    assert [each["value"] for each in subject["result"]] == ["80", "85", "100", "91.6", "83.3", "66.6", "50"]
    assert subject["achievement"]["inLanguage"] == "en"
    assert subject["achievement"]["version"] == "0.1.0"
    assert {each["genre"]: each["narrative"] for each in body["evidence"]} == {
        "attempt": f"sha256:{'a1' * 32}",
        "bank": f"sha256:{'b2' * 32}",
        "seed": "20261130",
        "checks": "2/2",
        "supervised": "no",
    }
    assert "80%" in subject["achievement"]["criteria"]["narrative"]


def test_the_email_leaves_only_as_a_hash_with_a_fresh_salt() -> None:
    first, second = made(), made()
    assert "example.org" not in str(first).lower()
    one, other = (each["credentialSubject"]["identifier"][1] for each in (first, second))
    assert one["salt"] != other["salt"]
    assert one["identityHash"] != other["identityHash"]
    assert len(one["salt"]) == 64
    assert len(made(email=None)["credentialSubject"]["identifier"]) == 1


def test_two_certificates_have_two_ids_and_equal_arguments_give_equal_bytes() -> None:
    assert made()["id"] != made()["id"]
    arguments = {
        "did": samples.KEY.did,
        "text": translator("en"),
        "id": f"urn:uuid:{'0' * 8}-0000-4000-8000-{'0' * 12}",
    }
    assert credential(samples.evidence(), salt="0" * 32, **arguments) == credential(
        samples.evidence(), salt="0" * 32, **arguments
    )


def test_direction_marks_of_titles_stay_out_of_the_credential() -> None:
    assert summarize(made(title="مرحلة \u2066ZeRO\u2069 الأولى")).unit == "مرحلة ZeRO الأولى"


@pytest.mark.parametrize(
    ("language", "evidence"),
    [("en", samples.evidence), ("nl", samples.dutch), ("ar", samples.arabic), ("ka", samples.georgian)],
)
def test_every_language_makes_a_certificate_that_verifies(language: str, evidence: Any) -> None:
    certificate = issue(evidence(), key=samples.KEY, language=language)
    verification = verify(certificate.jwt.encode(), language=language, email=samples.EMAIL)
    assert verification.verdict == "practice"
    assert dict(rows(certificate.credential, language)).values()
    assert len({each.detail for each in verification.steps}) == 7


def test_a_key_is_kept_by_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.pem"
    key = keys.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.load_or_create(path).did == key.did
    with pytest.raises(CourseError, match="already exists"):
        keys.save(keys.create(), path)
    assert keys.load(path).did == key.did
    assert "PRIVATE" not in repr(key)


def test_a_key_travels_as_pem_and_jwk() -> None:
    import json

    key = keys.create()
    assert keys.parse(key.pem()).did == keys.parse(json.dumps(key.jwk())).did == key.did
    assert key.did.startswith("did:key:z6Mk")


@pytest.mark.parametrize(
    "text", ["", "{}", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", '{"kty": "oct"}']
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(text)
    with pytest.raises(CourseError, match="not an Ed25519 private key"):
        keys.load(path)
    with pytest.raises(CourseError, match=r"missing\.pem can't be read"):
        keys.load(tmp_path / "missing.pem")
