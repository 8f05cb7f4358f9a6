"""What independent software says of what an issuer issues: npm jose of JWTs, Digital Bazaar of Data Integrity copies
with their status lists, openbadgeslib of JWTs with theirs, and 1EdTech's schema. None of them shares a line with the
verifier under test.
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from openbadgeslib.errors import LibOpenBadgesException
from openbadgeslib.ob3 import OB3Verifier
from openbadgeslib.ob3.contexts import bundled_contexts

from certificates import integrity, status, strict, verify
from certificates.issuer import issue
from tests.certificates import issuers
from tests.certificates.issued_cases import put
from tests.certificates.issuers import ISSUER, SIGNER, signer
from tests.certificates.test_issued import FILES, FOLDER, served

NODE = Path(__file__).parent / "node"
SOON = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
node = pytest.mark.node


def ran(script: str, given: str) -> str:
    program = shutil.which("node")
    if program is None or not (NODE / "node_modules" / "@digitalbazaar").is_dir():
        pytest.skip(
            "Node.js or the packages of tests/certificates/node are missing (npm ci there): nobody else verified."
        )
    done = subprocess.run(
        [program, script], cwd=NODE, input=given, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout


@node
def test_jose_agrees_about_the_signature_of_every_certificate_in_the_table() -> None:
    """By the key that each issuer's DID document publishes under the certificate's key id."""
    document = ISSUER.did_document()
    published = {
        each["id"]: each["publicKeyMultibase"]
        for each in document["verificationMethod"]
        if each["id"] in document["assertionMethod"]
    }
    lines, ours = [], {}
    for name, expected in FILES.items():
        if not name.endswith(".jwt") or expected["step"] == "format":
            continue
        token = (FOLDER / name).read_text(encoding="ascii").strip()
        head = json.loads(strict.decode_base64url(token.split(".")[0]))
        body = json.loads(strict.decode_base64url(token.split(".")[1]))
        key = published.get(head.get("kid", "")) if body["iss"] == ISSUER.did else None
        found = verify(token.encode(), trust=issuers.TRUST, fetch=served)
        # What carries another key than it names is refused by our own, stricter rule; what names none is found by key.
        if found.steps[1].reason == "signature-other-key" or "kid" not in head:
            continue
        compromised = found.steps[2].reason == "issuer-key-compromised"
        ours[name] = "intact" if found.steps[1].result == "pass" and not compromised else "refused"
        lines.append(f"{name}\t{token}\t{key or ''}\n")
    theirs = dict(line.split("\t") for line in ran("check.mjs", "".join(lines)).splitlines())
    assert theirs == ours
    assert {"intact", "refused"} == set(theirs.values())


def bazaar(credentials: dict[str, Any], lists: dict[str, Any]) -> dict[str, str]:
    documents = {**bundled_contexts(), **lists, ISSUER.did: ISSUER.did_document()}
    documents["https://w3id.org/security/multikey/v1"] = bundled_contexts()["https://w3id.org/security/multikey/v1"]
    documents["https://www.w3.org/ns/did/v1"] = {"@context": {"id": "@id", "type": "@type"}}
    found: dict[str, str] = json.loads(
        ran("bazaar.mjs", json.dumps({"documents": documents, "credentials": credentials}))
    )
    return found


@node
@pytest.mark.skipif(find_spec("pyld") is None, reason="pyld is not here (make service).")
def test_digital_bazaar_verifies_what_we_issue_and_refuses_what_we_refuse() -> None:
    def made(language: str = "en", *, index: int = 7, **changes: Any) -> dict[str, Any]:
        found = issue(
            issuers.exam_in(language, **changes),
            issuer=ISSUER,
            signer=SIGNER,
            status=status.Place(number=1, index=index),
            language=language,
            at=SOON,
        )
        return integrity.copy(found, issuer=ISSUER, signer=SIGNER, at=SOON)

    def listed(purpose: status.Purpose, *indices: int, number: int = 1, **more: Any) -> dict[str, Any]:
        values: dict[str, Any] = {"issuer": ISSUER, "signer": SIGNER, "at": SOON, "valid_for": timedelta(days=1)}
        return integrity.signed_list(purpose=purpose, number=number, indices=indices, **(values | more))

    def altered(change: Any) -> dict[str, Any]:
        body = copy.deepcopy(made())
        change(body)
        return body

    lists = {
        f"{issuers.ADDRESS}/status/suspension/1.json": listed("suspension", 8, 9),
        f"{issuers.ADDRESS}/status/suspension/2.json": listed(
            "suspension", number=2, signer=signer(66, id=SIGNER.key_id)
        ),
    }
    old_key = integrity.secured({k: v for k, v in made().items() if k != "proof"}, signer=signer(1), at=SOON)
    good = {
        "en": made(),
        "nl": made("nl"),
        "ar": made("ar"),
        "without labs": made(labs=(), labs_score=None, labs_mark=None),
        "without end": made(expires_at=None),
        "by a key that was replaced": old_key,
    }
    bad = {
        "renamed": altered(put("credentialSubject.identifier.0.identityHash", "Eve")),
        "better score": altered(put("credentialSubject.result.0.value", "100")),
        "other issuer": altered(put("issuer.id", issuers.STRANGER_DID)),
        "supervised": altered(put("evidence.3.narrative", "no")),
        "longer": altered(put("validUntil", "2999-01-02T00:00:00Z")),
        "other place": altered(put("credentialStatus.statusListIndex", "70")),
        "unknown field": altered(put("note", "with honours")),
        "by a compromised key": integrity.secured(
            {k: v for k, v in made().items() if k != "proof"}, signer=signer(2), at=SOON
        ),
        "by somebody else": integrity.secured(
            {k: v for k, v in made().items() if k != "proof"}, signer=signer(66, id=SIGNER.key_id), at=SOON
        ),
        "suspended": made(index=8),
        "revoked": made(index=9),
        "list by somebody else": integrity.secured(
            {
                **{k: v for k, v in made().items() if k != "proof"},
                "credentialStatus": status.entry(ISSUER, status.Place(number=2, index=7), suffix="json"),
            },
            signer=SIGNER,
            at=SOON,
        ),
    }
    found = bazaar({**good, **bad}, lists)
    assert {name: found[name] for name in good} == dict.fromkeys(good, "verified")
    passed = {name for name in bad if found[name] == "verified"}
    assert not passed


def test_openbadgeslib_agrees_with_the_status_list() -> None:
    key = ISSUER.key.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verifier = OB3Verifier(pubkey_pem=key, issuer_did=ISSUER.did)
    for name in (
        "issued_valid.jwt",
        "suspended.jwt",
        "revoked.jwt",
        "list_out_of_date.jwt",
        "list_of_another_issuer.jwt",
    ):
        token = (FOLDER / name).read_text(encoding="ascii").strip()
        try:
            verifier.verify(token, check_status=True, download=served)
            agreed = "issuer"
        except LibOpenBadgesException:
            agreed = "invalid"
        assert agreed == FILES[name]["verdict"], name


@pytest.mark.parametrize("language", ["en", "nl", "ar"])
def test_the_schema_of_1edtech_holds_for_what_is_issued(language: str) -> None:
    schema = jsonschema.Draft201909Validator(json.loads(strict.OPEN_BADGES_SCHEMA.read_text(encoding="utf-8")))
    schema.validate(dict(issuers.issued(language).credential))
    if language != "en":
        return
    for name, expected in FILES.items():
        if name.endswith(".jwt") and expected["step"] not in ("format", None):
            schema.validate(json.loads(strict.decode_base64url((FOLDER / name).read_text().strip().split(".")[1])))
