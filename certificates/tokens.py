"""Signed tokens, taken apart strictly: certificates, status lists and endorsements, all of them here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from certificates import strict
from certificates.strict import Refused, decode_base64url
from certificates.trust import Party, PublicKey


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token whose parts are well formed; nothing is said about its signature."""

    text: str
    header: dict[str, Any]
    body: dict[str, Any]
    signature: bytes

    def signed_by(self, key: Ed25519PublicKey) -> bool:
        try:
            key.verify(self.signature, self.text.rpartition(".")[0].encode("ascii"))
        except InvalidSignature:
            return False
        return True

    @property
    def own_key(self) -> bytes | None:
        """The key that it carries: to be compared or shown, never to be trusted."""
        return decode_base64url(self.header["jwk"]["x"]) if "jwk" in self.header else None

    def key_of(self, party: Party) -> PublicKey | None:
        """Which of a party's pinned keys it says to be signed with: by name, or without one by the key itself."""
        if "kid" in self.header:
            return party.key(self.header["kid"])
        return next((each for each in party.keys if each.public == self.own_key), None)

    def contradicts(self, key: PublicKey) -> bool:
        """Whether it carries another key than the one that it names."""
        return self.own_key is not None and self.own_key != key.public


def parse(text: str) -> Token:
    """Raises Refused for anything but strict base64url, an EdDSA header, a JSON object and 64 bytes of signature."""
    header, body, signature = (decode_base64url(part) for part in text.split("."))
    head = strict.parse_json(header)
    strict.check_header(head)
    credential = strict.parse_json(body)
    if len(signature) != 64:
        raise Refused("format-token")
    if "jwk" in head:
        decode_base64url(head["jwk"]["x"])
    return Token(text=text, header=head, body=credential, signature=signature)


@dataclass(frozen=True, kw_only=True)
class Period:
    """The dates of a credential, and how now lies to them. ``until``: None for no end."""

    since: datetime
    until: datetime | None
    early: bool
    over: bool


def period(body: dict[str, Any], *, now: datetime | None = None) -> Period | None:
    """None where the dates are impossible. A minute's leeway either way, for clocks that differ."""
    leeway = timedelta(seconds=strict.rules()["leeway_seconds"])
    now = now or datetime.now(UTC)
    since = moment(body["validFrom"])
    until = moment(body["validUntil"]) if "validUntil" in body else None
    if since is None or ("validUntil" in body and until is None) or (until is not None and until <= since):
        return None
    return Period(
        since=since,
        until=until,
        early=since > now + leeway,
        over=until is not None and until < now - leeway,
    )


def same_dates(body: dict[str, Any], found: Period) -> bool:
    """Whether the token's own claims say the same as the credential in it."""
    until = found.until.timestamp() if found.until else None
    return bool(body["nbf"] == found.since.timestamp() and body.get("exp") == until)


def moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
