"""Whether a certificate is what it says: seven named steps, each passed, failed or not checked, and a verdict.

"Not checked" is never shown as valid. A practice certificate is signed with the learner's own key: an intact signature
proves that nobody has changed it since, and neither identity nor supervision. An issuer's certificate is valid only for
a verifier whose own list has that issuer (`certificates.trust`), by a key pinned there, and with a status list of the
issuer's that was read just now. Without a list, or offline, the verdict says what is missing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from openbadgeslib.errors import LibOpenBadgesException
from openbadgeslib.ob3 import OB3Verifier, did_key_from_pem, resolve_did

from certificates import carriers, endorsement, revocation, strict, tokens
from certificates.network import Fetch
from certificates.outcome import Outcome
from certificates.strict import Refused
from certificates.tokens import Token
from certificates.trust import Party, PublicKey, Trust, document_address, domain, fingerprint
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
class Stranger:
    """An issuer that the verifier's list doesn't have, or not with this key: all that is known of it.

    ``domain``: what it calls itself; ``address``: where that domain publishes its keys; ``fingerprint``: of the key
    that signed (None where the certificate doesn't carry it), to be compared with what the domain's owner says.
    """

    did: str
    domain: str
    address: str
    fingerprint: str | None

    def as_json(self) -> dict[str, str | None]:
        return {each: getattr(self, each) for each in ("did", "domain", "address", "fingerprint")}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """``verdict``: ``practice``, ``issuer``, ``endorsed``, ``status-not-checked``, ``unknown-issuer`` or ``invalid``.

    ``credential`` is what was signed, and None unless the signature was found intact under a key that the issuer is
    known by. ``sha256`` is the token's. ``issuer`` and ``endorsers``: names from the verifier's own list, never those
    that the certificate claims. ``stranger``: who it says to be from, where that list doesn't have them.
    """

    verdict: str
    steps: tuple[Step, ...]
    credential: Mapping[str, Any] | None
    sha256: str | None
    issuer: str | None = None
    endorsers: tuple[str, ...] = ()
    stranger: Stranger | None = None

    @property
    def failed(self) -> Step | None:
        """The first step that failed."""
        return next((each for each in self.steps if each.result == "fail"), None)

    def headline(self, language: Language | str) -> str:
        """``Valid, issued by University of Example``"""
        return translator(language)(f"certificates.verdict-{self.verdict}", **self._names(language))

    def meaning(self, language: Language | str) -> str:
        """What the verdict means, in a sentence or two."""
        return translator(language)(f"certificates.verdict-{self.verdict}-meaning")

    def _names(self, language: Language | str) -> dict[str, str]:
        if self.verdict == "endorsed":
            return {
                "issuer": self.issuer or "",
                "endorsers": _listed(self.endorsers, translator(language).language),
            }
        return {"issuer": self.issuer or ""} if self.verdict in ("issuer", "status-not-checked") else {}

    def as_json(self) -> dict[str, Any]:
        """What ``shardwise certificate verify --json`` prints."""
        steps = [{"step": each.step, "result": each.result, "detail": each.detail} for each in self.steps]
        return {
            "verdict": self.verdict,
            "steps": steps,
            "credential": self.credential,
            "issuer": self.issuer,
            "endorsers": list(self.endorsers),
            "stranger": self.stranger.as_json() if self.stranger else None,
        }


def read(path: Path) -> bytes:
    """A file's bytes, one more than a certificate may have at most. Raises CourseError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(strict.rules()["file_bytes"] + 1)
    except OSError as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error


def verify(
    data: bytes,
    *,
    language: Language | str = "en",
    email: str | None = None,
    trust: Trust | None = None,
    fetch: Fetch | None = None,
) -> Verification:
    """The verdict on a certificate in any of its forms. ``email`` is compared with the salted hash inside.

    ``trust``: the verifier's own list of issuers. ``fetch``: how to ask a listed issuer's server for its status list
    (`certificates.network.Fetcher`); None stays offline. Never raises for what the bytes hold.
    """
    text = translator(language)
    judged = _judge(data, email=email, trust=trust or Trust(), fetch=fetch)
    steps = []
    for name in STEPS:
        outcome = judged.outcomes.get(name, Outcome("not-checked", "skipped"))
        values = {key: _shown(value, text.language) for key, value in (outcome.values or {}).items()}
        detail = text(f"certificates.{outcome.reason}", **values)
        steps.append(Step(step=name, result=outcome.result, reason=outcome.reason, detail=detail))
    return Verification(
        verdict=_verdict(judged),
        steps=tuple(steps),
        credential=judged.credential,
        sha256=hashlib.sha256(judged.token.encode("ascii")).hexdigest() if judged.token else None,
        issuer=judged.party.name(text.language) if judged.party else None,
        endorsers=tuple(each.name(text.language) for each in judged.endorsers),
        stranger=judged.stranger,
    )


@dataclass
class _Judged:
    """What is known so far. ``party``: the listed issuer, by the key that the token was signed with."""

    outcomes: dict[str, Outcome]
    token: str | None = None
    credential: dict[str, Any] | None = None
    party: Party | None = None
    endorsers: tuple[Party, ...] = ()
    stranger: Stranger | None = None


def _judge(data: bytes, *, email: str | None, trust: Trust, fetch: Fetch | None) -> _Judged:
    judged = _Judged({})
    outcomes = judged.outcomes
    try:
        judged.token = carriers.token(data)
        token = _parse(judged.token)
        body = token.body
        outcomes["format"] = Outcome("pass", "format-pass")
        known = _known(token, trust)
        outcomes["signature"] = _signature(token, known)
        if outcomes["signature"].result == "fail":
            return judged
        outcomes["issuer"], judged.endorsers = _issuer(token, known, trust)
        outcomes["dates"] = _dates(body)
        if known.party is None or known.key is None:
            judged.stranger = _stranger(token)
        elif outcomes["issuer"].result == "pass":
            judged.party = known.party
        failed = any(each.result == "fail" for each in outcomes.values())
        # Nobody is asked about a certificate that fails anyway.
        skipped = failed and judged.party is not None
        if not skipped:
            outcomes["revocation"] = _revocation(body, judged.party, fetch=fetch)
        outcomes["recipient"] = _recipient(body, email)
        outcomes["evidence"] = _evidence(body, graded=judged.party is not None)
        if outcomes["signature"].result == "pass":
            judged.credential = body
            failed = any(each.result == "fail" for each in outcomes.values())
            if not failed and _library_refuses(token, known):
                outcomes["signature"], judged.credential = Outcome("fail", "signature-library"), None
    except Refused as refused:
        outcomes["format"] = Outcome("fail", refused.reason, refused.values)
    return judged


def _listed(names: tuple[str, ...], language: Language) -> str:
    """``A, B, and C`` as the language has it."""
    from babel.lists import format_list

    return str(format_list(names, locale=language.locale))


def _shown(value: object, language: Language) -> object:
    if isinstance(value, Party):
        return value.name(language)
    return formats.date(value, language) if isinstance(value, date) else value


def _verdict(judged: _Judged) -> str:
    failed = {step for step, outcome in judged.outcomes.items() if outcome.result == "fail"}
    unknown = "issuer" in failed and judged.outcomes["issuer"].reason in UNKNOWN
    if failed - ({"issuer"} if unknown else set()):
        return "invalid"
    if unknown:
        return "unknown-issuer"
    if judged.party is None:
        return "practice"
    if judged.outcomes["revocation"].result != "pass":
        return "status-not-checked"
    return "endorsed" if judged.endorsers else "issuer"


UNKNOWN = ("issuer-unknown", "issuer-stranger", "issuer-key-unlisted")
"""Why nobody can say whether an issuer is who it says: no fault of the certificate."""


def _parse(text: str) -> Token:
    """The credential in a token whose every part is well formed; says nothing about its signature."""
    token = tokens.parse(text)
    credential = token.body
    strict.check_profile(credential)
    if (
        credential["iss"] != credential["issuer"]["id"]
        or credential.get("sub") != credential["credentialSubject"].get("id")
        or credential["jti"] != credential["id"]
    ):
        raise Refused("format-claims")
    return token


@dataclass(frozen=True)
class _Known:
    """Whose key it is: the listed issuer with its pinned key, or the did:key that the issuer is."""

    party: Party | None = None
    key: PublicKey | None = None
    own: Ed25519PublicKey | None = None

    @property
    def verifying(self) -> Ed25519PublicKey | None:
        return self.key.key if self.key else self.own


def _known(token: Token, trust: Trust) -> _Known:
    did = token.body["issuer"]["id"]
    if did.startswith("did:key:"):
        return _Known(own=_public_key(did))
    party = trust.issuers.get(did)
    return _Known(party, token.key_of(party)) if party else _Known()


def _signature(token: Token, known: _Known) -> Outcome:
    """Ed25519 under the issuer's key. Of an issuer that isn't known, under the key that the token carries: that shows
    whether it was changed since, but not by whom it was signed, and is no pass.
    """
    did = token.body["issuer"]["id"]
    if did.startswith("did:key:") and known.own is None:
        return Outcome("fail", "signature-key")
    if token.header.get("kid", did).partition("#")[0] != did:
        return Outcome("fail", "signature-other-key")
    key = known.verifying
    if key is not None:
        if token.own_key is not None and token.own_key != key.public_bytes_raw():
            return Outcome("fail", "signature-other-key")
        return Outcome("pass", "signature-pass") if token.signed_by(key) else Outcome("fail", "signature-fail")
    if token.own_key is None:
        return Outcome("not-checked", "signature-key-unknown")
    if not token.signed_by(Ed25519PublicKey.from_public_bytes(token.own_key)):
        return Outcome("fail", "signature-fail")
    return Outcome("not-checked", "signature-own-key")


def _public_key(did: str) -> Ed25519PublicKey | None:
    """The key that a did:key is, in its one spelling; None for any other kind of key."""
    try:
        pem = resolve_did(did)
        key = load_pem_public_key(pem)
    except (LibOpenBadgesException, ValueError):
        return None
    return key if isinstance(key, Ed25519PublicKey) and did_key_from_pem(pem) == did else None


def _library_refuses(token: Token, known: _Known) -> bool:
    """The opinion of others on everything that passed ours: 1EdTech's schema, which our profile implies, and
    openbadgeslib, bound to key and issuer.
    """
    body, key = token.body, known.verifying
    if not strict.is_open_badge(body):
        return True
    did, now = body["issuer"]["id"], datetime.now(UTC).timestamp()
    if key is None or not body["nbf"] <= now < body.get("exp", now + 1):
        return False  # It knows no leeway at the edges, and the dates step has judged them.
    try:
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        OB3Verifier(pubkey_pem=pem, issuer_did=did).verify(token.text)
    except LibOpenBadgesException:
        return True
    return False


def _issuer(token: Token, known: _Known, trust: Trust) -> tuple[Outcome, tuple[Party, ...]]:
    """Who stands behind it, by the verifier's own list, and which of that list's endorsers."""
    body = token.body
    did = body["issuer"]["id"]
    if did.startswith("did:key:"):
        return (
            Outcome("not-checked", "issuer-practice") if _is_practice(body) else Outcome("fail", "issuer-unknown")
        ), ()
    if known.party is None:
        return Outcome("fail", "issuer-stranger", {"domain": domain(did)}), ()
    name = {"issuer": known.party}
    if known.key is None:
        return Outcome("fail", "issuer-key-unlisted", name), ()
    if known.key.compromised:
        return Outcome("fail", "issuer-key-compromised", name), ()
    since = tokens.moment(body["validFrom"])
    if known.key.until and since and since > known.key.until:
        return Outcome("fail", "issuer-key-retired", {**name, "date": known.key.until.date()}), ()
    endorsers, failed = endorsement.check(body, trust)
    if failed:
        return failed, ()
    return Outcome("pass", "issuer-endorsed" if endorsers else "issuer-pass", name), endorsers


def _stranger(token: Token) -> Stranger | None:
    """None for a did:key, which has no domain."""
    did = token.body["issuer"]["id"]
    if not did.startswith("did:web:"):
        return None
    own = token.own_key
    return Stranger(
        did=did, domain=domain(did), address=document_address(did), fingerprint=fingerprint(own) if own else None
    )


def _is_practice(body: Mapping[str, Any]) -> bool:
    did: str = body["issuer"]["id"]
    return did.startswith("did:key:") and did == body["credentialSubject"].get("id")


def _dates(body: dict[str, Any]) -> Outcome:
    found = tokens.period(body)
    if found is None:
        return Outcome("fail", "dates-impossible")
    if not tokens.same_dates(body, found):
        return Outcome("fail", "dates-differ")
    if "awardedDate" in body:
        awarded = tokens.moment(body["awardedDate"])
        if awarded is None or awarded > found.since:
            return Outcome("fail", "dates-impossible")
    if found.early:
        return Outcome("fail", "dates-future", {"date": found.since.date()})
    if found.until is None:
        return Outcome("pass", "dates-pass", {"date": found.since.date()})
    return Outcome(
        "fail" if found.over else "pass", "dates-expired" if found.over else "dates-until", {"date": found.until.date()}
    )


def _revocation(body: Mapping[str, Any], party: Party | None, *, fetch: Fetch | None) -> Outcome:
    if party is not None:
        return revocation.check(body, party, fetch=fetch)
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


def _evidence(body: Mapping[str, Any], *, graded: bool) -> Outcome:
    """Whether results, marks and hashes agree with each other. ``graded``: a listed issuer's server graded the attempt;
    of any other nobody knows, so that it is never a pass.
    """
    named = {each["genre"]: each["narrative"] for each in body["evidence"]}
    if len(named) != len(body["evidence"]):
        return Outcome("fail", "evidence-malformed")
    found = _exam_evidence(body, named) if strict.is_exam(body) else _unit_evidence(body, named)
    if found is not None:
        return Outcome("fail", found)
    return Outcome("pass", "evidence-graded") if graded else Outcome("not-checked", "evidence-consistent")


def _exam_evidence(body: Mapping[str, Any], named: Mapping[str, str]) -> str | None:
    """Why an exam's results and evidence don't agree; None where they do."""
    attempts = re.fullmatch(r"([1-9][0-9]{0,3})(?:/([1-9][0-9]{0,3}))?", named.get("attempt-number", ""))
    if (
        set(named) - {"replaces"} != {"attempt", "bank", "seed", "supervised", "items", "attempt-number"}
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", named[each]) for each in ("attempt", "bank", "seed"))
        or named["supervised"] not in ("yes", "no")
        or named["items"] not in ("public", "private")
        or not attempts
        or (attempts[2] and int(attempts[1]) > int(attempts[2]))
        or not re.fullmatch(f"{UUID}|", named.get("replaces", ""))
        or named.get("replaces") == body["id"]
    ):
        return "evidence-malformed"
    results = _results(body)
    exam = body["credentialSubject"]["achievement"]["id"]
    if results is None or f"{exam}:quiz" not in results:
        return "evidence-malformed"
    objectives = [id for id in results if id.startswith(f"{exam}:objective:")]
    labs = [id for id in results if id.startswith(f"{exam}:lab:")]
    whole = {f"{exam}:quiz"} | ({f"{exam}:labs"} if labs else set())
    marked = {id for id, (_, required) in results.items() if required is not None}
    if not objectives or set(results) != {*objectives, *labs, *whole} or marked != whole:
        return "evidence-malformed"
    return _within(results)


UUID = "urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
Results = Mapping[str, tuple[str, str | None]]


def _results(body: Mapping[str, Any]) -> Results | None:
    """Each result with what it requires, by id; None where results and their descriptions don't belong together."""
    subject = body["credentialSubject"]
    descriptions = subject["achievement"]["resultDescription"]
    described = {each["id"]: each.get("requiredValue") for each in descriptions}
    values = {each["resultDescription"]: each["value"] for each in subject["result"]}
    if len(described) != len(descriptions) or len(values) != len(subject["result"]) or set(values) != set(described):
        return None
    return {id: (value, described[id]) for id, value in values.items()}


def _within(results: Results) -> str | None:
    """Percentages, none below what is required of it."""
    try:
        found = [(_percent(value), None if mark is None else _percent(mark)) for value, mark in results.values()]
    except ValueError:
        return "evidence-range"
    return "evidence-below" if any(mark is not None and value < mark for value, mark in found) else None


def _unit_evidence(body: Mapping[str, Any], named: Mapping[str, str]) -> str | None:
    """Why a unit's results and evidence don't agree; None where they do."""
    checks = re.fullmatch(r"([0-9]{1,3})/([1-9][0-9]{0,2})", named.get("checks", ""))
    if (
        set(named) != {"attempt", "bank", "seed", "checks", "supervised"}
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", named[each]) for each in ("attempt", "bank"))
        or not re.fullmatch(r"[0-9]{1,20}", named["seed"])
        or named["supervised"] not in ("yes", "no")
        or not checks
    ):
        return "evidence-malformed"
    results = _results(body)
    unit = body["credentialSubject"]["achievement"]["id"]
    if results is None:
        return "evidence-malformed"
    objectives = [id for id in results if id.startswith(f"{unit}:objective:")]
    marked = {f"{unit}:mastery", *objectives}
    if (
        set(results) != marked | {f"{unit}:quiz"}
        or {id for id, (_, required) in results.items() if required is not None} != marked
        or not objectives
        or int(checks[1]) > int(checks[2])
    ):
        return "evidence-malformed"
    mastery = f"{unit}:mastery"
    try:
        values = {id: _percent(value) for id, (value, _) in results.items()}
        required = {id: _percent(results[id][1] or "") for id in marked}
    except ValueError:
        return "evidence-range"
    mastered = sum(values[id] >= required[id] for id in objectives)
    if values[mastery] != floor_percent(Fraction(mastered, len(objectives))):
        return "evidence-disagrees"
    if values[mastery] < required[mastery] or int(checks[1]) < int(checks[2]):
        return "evidence-below"
    if named["supervised"] == "yes" and _is_practice(body):
        return "evidence-supervised"
    return None


def _percent(text: str) -> Decimal:
    """A percentage from 0 to 100 with at most one decimal. Raises ValueError."""
    if not re.fullmatch(r"(0|[1-9][0-9]{0,2})(\.[0-9])?", text) or Decimal(text) > 100:
        raise ValueError(text)
    return Decimal(text)


def floor_percent(share: Fraction) -> Decimal:
    """A share as a percentage with one decimal, rounded down so that it never claims more."""
    return Decimal(share.numerator * 1000 // share.denominator) / 10
