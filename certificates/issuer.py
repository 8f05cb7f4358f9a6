"""An issuer, and what it issues: certificates of exams, signed with its did:web key.

`issue` makes a certificate of a passed exam, `reissue` the same with another name (the old one is then to be revoked),
`renew` the same with a later end. Each says in itself which certificate it replaces. Nothing here stores or publishes
anything: the service keeps who has which place in the status lists, and serves them.
"""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from certificates import signing, strict
from certificates import status as status_lists
from certificates.credential import Certificate, clean, holder_name
from certificates.evidence import Result
from certificates.exam import ExamEvidence
from certificates.signing import Signer
from certificates.status import Place, moment
from certificates.summary import percentage
from certificates.trust import Party, PublicKey, Trust
from certificates.verification import floor_percent, hash_email
from translations import SOURCE, CourseError, Language, Translator, translator
from translations import language as find

UNIVERSAL = "urn:shardwise:exam"


@dataclass(frozen=True, kw_only=True)
class Signatory:
    """Who answers for the certificates, by language: a name, and an office."""

    names: Mapping[str, str]
    offices: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """``did``: ``did:web:university.example``. ``address``: where its service is reached, ``https://`` without a slash
    at the end; status lists and certificates (``/c/ID``) lie below it. ``names``: by language. ``keys``: every key it
    ever had, the one that signs now last. ``logo``: an SVG or PNG. ``endorsements``: what others signed about it.
    ``contact``: an e-mail address for questions.
    """

    did: str
    address: str
    names: Mapping[str, str]
    keys: tuple[PublicKey, ...]
    signatory: Signatory | None = None
    logo: bytes | None = field(default=None, repr=False)
    endorsements: tuple[str, ...] = ()
    contact: str | None = None

    def __hash__(self) -> int:
        return hash((self.did, self.address, self.keys, self.logo))

    @property
    def key(self) -> PublicKey:
        """The one that signs now."""
        return self.keys[-1]

    @property
    def party(self) -> Party:
        """Its row in a verifier's trust list."""
        return Party(did=self.did, names=self.names, keys=self.keys, status=(f"{self.address}/status/",))

    @property
    def trust(self) -> Trust:
        """The list that trusts this issuer alone: what its own verification page has."""
        return Trust(issuers={self.did: self.party})

    def name(self, language: Language | str) -> str:
        return self.party.name(language)

    def official(self, language: Language | str) -> str | None:
        """``Prof. A. Jansen, dean``"""
        if self.signatory is None:
            return None
        found = (_in(self.signatory.names, language), _in(self.signatory.offices, language))
        return ", ".join(each for each in found if each) or None

    def certificate_address(self, id: str) -> str:
        """Where anybody looks a certificate up, and where its QR code leads."""
        return f"{self.address}/c/{id.removeprefix('urn:uuid:')}"

    def did_document(self) -> dict[str, Any]:
        """What is published for the DID. A replaced key stays, since what it signed stays valid; a compromised one too,
        marked as revoked and no longer allowed to assert anything.
        """
        methods = []
        for each in self.keys:
            method = {"id": each.id, "type": "Multikey", "controller": self.did, "publicKeyMultibase": multibase(each)}
            if each.compromised:
                method["revoked"] = moment(each.until or datetime.now(UTC))
            methods.append(method)
        return {
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": self.did,
            "verificationMethod": methods,
            "assertionMethod": [each.id for each in self.keys if not each.compromised],
        }


def _in(words: Mapping[str, str], language: Language | str) -> str:
    code = find(language).code if isinstance(language, str) else language.code
    return words.get(code) or words.get(SOURCE) or next(iter(words.values()), "")


def multibase(key: PublicKey) -> str:
    """``z6Mk...``: base58btc of 0xed 0x01 and the key."""
    return multibase_of(b"\xed\x01" + key.public)


