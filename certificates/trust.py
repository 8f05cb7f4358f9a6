"""Whom a verifier trusts: a file of issuers and endorsers, each with its keys, kept by the verifier and by nobody else.

The name that a verdict shows comes from this file, never from a certificate. A key is pinned: what is not in the file
signs nothing, so that neither a stolen domain nor a forged DID document can make a certificate valid.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from certificates import strict
from certificates.strict import Refused, decode_base64url, encode_base64url
from translations import SOURCE, CourseError, Language
from translations import language as find


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """An Ed25519 key of somebody. ``id``: ``did:web:university.example#key-1``; ``public``: its 32 bytes.

    ``until``: it was replaced then, and signs nothing that is dated later; what it signed before stays valid.
    ``compromised``: somebody else may have it, so that nothing it ever signed counts, whatever the date says.
    """

    id: str
    public: bytes
    until: datetime | None = None
    compromised: bool = False

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    @property
    def key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.public)


def fingerprint(public: bytes) -> str:
    """The first half of the SHA-256 of the 32 bytes, in groups to read out: ``1f3a 90bc ...`` (eight groups)."""
    digits = hashlib.sha256(public).hexdigest()[:32]
    return " ".join(digits[at : at + 4] for at in range(0, 32, 4))


@dataclass(frozen=True, kw_only=True)
class Party:
    """An issuer or an endorser. ``names``: by language. ``status``: the addresses under which its lists may lie, each
    ``https://`` and ending in ``/``.
    """

    did: str
    names: Mapping[str, str]
    keys: tuple[PublicKey, ...]
    status: tuple[str, ...] = ()

    def name(self, language: Language | str) -> str:
        """In the reader's language, else in English, else in whichever there is."""
        code = find(language).code if isinstance(language, str) else language.code
        return self.names.get(code) or self.names.get(SOURCE) or next(iter(self.names.values()))

    def key(self, id: str) -> PublicKey | None:
        return next((each for each in self.keys if each.id == id), None)

    def as_json(self) -> dict[str, Any]:
        """Its row in a trust list."""
        row: dict[str, Any] = {"did": self.did, "names": dict(self.names), "keys": [_row(each) for each in self.keys]}
        return row | ({"status": list(self.status)} if self.status else {})


@dataclass(frozen=True, kw_only=True)
class Trust:
    """A verifier's list; an empty one trusts nobody."""

    issuers: Mapping[str, Party] = field(default_factory=dict)
    endorsers: Mapping[str, Party] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        lists = {"issuers": self.issuers, "endorsers": self.endorsers}
        return {"version": 1} | {kind: [each.as_json() for each in found.values()] for kind, found in lists.items()}


def domain(did: str) -> str:
    """The host of a did:web, with its port: what an unknown issuer is known by. What would read as more than a host
    once it is decoded, such as ``university.example%2F.evil.example``, stays as it is written.
    """
    written = did.split(":")[2]
    host = unquote(written)
    return host if re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]+)?", host) else written


def document_address(did: str) -> str:
    """Where a did:web publishes its keys: ``https://university.example/.well-known/did.json``."""
    path = did.split(":")[3:]
    return f"https://{domain(did)}/{'/'.join(path) if path else '.well-known'}/did.json"


def read(path: Path) -> Trust:
    """The list in a file. Raises CourseError where it can't be read or is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error
    try:
        return parse(data)
    except Refused as refused:
        where = refused.values.get("where", "/")
        raise CourseError("certificates.trust-unreadable", file=path.name, where=where) from refused


def parse(data: bytes) -> Trust:
    """Raises Refused."""
    if len(data) > strict.rules()["trust_bytes"]:
        raise Refused("trust-unreadable")
    value = strict.parse_json(data)
    strict.check(value, "trust", reason="trust-unreadable")
    found = {}
    for kind in ("issuers", "endorsers"):
        rows = value.get(kind, [])
        found[kind] = {each["did"]: _party(each, f"{kind}.{at}") for at, each in enumerate(rows)}
        if len(found[kind]) != len(rows):
            raise Refused("trust-unreadable", where=kind)
    return Trust(issuers=found["issuers"], endorsers=found["endorsers"])


def _party(row: Mapping[str, Any], where: str) -> Party:
    keys = tuple(_key(each, where) for each in row["keys"])
    ids = {each.id for each in keys}
    if len(ids) != len(keys) or any(each.partition("#")[0] != row["did"] for each in ids):
        raise Refused("trust-unreadable", where=f"{where}.keys")
    return Party(did=row["did"], names=row["names"], keys=keys, status=tuple(row.get("status", ())))


def _key(row: Mapping[str, Any], where: str) -> PublicKey:
    public = decode_base64url(row["x"])
    try:
        until = datetime.strptime(row["until"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) if "until" in row else None
        Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise Refused("trust-unreadable", where=f"{where}.keys") from error
    return PublicKey(id=row["id"], public=public, until=until, compromised=row.get("compromised", False))


def _row(key: PublicKey) -> dict[str, Any]:
    row: dict[str, Any] = {"id": key.id, "x": encode_base64url(key.public)}
    if key.until:
        row["until"] = key.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return row | ({"compromised": True} if key.compromised else {})
