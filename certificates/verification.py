"""Whether a certificate is what it says: seven named steps, each passed, failed or not checked, and a verdict.

"Not checked" is never shown as valid. A practice certificate is signed with the learner's own key: an intact signature
proves that nobody has changed it since, and neither identity nor supervision. Issuers (did:web), their lists,
revocation and endorsements have their step and their verdict here, and are not read yet.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from openbadgeslib.errors import LibOpenBadgesException
from openbadgeslib.ob3 import OB3Verifier, did_key_from_pem, resolve_did

from certificates import carriers, strict
from certificates.strict import Refused
from translations import CourseError, Language, formats, translator

STEPS = ("format", "signature", "issuer", "dates", "revocation", "recipient", "evidence")


@dataclass(frozen=True, kw_only=True)
class Step:
    """``result``: ``pass``, ``fail`` or ``not-checked``. ``reason``: the message's id; ``detail``: that message."""

    step: str
    result: str
    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """``verdict``: ``practice``, ``issuer``, ``endorsed``, ``unknown-issuer`` or ``invalid``.

    ``credential`` is what was signed, and None unless the signature was found intact. ``sha256`` is the token's.
    """

    verdict: str
    steps: tuple[Step, ...]
    credential: Mapping[str, Any] | None
    sha256: str | None

    @property
    def failed(self) -> Step | None:
        """The first step that failed."""
        return next((each for each in self.steps if each.result == "fail"), None)

    def as_json(self) -> dict[str, Any]:
        """What ``shardwise certificate verify --json`` prints."""
        steps = [{"step": each.step, "result": each.result, "detail": each.detail} for each in self.steps]
        return {"verdict": self.verdict, "steps": steps, "credential": self.credential}


def read(path: Path) -> bytes:
    """A file's bytes, one more than a certificate may have at most. Raises CourseError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(strict.rules()["file_bytes"] + 1)
    except OSError as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error


def verify(data: bytes, *, language: Language | str = "en", email: str | None = None) -> Verification:
    """The verdict on a certificate in any of its forms. ``email`` is compared with the salted hash inside.

    Never raises for what the bytes hold.
    """
    text = translator(language)
    outcomes: dict[str, Outcome] = {}
    credential: dict[str, Any] | None = None
    token: str | None = None
    try:
        token = carriers.token(data)
        body = _parse(token)
        outcomes["format"] = Outcome("pass", "format-pass")
        outcomes["signature"] = _signature(token, body)
        if outcomes["signature"].result != "fail":
            outcomes["issuer"] = _issuer(body)
            outcomes["dates"] = _dates(body)
            outcomes["revocation"] = _revocation(body)
            outcomes["recipient"] = _recipient(body, email)
            outcomes["evidence"] = _evidence(body)
        if outcomes["signature"].result == "pass":
            credential = body
            if not any(each.result == "fail" for each in outcomes.values()) and _library_refuses(token, body):
                outcomes["signature"], credential = Outcome("fail", "signature-library"), None
    except Refused as refused:
        outcomes["format"] = Outcome("fail", refused.reason, refused.values)
    steps = []
    for name in STEPS:
        outcome = outcomes.get(name, Outcome("not-checked", "skipped"))
        values = {key: _shown(value, text.language) for key, value in (outcome.values or {}).items()}
        detail = text(f"certificates.{outcome.reason}", **values)
        steps.append(Step(step=name, result=outcome.result, reason=outcome.reason, detail=detail))
    sha256 = hashlib.sha256(token.encode("ascii")).hexdigest() if token else None
    return Verification(verdict=_verdict(outcomes), steps=tuple(steps), credential=credential, sha256=sha256)


@dataclass(frozen=True)
class Outcome:
    """A step's result, and the message (with its values) that explains it."""

    result: str
    reason: str
    values: Mapping[str, object] | None = None


def _shown(value: object, language: Language) -> object:
    return formats.date(value, language) if isinstance(value, date) else value


def _verdict(outcomes: Mapping[str, Outcome]) -> str:
    failed = {step for step, outcome in outcomes.items() if outcome.result == "fail"}
    if failed - {"issuer"}:
        return "invalid"
    return "unknown-issuer" if failed else "practice"


