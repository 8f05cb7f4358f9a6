"""An issuer's keys as its own domain publishes them: to be looked at by a person, compared, and only then pinned."""

from __future__ import annotations

from typing import Any

from certificates import strict
from certificates.network import Fetch, Unreachable
from certificates.strict import Refused
from certificates.tokens import moment
from certificates.trust import Party, PublicKey, document_address, domain
from translations import CourseError

_LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def discover(did: str, *, fetch: Fetch) -> Party:
    """The issuer behind a did:web, by its DID document: one request over TLS, no redirect. The name is the domain,
    until whoever keeps the list gives it a better one. Raises CourseError where there is no such document.
    """
    where = document_address(did)
    try:
        keys = read(strict.parse_json(fetch(where)), did=did)
    except (Unreachable, Refused) as error:
        raise CourseError("certificates.did-unreadable", address=where) from error
    return Party(did=did, names={"en": domain(did)}, keys=keys, status=(f"https://{domain(did)}/status/",))


def read(document: dict[str, Any], *, did: str) -> tuple[PublicKey, ...]:
    """The Ed25519 keys of a DID document; one that is marked as revoked, or that may not assert anything, is taken for
    compromised. Raises Refused.
    """
    methods, asserting = document.get("verificationMethod"), document.get("assertionMethod")
    if document.get("id") != did or not isinstance(methods, list) or not isinstance(asserting, list):
        raise Refused("did-unreadable")
    found = []
    for each in methods:
        if not isinstance(each, dict) or each.get("controller") != did or not isinstance(each.get("id"), str):
            raise Refused("did-unreadable")
        public = decode_multibase(each.get("publicKeyMultibase"))
        revoked = each.get("revoked")
        until = moment(revoked) if isinstance(revoked, str) else None
        compromised = revoked is not None or each["id"] not in asserting
        found.append(PublicKey(id=each["id"], public=public, until=until, compromised=compromised))
    ids = {each.id for each in found}
    if not 0 < len(ids) == len(found) <= 64 or any(each.partition("#")[0] != did for each in ids):
        raise Refused("did-unreadable")
    return tuple(found)


def decode_multibase(text: object) -> bytes:
    """The 32 bytes of ``z6Mk...``. Raises Refused for any other kind of key, and for a second spelling of the same."""
    if not isinstance(text, str) or not text.startswith("z6Mk") or len(text) > 60:
        raise Refused("did-unreadable")
    number = 0
    for letter in text[1:]:
        if letter not in _LETTERS:
            raise Refused("did-unreadable")
        number = number * 58 + _LETTERS.index(letter)
    if number.bit_length() > 34 * 8:
        raise Refused("did-unreadable")
    data = number.to_bytes(34, "big")
    if not data.startswith(b"\xed\x01"):
        raise Refused("did-unreadable")
    return data[2:]