def multibase_of(data: bytes) -> str:
    """Base58btc, as multibase writes it; a zero at the beginning is a letter of its own."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, letters = int.from_bytes(data, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        letters = alphabet[rest] + letters
    return "z" + "1" * (len(data) - len(data.lstrip(b"\0"))) + letters


def issue(
    evidence: ExamEvidence,
    *,
    issuer: Issuer,
    signer: Signer,
    status: Place,
    language: Language | str,
    id: str | None = None,
    salt: str | None = None,
    at: datetime | None = None,
    replaces: str | None = None,
) -> Certificate:
    """The certificate of a passed exam, in this language's words; equal arguments give equal bytes.

    ``status``: its place in the issuer's status lists. ``id``: ``urn:uuid:...`` and ``salt``: 64 hexadecimal digits,
    drawn where None. ``at``: the moment of issue, now where None. ``replaces``: the id of the certificate that this one
    replaces. Raises CourseError where the evidence doesn't show a passed exam or a name can't stand on a certificate,
    and ValueError where the signer is not the issuer's present key.
    """
    _check_signer(issuer, signer)
    text = translator(language)
    body = credential(
        evidence,
        issuer=issuer,
        status=status,
        text=text,
        id=id or f"urn:uuid:{uuid.uuid4()}",
        salt=salt or secrets.token_hex(32),
        at=at or datetime.now(UTC),
        replaces=replaces,
    )
    return _signed(body, signer=signer, language=text.language.code)


def reissue(
    old: Mapping[str, Any],
    *,
    holder: str,
    holder_other: str | None = None,
    issuer: Issuer,
    signer: Signer,
    status: Place,
    language: Language | str,
    id: str | None = None,
    at: datetime | None = None,
) -> Certificate:
    """The same certificate under a corrected name, which refers to the old one. The caller revokes the old one.

    Results, award and end stay as they were; the new place in the status lists is the caller's. Raises CourseError
    where the name can't stand on a certificate, and ValueError where the old one is another issuer's.
    """
    body = _renewed(old, issuer=issuer, signer=signer, status=status, language=language, id=id, at=at)
    emails = [each for each in body["credentialSubject"]["identifier"] if each["identityType"] != "name"]
    body["credentialSubject"]["identifier"] = [*_names(holder, holder_other), *emails]
    return _signed(body, signer=signer, language=find(language).code if isinstance(language, str) else language.code)


def renew(
    old: Mapping[str, Any],
    *,
    expires_at: datetime | None,
    issuer: Issuer,
    signer: Signer,
    status: Place,
    language: Language | str,
    id: str | None = None,
    at: datetime | None = None,
) -> Certificate:
    """The same certificate with a later end, which refers to the old one; that one may run out by itself.

    Raises CourseError where the end is not in the future, and ValueError where the old one is another issuer's.
    """
    body = _renewed(old, issuer=issuer, signer=signer, status=status, language=language, id=id, at=at)
    body.pop("validUntil", None)
    body.pop("exp", None)
    if expires_at is not None:
        until = _second(expires_at)
        if until <= datetime.fromisoformat(body["validFrom"]):
            raise CourseError("certificates.ends-too-early")
        body |= {"validUntil": moment(until), "exp": int(until.timestamp())}
    return _signed(body, signer=signer, language=find(language).code if isinstance(language, str) else language.code)


def _renewed(
    old: Mapping[str, Any],
    *,
    issuer: Issuer,
    signer: Signer,
    status: Place,
    language: Language | str,
    id: str | None,
    at: datetime | None,
) -> dict[str, Any]:
    _check_signer(issuer, signer)
    if old["issuer"]["id"] != issuer.did:
        raise ValueError("the old certificate is another issuer's")
    since = _second(at or datetime.now(UTC))
    body = copy.deepcopy(dict(old))
    body["id"] = body["jti"] = id or f"urn:uuid:{uuid.uuid4()}"
    body["issuer"] = _profile(issuer, language)
    body |= {"validFrom": moment(since), "nbf": int(since.timestamp())}
    body["credentialStatus"] = status_lists.entry(issuer, status)
    kept = [each for each in body["evidence"] if each["genre"] != "replaces"]
    body["evidence"] = [*kept, _proof("replaces", old["id"])]
    return body


def _signed(body: dict[str, Any], *, signer: Signer, language: str) -> Certificate:
    strict.check_shape(body)
    return Certificate(id=body["id"], jwt=signing.jwt(body, signer=signer), credential=body, language=language)


def _check_signer(issuer: Issuer, signer: Signer) -> None:
    key = issuer.key
    if (
        (signer.did, signer.key_id, signer.public_key) != (issuer.did, key.id, key.public)
        or key.until
        or key.compromised
    ):
        raise ValueError("the signer is not the issuer's present key")


def credential(
    evidence: ExamEvidence,
    *,
    issuer: Issuer,
    status: Place,
    text: Translator,
    id: str,
    salt: str,
    at: datetime,
    replaces: str | None = None,
) -> dict[str, Any]:
    """The payload to sign. Raises CourseError as `issue` does."""
    since = _second(at)
    _check(evidence, since)
    exam = f"{UNIVERSAL}:{evidence.exam}"
    title = clean(evidence.title)
    results = [
        (f"{exam}:quiz", clean(text("certificates.result-quiz")), evidence.quiz_score, evidence.pass_mark),
        *((f"{exam}:objective:{each.id}", clean(each.title), each.share, None) for each in evidence.results),
    ]
    if evidence.labs_score is not None:
        results += [
            (f"{exam}:labs", clean(text("certificates.result-labs")), evidence.labs_score, evidence.labs_mark),
            *((f"{exam}:lab:{each.id}", clean(each.title), each.share, None) for each in evidence.labs),
        ]
    attempts = f"{evidence.attempt}/{evidence.attempts}" if evidence.attempts else str(evidence.attempt)
    proofs = {
        "attempt": evidence.attempt_hash,
        "bank": evidence.bank_hash,
        "seed": evidence.seed_hash,
        "supervised": "yes" if evidence.supervised else "no",
        "items": "public" if evidence.public_bank else "private",
        "attempt-number": attempts,
    } | ({"replaces": replaces} if replaces else {})
    named = _names(evidence.holder, evidence.holder_other)
    if evidence.email and evidence.email.strip():
        digest = hash_email(evidence.email, salt=salt)
        named.append(_identity(digest, "emailAddress", hashed=True) | {"salt": salt})
    body: dict[str, Any] = {
        "@context": strict.rules()["parts"]["contexts"]["const"],
        "id": id,
        "type": ["VerifiableCredential", "OpenBadgeCredential"],
        "name": title,
        "issuer": _profile(issuer, text.language),
        "awardedDate": moment(evidence.awarded_at),
        "validFrom": moment(since),
        "credentialSubject": {
            "type": ["AchievementSubject"],
            "achievement": {
                "id": exam,
                "type": ["Achievement"],
                "name": title,
                "description": clean(text("certificates.exam-description", exam=title)),
                "criteria": {"narrative": _criteria(evidence, text)},
                "achievementType": "Certificate",
                "inLanguage": evidence.language,
                "version": evidence.course_version,
                "resultDescription": [_description(id, name, required) for id, name, _, required in results],
            },
            "identifier": named,
            "result": [
                {"type": ["Result"], "value": str(_percent(share)), "resultDescription": id}
                for id, _, share, _ in results
            ],
        },
        "credentialSchema": strict.rules()["parts"]["schema"]["const"],
        "evidence": [_proof(genre, narrative) for genre, narrative in proofs.items()],
        "credentialStatus": status_lists.entry(issuer, status),
        "iss": issuer.did,
        "jti": id,
        "nbf": int(since.timestamp()),
    }
    if evidence.expires_at is not None:
        until = _second(evidence.expires_at)
        body |= {"validUntil": moment(until), "exp": int(until.timestamp())}
    return body


def _criteria(evidence: ExamEvidence, text: Translator) -> str:
    """What had to be shown and under which conditions, in sentences."""
    marks = {"percent": percentage(_percent(evidence.pass_mark), text.language)}
    said = [text("certificates.exam-criteria-quiz", **marks)]
    if evidence.labs_mark is not None:
        said.append(
            text("certificates.exam-criteria-labs", percent=percentage(_percent(evidence.labs_mark), text.language))
        )
    said.append(text(f"certificates.exam-{'supervised' if evidence.supervised else 'unsupervised'}"))
    said.append(text(f"certificates.exam-items-{'public' if evidence.public_bank else 'private'}"))
    return clean(" ".join(said))


def _profile(issuer: Issuer, language: Language | str) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "id": issuer.did,
        "type": ["Profile"],
        "name": clean(issuer.name(language)),
        "url": issuer.address,
    }
    if official := issuer.official(language):
        profile["official"] = clean(official)
    if issuer.endorsements:
        profile["endorsementJwt"] = list(issuer.endorsements)
    return profile


def _names(holder: str, other: str | None) -> list[dict[str, Any]]:
    names = [holder_name(each) for each in (holder, other) if each is not None]
    return [_identity(each, "name", hashed=False) for each in dict.fromkeys(names)]


def _identity(value: str, kind: str, *, hashed: bool) -> dict[str, Any]:
    return {"type": "IdentityObject", "hashed": hashed, "identityHash": value, "identityType": kind}


def _proof(genre: str, narrative: str) -> dict[str, Any]:
    return {"type": ["Evidence"], "genre": genre, "narrative": narrative}


def _description(id: str, name: str, required: float | None) -> dict[str, Any]:
    described = {
        "id": id,
        "type": ["ResultDescription"],
        "name": name,
        "resultType": "Percent",
        "valueMin": "0",
        "valueMax": "100",
    }
    return described if required is None else described | {"requiredValue": str(_percent(required))}


def _check(evidence: ExamEvidence, since: datetime) -> None:
    """A passed exam and whole evidence, or a CourseError: no certificate without both."""
    practical = [each for each in (evidence.labs_score, evidence.labs_mark) if each is not None]
    shares = [
        evidence.quiz_score,
        evidence.pass_mark,
        *practical,
        *(each.share for each in (*evidence.results, *evidence.labs)),
    ]
    moments = [each for each in (evidence.awarded_at, evidence.expires_at) if each is not None]
    if (
        not all(0 <= each <= 1 for each in shares)
        or not re.fullmatch(r"[a-z0-9-]{1,60}", evidence.exam)
        or not evidence.results
        or not all(_distinct(each) for each in (evidence.results, evidence.labs))
        or len(practical) == 1
        or bool(evidence.labs) != bool(practical)
        or not all(
            re.fullmatch(r"sha256:[0-9a-f]{64}", each)
            for each in (evidence.attempt_hash, evidence.bank_hash, evidence.seed_hash)
        )
        or any(each.tzinfo is None for each in moments)
        or not datetime(2000, 1, 1, tzinfo=UTC) <= _second(evidence.awarded_at) <= since <= datetime.now(UTC)
        or not 1 <= evidence.attempt <= (evidence.attempts or 9999)
    ):
        raise CourseError("certificates.exam-incomplete")
    if evidence.expires_at is not None and _second(evidence.expires_at) <= since:
        raise CourseError("certificates.ends-too-early")
    for score, mark in ((evidence.quiz_score, evidence.pass_mark), (evidence.labs_score, evidence.labs_mark)):
        if score is not None and mark is not None and _percent(score) < _percent(mark):
            raise CourseError("certificates.exam-failed", score=_percent(score), mark=_percent(mark))


def _distinct(results: tuple[Result, ...]) -> bool:
    return len({each.id for each in results}) == len(results)


def _second(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(microsecond=0)


def _percent(share: float) -> Decimal:
    """As a practice certificate writes it: rounded down, so that it never claims more."""
    return floor_percent(Fraction(share).limit_denominator(10**6))