def _parse(token: str) -> dict[str, Any]:
    """The credential in a token whose every part is well formed; says nothing about its signature."""
    header, body, signature = (strict.decode_base64url(part) for part in token.split("."))
    strict.check_header(strict.parse_json(header))
    credential = strict.parse_json(body)
    strict.check_shape(credential)
    if len(signature) != 64:
        raise Refused("format-token")
    if (
        credential["iss"] != credential["issuer"]["id"]
        or credential["sub"] != credential["credentialSubject"]["id"]
        or credential["jti"] != credential["id"]
    ):
        raise Refused("format-claims")
    return credential


def _signature(token: str, body: Mapping[str, Any]) -> Outcome:
    """Ed25519 under the key that the issuer's did:key is; a did:web issuer's key is not known here."""
    did = body["issuer"]["id"]
    if not did.startswith("did:key:"):
        return Outcome("not-checked", "signature-key-unknown")
    key = _public_key(did)
    if key is None:
        return Outcome("fail", "signature-key")
    signed, _, signature = token.rpartition(".")
    header = strict.parse_json(strict.decode_base64url(token.split(".")[0]))
    if "jwk" in header and header["jwk"]["x"] != strict.encode_base64url(key.public_bytes_raw()):
        return Outcome("fail", "signature-other-key")
    if header.get("kid", did).partition("#")[0] != did:
        return Outcome("fail", "signature-other-key")
    try:
        key.verify(strict.decode_base64url(signature), signed.encode("ascii"))
    except InvalidSignature:
        return Outcome("fail", "signature-fail")
    return Outcome("pass", "signature-pass")


def _public_key(did: str) -> Ed25519PublicKey | None:
    """The key that a did:key is, in its one spelling; None for any other kind of key."""
    try:
        pem = resolve_did(did)
        key = load_pem_public_key(pem)
    except (LibOpenBadgesException, ValueError):
        return None
    return key if isinstance(key, Ed25519PublicKey) and did_key_from_pem(pem) == did else None


def _library_refuses(token: str, body: Mapping[str, Any]) -> bool:
    """openbadgeslib's own opinion, bound to key and issuer: a second look at everything that passed ours."""
    did, now = body["issuer"]["id"], datetime.now(UTC).timestamp()
    if not body["nbf"] <= now < body.get("exp", now + 1):
        return False  # It knows no leeway at the edges, and the dates step has judged them.
    try:
        OB3Verifier(pubkey_pem=resolve_did(did), issuer_did=did).verify(token)
    except LibOpenBadgesException:
        return True
    return False


def _issuer(body: Mapping[str, Any]) -> Outcome:
    """No list of trusted issuers is read yet: a certificate is the learner's own, or from somebody unknown."""
    if _is_practice(body):
        return Outcome("not-checked", "issuer-practice")
    return Outcome("fail", "issuer-unknown")


def _is_practice(body: Mapping[str, Any]) -> bool:
    did: str = body["issuer"]["id"]
    return did.startswith("did:key:") and did == body["credentialSubject"]["id"]


def _dates(body: Mapping[str, Any]) -> Outcome:
    leeway = timedelta(seconds=strict.rules()["leeway_seconds"])
    now = datetime.now(UTC)
    since, until = _moment(body["validFrom"]), _moment(body["validUntil"]) if "validUntil" in body else None
    if since is None or ("validUntil" in body and until is None):
        return Outcome("fail", "dates-impossible")
    if body["nbf"] != since.timestamp() or body.get("exp") != (until.timestamp() if until else None):
        return Outcome("fail", "dates-differ")
    if until and until <= since:
        return Outcome("fail", "dates-impossible")
    if since > now + leeway:
        return Outcome("fail", "dates-future", {"date": since.date()})
    if until and until < now - leeway:
        return Outcome("fail", "dates-expired", {"date": until.date()})
    if until:
        return Outcome("pass", "dates-until", {"date": until.date()})
    return Outcome("pass", "dates-pass", {"date": since.date()})


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _revocation(body: Mapping[str, Any]) -> Outcome:
    if "credentialStatus" in body:
        return Outcome("not-checked", "revocation-unread")
    return Outcome("not-checked", "revocation-practice" if _is_practice(body) else "revocation-none")


