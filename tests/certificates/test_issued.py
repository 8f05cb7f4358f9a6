"""Certificates of an issuer against one table: Python with the issuer's list, and offline. The page is held to the same
table in `test_issued_page`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from certificates import trust, verify
from certificates.network import Unreachable
from certificates.strict import Refused
from tests.certificates import issued_cases, issuers, make_fixtures
from tests.certificates.issued_cases import Answer

FOLDER = make_fixtures.FOLDER.with_name("fixtures_of_issuers")
TABLE: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
FILES: dict[str, dict[str, Any]] = TABLE["files"]
ALONE: dict[str, dict[str, Any]] = json.loads(make_fixtures.EXPECTED.read_text(encoding="utf-8"))["files"]
ANSWERS = issued_cases.answers()


def served(address: str) -> bytes:
    """As `certificates.network.Fetcher` gives what the issuer's server says."""
    answer = ANSWERS.get(address, Answer(status=404))
    if answer.location:
        raise Refused("revocation-redirect")
    if answer.status != 200:
        raise Unreachable(str(answer.status))
    return answer.body


def judged(name: str, **more: Any) -> dict[str, Any]:
    data = (FOLDER / name).read_bytes()
    email = FILES[name]["email"]
    found = verify(data, email=email, **more)
    failed = found.failed
    return {
        "verdict": found.verdict,
        "step": failed and failed.step,
        "reason": failed and failed.reason,
        "email": email,
    }


def test_there_are_more_than_150_bad_inputs_and_every_step_fails_somewhere() -> None:
    bad = {name for name, each in {**ALONE, **FILES}.items() if each["step"]}
    assert len(bad) >= 200
    assert {each["step"] for each in FILES.values()} >= {
        "format",
        "signature",
        "issuer",
        "dates",
        "revocation",
        "recipient",
        "evidence",
    }
    reasons = {each["reason"] for each in {**ALONE, **FILES}.values()}
    assert len(reasons) >= 50


@pytest.mark.parametrize("name", sorted(FILES))
def test_with_the_list_python_gives_the_expected_verdict(name: str) -> None:
    assert judged(name, trust=issuers.TRUST, fetch=served) == FILES[name]


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_of_an_issuer_is_valid_offline_or_without_a_list(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    offline = verify(data, trust=issuers.TRUST)
    assert offline.verdict in ("status-not-checked", "unknown-issuer", "invalid")
    alone = verify(data)
    assert alone.verdict in ("unknown-issuer", "invalid")
    assert alone.credential is None, "nothing is shown as signed by somebody whose key isn't known"
    if FILES[name]["verdict"] in ("issuer", "endorsed"):
        assert offline.verdict == "status-not-checked"
        assert {each.step: each.reason for each in offline.steps}["revocation"] == "revocation-offline"
        assert "not checked" in offline.headline("en")
        assert alone.stranger is not None
        assert (alone.stranger.domain, alone.stranger.address) == (
            "university.example",
            "https://university.example/.well-known/did.json",
        )


def test_the_verdict_names_the_issuer_as_the_list_does_and_not_as_it_calls_itself() -> None:
    body = issued_cases.edited(issued_cases.put("issuer.name", "Ministry of Truth"))
    found = verify(body, trust=issuers.TRUST, fetch=served)
    assert found.headline("en") == "Valid, issued by University of Example"
    assert found.issuer == "University of Example"
    endorsed = verify((FOLDER / "issued_and_endorsed.jwt").read_bytes(), trust=issuers.TRUST, fetch=served)
    assert endorsed.headline("en") == "Valid, issued by University of Example, endorsed by Example Accreditation"


def test_an_unknown_issuer_is_shown_by_domain_and_fingerprint() -> None:
    found = verify((FOLDER / "stranger.jwt").read_bytes(), trust=issuers.TRUST, fetch=served)
    assert found.stranger is not None
    assert found.stranger.domain == "univers1ty.example"
    assert found.stranger.fingerprint == trust.fingerprint(issuers.signer(7).public_key)
    slash = verify((FOLDER / "stranger_with_a_slash.jwt").read_bytes()).stranger
    assert slash is not None
    assert slash.domain == "university.example%2F.evil.example"
    without = verify((FOLDER / "stranger_without_key.jwt").read_bytes(), trust=issuers.TRUST)
    assert without.stranger is not None
    assert without.stranger.fingerprint is None


def test_the_server_is_asked_once_and_only_about_what_may_be_valid() -> None:
    asked: list[str] = []

    def fetch(address: str) -> bytes:
        asked.append(address)
        return served(address)

    for name in FILES:
        asked.clear()
        found = verify((FOLDER / name).read_bytes(), trust=issuers.TRUST, fetch=fetch)
        assert all(each.startswith(f"{issuers.ADDRESS}/status/") for each in asked), name
        if found.verdict in ("issuer", "endorsed"):
            assert asked == [f"{issuers.ADDRESS}/status/suspension/1.jwt"], name
        if found.failed and found.failed.step in ("format", "signature", "issuer", "dates"):
            assert not asked, name
        assert len(asked) <= 2, name


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row["issuers"].append(row["issuers"][0]),
        lambda row: row["issuers"][0]["keys"].append(row["issuers"][0]["keys"][0]),
        lambda row: row["issuers"][0]["keys"][0].update(id="did:web:evil.example#key-1"),
        lambda row: row["issuers"][0]["keys"][0].update(x="A" * 42),
        lambda row: row["issuers"][0]["keys"][0].update(until="2026-02-30T00:00:00Z"),
        lambda row: row["issuers"][0].update(status=["http://university.example/status/"]),
        lambda row: row["issuers"][0].update(status=["https://university.example/status"]),
        lambda row: row["issuers"][0].update(names={}),
        lambda row: row["issuers"][0].update(names={"en": "University\u202e"}),
        lambda row: row.update(version=2),
        lambda row: row.update(more=1),
    ],
)
def test_a_list_that_could_be_read_in_two_ways_is_refused(change: Any) -> None:
    row = issuers.TRUST.as_json()
    assert trust.parse(json.dumps(row).encode()) == issuers.TRUST
    change(row)
    with pytest.raises(Refused):
        trust.parse(json.dumps(row).encode())
