"""Endorsements: what a third party has signed about an issuer, or about one certificate (Open Badges' endorsementJwt).

One counts when its endorser is on the verifier's own list of endorsers, its signature is by a pinned key of theirs,
its dates hold, and its subject is the very issuer or certificate that it stands in. One that stands where it doesn't
belong, or whose signature doesn't fit, fails the certificate: somebody borrowed it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from certificates import signing, strict, tokens
from certificates.outcome import Outcome
from certificates.signing import Signer
from certificates.status import moment
from certificates.strict import Refused
from certificates.trust import Party, Trust


def endorse(
    subject: str,
    *,
    signer: Signer,
    name: str,
    title: str,
    comment: str | None = None,
    expires_at: datetime | None = None,
    at: datetime | None = None,
    id: str | None = None,
) -> str:
    """An EndorsementCredential of ``subject`` (an issuer's did:web, or a certificate's ``urn:uuid:``), as a JWT.

    ``name``: the endorser's own; ``title``: what this is, in words.
    """
    since = (at or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    about: dict[str, Any] = {"id": subject, "type": ["EndorsementSubject"]}
    body: dict[str, Any] = {
        "@context": strict.rules()["parts"]["contexts"]["const"],
        "id": id or f"urn:uuid:{uuid.uuid4()}",
        "type": ["VerifiableCredential", "EndorsementCredential"],
        "name": title,
        "issuer": {"id": signer.did, "type": ["Profile"], "name": name},
        "validFrom": moment(since),
        "credentialSubject": about | ({"endorsementComment": comment} if comment else {}),
        "iss": signer.did,
        "sub": subject,
        "nbf": int(since.timestamp()),
    }
    body["jti"] = body["id"]
    if expires_at is not None:
        until = expires_at.astimezone(UTC).replace(microsecond=0)
        body |= {"validUntil": moment(until), "exp": int(until.timestamp())}
    strict.check(body, "endorsement", reason="issuer-endorsement-malformed")
    return signing.jwt(body, signer=signer)


def check(body: Mapping[str, Any], trust: Trust) -> tuple[tuple[Party, ...], Outcome | None]:
    """Who of the verifier's list has endorsed this credential or its issuer; an outcome where the issuer step fails."""
    issuer = body["issuer"]
    found: dict[str, Party] = {}
    placed = [(each, issuer["id"]) for each in issuer.get("endorsementJwt", ())]
    placed += [(each, body["id"]) for each in body.get("endorsementJwt", ())]
    try:
        for text, subject in placed:
            party = _endorser(text, subject, issuer=issuer["id"], trust=trust)
            if party is not None:
                found[party.did] = party
    except Refused as refused:
        return (), Outcome("fail", refused.reason)
    return tuple(found.values()), None


def _endorser(text: str, subject: str, *, issuer: str, trust: Trust) -> Party | None:
    """The listed party that endorses this subject; None where it doesn't count. Raises Refused where it is borrowed."""
    try:
        token = tokens.parse(text)
        strict.check(token.body, "endorsement", reason="issuer-endorsement-malformed")
    except Refused as refused:
        raise Refused("issuer-endorsement-malformed") from refused
    body = token.body
    dates = tokens.period(body)
    if (
        body["iss"] != body["issuer"]["id"]
        or body["jti"] != body["id"]
        or body["sub"] != body["credentialSubject"]["id"]
        or dates is None
        or not tokens.same_dates(body, dates)
    ):
        raise Refused("issuer-endorsement-malformed")
    if body["sub"] != subject:
        raise Refused("issuer-endorsement-other")
    if body["iss"] == issuer:
        raise Refused("issuer-endorsement-self")
    party = trust.endorsers.get(body["iss"])
    key = token.key_of(party) if party else None
    if party is None or key is None:
        return None
    if token.contradicts(key) or not token.signed_by(key.key):
        raise Refused("issuer-endorsement-signature")
    if key.compromised or dates.early or dates.over or (key.until and dates.since > key.until):
        return None
    return party