def _recipient(body: Mapping[str, Any], email: str | None) -> Outcome:
    if not (email or "").strip():
        return Outcome("not-checked", "recipient-not-asked")
    identities = [each for each in body["credentialSubject"]["identifier"] if each["identityType"] == "emailAddress"]
    hashed = [each for each in identities if each["hashed"] and "salt" in each]
    if not hashed:
        return Outcome("not-checked", "recipient-none")
    if any(each["identityHash"] == hash_email(email or "", salt=each["salt"]) for each in hashed):
        return Outcome("pass", "recipient-pass")
    return Outcome("fail", "recipient-fail")


def hash_email(email: str, *, salt: str) -> str:
    """``sha256$`` and the hash of the lower-cased address and the salt."""
    normal = unicodedata.normalize("NFC", email.strip()).lower()
    return "sha256$" + hashlib.sha256((normal + salt).encode("utf-8", "surrogatepass")).hexdigest()


def _evidence(body: Mapping[str, Any]) -> Outcome:
    """Whether results, marks and hashes agree with each other. Nobody has graded the attempt again: never a pass."""
    subject = body["credentialSubject"]
    named = {each["genre"]: each["narrative"] for each in body["evidence"]}
    if len(named) != len(body["evidence"]) or set(named) != {"attempt", "bank", "seed", "checks", "supervised"}:
        return Outcome("fail", "evidence-malformed")
    checks = re.fullmatch(r"([0-9]{1,3})/([1-9][0-9]{0,2})", named["checks"])
    if (
        not all(re.fullmatch(r"sha256:[0-9a-f]{64}", named[each]) for each in ("attempt", "bank"))
        or not re.fullmatch(r"[0-9]{1,20}", named["seed"])
        or named["supervised"] not in ("yes", "no")
        or not checks
    ):
        return Outcome("fail", "evidence-malformed")
    described = {each["id"]: each.get("requiredValue") for each in subject["achievement"]["resultDescription"]}
    results = {each["resultDescription"]: each["value"] for each in subject["result"]}
    unit = subject["achievement"]["id"]
    objectives = [id for id in results if id.startswith(f"{unit}:objective:")]
    marked = {f"{unit}:mastery", *objectives}
    if (
        len(described) != len(subject["achievement"]["resultDescription"])
        or len(results) != len(subject["result"])
        or set(results) != set(described)
        or set(results) != marked | {f"{unit}:quiz"}
        or {id for id, required in described.items() if required is not None} != marked
        or not objectives
        or int(checks[1]) > int(checks[2])
    ):
        return Outcome("fail", "evidence-malformed")
    try:
        values = {id: _percent(value) for id, value in results.items()}
        required = {id: _percent(described[id]) for id in marked}
    except ValueError:
        return Outcome("fail", "evidence-range")
    mastery = f"{unit}:mastery"
    mastered = sum(values[id] >= required[id] for id in objectives)
    if values[mastery] != floor_percent(Fraction(mastered, len(objectives))):
        return Outcome("fail", "evidence-disagrees")
    if values[mastery] < required[mastery] or int(checks[1]) < int(checks[2]):
        return Outcome("fail", "evidence-below")
    if named["supervised"] == "yes" and _is_practice(body):
        return Outcome("fail", "evidence-supervised")
    return Outcome("not-checked", "evidence-consistent")


def _percent(text: str) -> Decimal:
    """A percentage from 0 to 100 with at most one decimal. Raises ValueError."""
    if not re.fullmatch(r"(0|[1-9][0-9]{0,2})(\.[0-9])?", text) or Decimal(text) > 100:
        raise ValueError(text)
    return Decimal(text)


def floor_percent(share: Fraction) -> Decimal:
    """A share as a percentage with one decimal, rounded down so that it never claims more."""
    return Decimal(share.numerator * 1000 // share.denominator) / 10
