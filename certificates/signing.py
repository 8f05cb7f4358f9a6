"""Whoever holds a key: the one interface between an issuer and its secret, small enough for a hardware module.

A signer has a name (``did`` and ``key_id``), a public key, and signs bytes with Ed25519 (RFC 8032). The private key
never leaves it: nothing else of this package, and nothing of the service, sees one. A module on a network, a smart card
or a cloud's key store needs four members and no more. `file_signer` is the one that comes with the course.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from certificates import keys
from certificates.strict import encode_base64url
from translations import CourseError


class Signer(Protocol):
    """``sign`` gives the 64 bytes of Ed25519 over exactly these bytes, under ``public_key`` (32 bytes)."""

    @property
    def did(self) -> str: ...

    @property
    def key_id(self) -> str:
        """The verification method in the issuer's DID document, such as ``did:web:university.example#key-1``."""
        ...

    @property
    def public_key(self) -> bytes: ...

    def sign(self, data: bytes) -> bytes: ...


@dataclass(frozen=True)
class KeySigner:
    """A signer whose key lies in this process's memory; it never appears in ``repr``."""

    did: str
    key_id: str
    _private: Ed25519PrivateKey = field(repr=False)

    @property
    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


def file_signer(path: Path, *, did: str, key_id: str) -> KeySigner:
    """The signer of a key file. Raises CourseError where the file can't be read, holds no Ed25519 key, or can be read
    or written by anybody but its owner, who is the one that runs this.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error
    with os.fdopen(descriptor, "rb") as file:
        # Judged by the open file, so that nobody puts another in its place in between.
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o177 or found.st_uid != os.geteuid():
            raise CourseError("certificates.key-open", file=path.name)
        text = file.read(10_000)
    try:
        key = keys.parse(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CourseError("certificates.key-unreadable") from error
    return KeySigner(did, key_id, key.private)


def jwt(payload: Mapping[str, Any], *, signer: Signer) -> str:
    """The payload as a compact JWT that names its key and carries it.

    A verifier that knows the issuer looks the key up by ``kid``; one that doesn't can still see, by ``jwk``, that
    nothing was changed, and shows the fingerprint of the key to compare.
    """
    header = {
        "alg": "EdDSA",
        "jwk": {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(signer.public_key)},
        "kid": signer.key_id,
        "typ": "JWT",
    }
    signed = ".".join(encode_base64url(_json(each)) for each in (header, payload))
    return f"{signed}.{encode_base64url(signer.sign(signed.encode('ascii')))}"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
