"""Reading a status list: whether a certificate of a listed issuer is revoked or suspended, by that issuer's own word.

A list counts only when it lies where the verifier's list of trusted issuers allows, says of itself that it lies there,
is signed with a pinned key of the same issuer, and is not out of date: an old copy can't bring anything back.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from certificates import strict, tokens
from certificates.network import Fetch, Unreachable
from certificates.outcome import Outcome
from certificates.strict import Refused, decode_base64url
from certificates.trust import Party

NEW_KEY = "revocation-list-key"
"""The issuer signs its lists with a key that the verifier's list doesn't have: it has a new one, or it isn't the
issuer. Either way nobody knows the status, and no more is said."""


def check(body: Mapping[str, Any], party: Party, *, fetch: Fetch | None) -> Outcome:
    """The revocation step of a credential of this issuer. ``fetch``: None while offline."""
    entry = body.get("credentialStatus")
    if entry is None:
        return Outcome("fail", "revocation-missing")
    address, index, purpose = entry["statusListCredential"], int(entry["statusListIndex"]), entry["statusPurpose"]
    if not _allowed(address, party):
        return Outcome("fail", "revocation-elsewhere")
    if entry["id"] != f"{address}#{index}" or index >= strict.rules()["list_bits"]:
        return Outcome("fail", "revocation-malformed")
    if fetch is None:
        return Outcome("not-checked", "revocation-offline")
    try:
        bits, since = read(fetch(address), address=address, purpose=purpose, party=party)
    except Unreachable:
        return Outcome("not-checked", "revocation-unreachable")
    except Refused as refused:
        return Outcome("not-checked" if refused.reason == NEW_KEY else "fail", refused.reason, refused.values)
    if not _is_set(bits, index):
        return Outcome("pass", "revocation-pass", {"date": since.date()})
    return Outcome("fail", _which(address, index, purpose, party, fetch))


def read(data: bytes, *, address: str, purpose: str, party: Party) -> tuple[bytes, datetime]:
    """The bits of a list and when it was signed. Raises Refused for one that doesn't count."""
    if len(data) > strict.rules()["list_bytes"]:
        raise Refused("revocation-large")
    text = data.strip(b" \t\r\n")
    if not re.fullmatch(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", text):
        raise Refused("revocation-list")
    try:
        token = tokens.parse(text.decode("ascii"))
        strict.check(token.body, "list", reason="revocation-list")
    except Refused as refused:
        raise Refused("revocation-list") from refused
    body, subject = token.body, token.body["credentialSubject"]
    if (
        body["id"] != address
        or body["jti"] != address
        or body["issuer"] != party.did
        or body["iss"] != party.did
        or subject["id"] != f"{address}#list"
        or body["sub"] != subject["id"]
    ):
        raise Refused("revocation-list-other")
    key, dates = token.key_of(party), tokens.period(body)
    if key is None and token.header.get("kid", "").startswith(f"{party.did}#"):
        raise Refused(NEW_KEY)
    if key is None or key.compromised or token.contradicts(key) or not token.signed_by(key.key):
        raise Refused("revocation-list-signature")
    if dates is None or not tokens.same_dates(body, dates) or (key.until and dates.since > key.until):
        raise Refused("revocation-list")
    if dates.early or dates.over:
        raise Refused("revocation-list-stale", date=(dates.until or dates.since).date())
    if subject["statusPurpose"] != purpose:
        raise Refused("revocation-list-purpose")
    return _bits(subject["encodedList"]), dates.since


def _allowed(address: str, party: Party) -> bool:
    """Under one of the addresses of the verifier's list, and written in one way only."""
    for each in party.status:
        rest = address.removeprefix(each)
        if rest != address and re.fullmatch(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*", rest):
            return True
    return False


def _which(address: str, index: int, purpose: str, party: Party, fetch: Fetch) -> str:
    """Whether a set bit means revoked or suspended, by the list beside it; either way nobody may rely on it now."""
    if purpose == "revocation":
        return "revocation-revoked"
    beside = address.replace("/suspension/", "/revocation/")
    try:
        bits, _ = read(fetch(beside), address=beside, purpose="revocation", party=party)
    except (Unreachable, Refused):
        return "revocation-set"
    return "revocation-revoked" if _is_set(bits, index) else "revocation-suspended"


def _bits(encoded: str) -> bytes:
    size = strict.rules()["list_bits"] // 8
    inflater = zlib.decompressobj(wbits=31)
    try:
        bits = inflater.decompress(decode_base64url(encoded[1:]), size + 1)
    except (zlib.error, Refused) as error:
        raise Refused("revocation-list") from error
    if len(bits) != size or not inflater.eof or inflater.unused_data:
        raise Refused("revocation-list")
    return bits


def _is_set(bits: bytes, index: int) -> bool:
    return bool(bits[index // 8] & 0x80 >> index % 8)
