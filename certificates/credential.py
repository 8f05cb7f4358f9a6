"""Making a certificate: evidence becomes an Open Badges 3.0 credential, signed as a JWT.

A practice certificate is issued by the learner's own did:key to itself. Everything that it claims stands in the
credential's own words: one Result an objective, the marks as ``requiredValue``, and what was graded as ``evidence``
(hashes of the attempt and of the bank, the seed, the checks, supervised or not).
"""

from __future__ import annotations

import re
import secrets
import unicodedata
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from openbadgeslib import ob3

from certificates import strict
from certificates.evidence import Evidence
from certificates.keys import Key
from certificates.summary import percentage
from certificates.verification import floor_percent, hash_email
from translations import CourseError, Language, Translator, translator

_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """``id``: ``urn:uuid:...``. ``jwt``: the signed ``credential``. ``language``: the one of its words."""

    id: str
    jwt: str
    credential: Mapping[str, Any]
    language: str


def issue(evidence: Evidence, *, key: Key, language: Language | str) -> Certificate:
    """A practice certificate for a mastered unit, in this language's words.

    Raises CourseError where the evidence doesn't show mastery, or where the name cannot stand on a certificate.
    """
    text = translator(language)
    payload = credential(evidence, did=key.did, text=text, id=f"urn:uuid:{uuid.uuid4()}", salt=secrets.token_hex(32))
    return sign(payload, key=key, language=text.language.code)


def sign(payload: Mapping[str, Any], *, key: Key, language: str) -> Certificate:
    """The credential under this key, whatever it says."""
    jwt = ob3.OB3Signer(key.pem(), algorithm="EdDSA").sign_payload(dict(payload))
    return Certificate(id=payload["id"], jwt=jwt, credential=payload, language=language)


def credential(evidence: Evidence, *, did: str, text: Translator, id: str, salt: str) -> dict[str, Any]:
    """The payload to sign; equal arguments give equal bytes. Raises CourseError as ``issue`` does."""
    _check(evidence)
    unit = f"urn:shardwise:unit:{evidence.unit}"
    title = clean(evidence.title)
    objectives = [(f"{unit}:objective:{each.id}", clean(each.title), _percent(each.share)) for each in evidence.results]
    pass_percent = percentage(_percent(evidence.pass_mark), text.language)
    conditions = "supervised" if evidence.supervised else "unsupervised"
    descriptions = [
        _description(f"{unit}:mastery", clean(text("certificates.result-mastery")), _percent(evidence.pass_mark)),
        _description(f"{unit}:quiz", clean(text("certificates.result-quiz")), None),
        *(_description(id, name, _percent(evidence.objective_mark)) for id, name, _ in objectives),
    ]
    results = [
        (f"{unit}:mastery", floor_percent(Fraction(_mastered(evidence), len(objectives)))),
        (f"{unit}:quiz", _percent(evidence.quiz_score)),
        *((id, percent) for id, _, percent in objectives),
    ]
    badge = ob3.OpenBadgeCredential(
        id=id,
        name=title,
        issuer=ob3.Issuer(id=did, name=clean(text("certificates.practice-issuer"))),
        recipient_id=did,
        issuance_date=evidence.issued_at.astimezone(UTC).replace(microsecond=0),
        achievement=ob3.Achievement(
            id=unit,
            name=title,
            description=clean(text("certificates.description", unit=title)),
            criteria_narrative=clean(text(f"certificates.criteria-{conditions}", percent=pass_percent)),
            achievement_type="Badge",
            result_descriptions=descriptions,
        ),
        identifiers=_identifiers(evidence, salt),
        results=[ob3.Result(value=str(percent), result_description=id) for id, percent in results],
        evidence=[
            ob3.Evidence(genre="attempt", narrative=evidence.attempt_hash),
            ob3.Evidence(genre="bank", narrative=evidence.bank_hash),
            ob3.Evidence(genre="seed", narrative=str(evidence.seed)),
            ob3.Evidence(genre="checks", narrative=f"{evidence.checks_passed}/{evidence.checks}"),
            ob3.Evidence(genre="supervised", narrative="yes" if evidence.supervised else "no"),
        ],
    )
    payload = badge.to_jwt_payload()
    payload["credentialSubject"]["achievement"] |= {"inLanguage": evidence.language, "version": evidence.course_version}
    strict.check_shape(payload)
    return payload


def clean(text: str) -> str:
    """NFC in one line, without the marks that only steer direction on a screen."""
    return unicodedata.normalize("NFC", " ".join(_DIRECTION_MARKS.sub("", text).split()))


def holder_name(name: str) -> str:
    """The name as it will stand on the certificate. Raises CourseError where it cannot."""
    shown = unicodedata.normalize("NFC", " ".join(name.split()))
    if not shown:
        raise CourseError("certificates.name-missing")
    if len(shown) > 200:
        raise CourseError("certificates.name-long", limit=200)
    if not strict.is_safe_text(shown) or not any(unicodedata.category(each).startswith("L") for each in shown):
        raise CourseError("certificates.name-unsafe")
    return shown


def _check(evidence: Evidence) -> None:
    """Mastery and whole evidence, or a CourseError: no certificate without both."""
    shares = [
        evidence.quiz_score,
        evidence.pass_mark,
        evidence.objective_mark,
        *(each.share for each in evidence.results),
    ]
    hashes = (evidence.attempt_hash, evidence.bank_hash)
    if (
        not all(0 <= each <= 1 for each in shares)
        or not evidence.results
        or len({each.id for each in evidence.results}) != len(evidence.results)
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)
        or not 0 <= evidence.seed < 10**20
        or evidence.issued_at.tzinfo is None
        or evidence.issued_at > datetime.now(UTC)
        or evidence.issued_at.year < 2000
    ):
        raise CourseError("certificates.evidence-incomplete")
    if evidence.supervised:
        raise CourseError("certificates.practice-supervised")
    mastered = _mastered(evidence)
    if floor_percent(Fraction(mastered, len(evidence.results))) < _percent(evidence.pass_mark):
        raise CourseError("certificates.not-mastered", mastered=mastered, objectives=len(evidence.results))
    if not 0 < evidence.checks == evidence.checks_passed:
        raise CourseError("certificates.checks-open", passed=evidence.checks_passed, checks=evidence.checks)


def _mastered(evidence: Evidence) -> int:
    return sum(_percent(each.share) >= _percent(evidence.objective_mark) for each in evidence.results)


def _percent(share: float) -> Decimal:
    """The percentage that a float stands for, as it is written and compared: 0.29 is 29, and 2/3 is 66.6."""
    return floor_percent(Fraction(share).limit_denominator(10**6))


def _description(id: str, name: str, required: Decimal | None) -> ob3.ResultDescription:
    return ob3.ResultDescription(
        id=id,
        name=name,
        result_type="Percent",
        required_value=None if required is None else str(required),
        value_min="0",
        value_max="100",
    )


def _identifiers(evidence: Evidence, salt: str) -> list[ob3.IdentityObject]:
    named = [ob3.IdentityObject(identity_hash=holder_name(evidence.holder), identity_type="name", hashed=False)]
    if evidence.email and evidence.email.strip():
        digest = hash_email(evidence.email, salt=salt)
        named.append(ob3.IdentityObject(identity_hash=digest, identity_type="emailAddress", hashed=True, salt=salt))
    return named
