"""Whether a certificate still holds: W3C Bitstring Status Lists, signed by the issuer, published at fixed addresses.

An Open Badges credential has room for one status entry, so an issuer keeps two lists that share indices. The
credential points at the list of purpose ``suspension``, whose bit says "don't accept this now" and may be cleared; it
is set for whatever is suspended or revoked, so that any verifier refuses both. The list of purpose ``revocation``
at the address beside it has a bit for what is revoked, for ever; our verifiers read it to say which of the two it is.

One list a format: JWT for VC-JWT credentials, Data Integrity for their JSON-LD copies (`certificates.integrity`).
"""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from certificates import signing
from certificates.signing import Signer
from certificates.strict import encode_base64url

if TYPE_CHECKING:
    from certificates.issuer import Issuer

Purpose = Literal["suspension", "revocation"]
PURPOSES: tuple[Purpose, Purpose] = ("suspension", "revocation")
SIZE = 131_072
"""Bits of one list: the least that the standard allows, so that a list does not tell how many certificates exist."""

VALID_FOR = timedelta(days=1)
"""How long a signed list may be believed: after that an old copy can't bring a revoked certificate back."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a certificate's bit stands: the issuer's list of this number, and the index in it. Never used twice."""

    number: int
    index: int


def free_place(taken: Collection[int], *, number: int = 1) -> Place | None:
    """A place in list ``number`` that no certificate has, drawn at random so that indices tell nothing about when or
    to whom; None where the list is full (three quarters, so that drawing stays quick): then begin the next one.
    """
    if len(taken) >= SIZE * 3 // 4:
        return None
    while (index := secrets.randbelow(SIZE)) in taken:
        pass
    return Place(number=number, index=index)


def address(issuer: Issuer, purpose: Purpose, number: int, *, suffix: Literal["jwt", "json"] = "jwt") -> str:
    """``https://university.example/status/suspension/1.jwt``: the list's id, and where it is published."""
    return f"{issuer.address}/status/{purpose}/{number}.{suffix}"


def entry(issuer: Issuer, place: Place, *, suffix: Literal["jwt", "json"] = "jwt") -> dict[str, str]:
    """The ``credentialStatus`` of a certificate at this place."""
    where = address(issuer, "suspension", place.number, suffix=suffix)
    return {
        "id": f"{where}#{place.index}",
        "type": "BitstringStatusListEntry",
        "statusPurpose": "suspension",
        "statusListIndex": str(place.index),
        "statusListCredential": where,
    }


def signed_list(
    *,
    issuer: Issuer,
    signer: Signer,
    purpose: Purpose,
    number: int,
    indices: Iterable[int],
    at: datetime | None = None,
    valid_for: timedelta = VALID_FOR,
) -> str:
    """The list as a JWT. ``indices``: what is set; for ``suspension`` those suspended *and* those revoked, for
    ``revocation`` those revoked. Raises ValueError for an index outside of the list.
    """
    body = credential(
        issuer=issuer, purpose=purpose, number=number, indices=indices, at=at, valid_for=valid_for, suffix="jwt"
    )
    since, until = (datetime.fromisoformat(body[each]) for each in ("validFrom", "validUntil"))
    claims = {
        "iss": body["issuer"],
        "jti": body["id"],
        "sub": body["credentialSubject"]["id"],
        "nbf": int(since.timestamp()),
        "exp": int(until.timestamp()),
    }
    return signing.jwt(body | claims, signer=signer)


def credential(
    *,
    issuer: Issuer,
    purpose: Purpose,
    number: int,
    indices: Iterable[int],
    at: datetime | None = None,
    valid_for: timedelta = VALID_FOR,
    suffix: Literal["jwt", "json"],
) -> dict[str, Any]:
    """The unsigned list."""
    since = (at or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    where = address(issuer, purpose, number, suffix=suffix)
    return {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "id": where,
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": issuer.did,
        "validFrom": moment(since),
        "validUntil": moment(since + valid_for),
        "credentialSubject": {
            "id": f"{where}#list",
            "type": "BitstringStatusList",
            "statusPurpose": purpose,
            "encodedList": encode(indices),
        },
    }


def encode(indices: Iterable[int]) -> str:
    """Multibase base64url of the gzipped bits, the first bit in the highest place; equal indices give equal text."""
    bits = bytearray(SIZE // 8)
    for index in indices:
        if not 0 <= index < SIZE:
            raise ValueError(f"index {index} is outside of a list of {SIZE}")
        bits[index // 8] |= 0x80 >> index % 8
    return "u" + encode_base64url(gzip.compress(bytes(bits), mtime=0))


def moment(at: datetime) -> str:
    """As credentials write it: ``2026-11-29T12:00:05Z``."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
