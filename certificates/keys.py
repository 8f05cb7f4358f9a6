"""The learner's signing key: Ed25519, kept in a file that only its owner reads."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from jwt.exceptions import PyJWTError
from openbadgeslib.ob3 import did_key_from_pem

from translations import CourseError


@dataclass(frozen=True)
class Key:
    """A private key; it never appears in ``repr``."""

    private: Ed25519PrivateKey = field(repr=False)

    @property
    def did(self) -> str:
        """``did:key:z6Mk...``: the public key itself, so that anyone can check a signature without asking anybody."""
        public = self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return did_key_from_pem(public)

    def pem(self) -> str:
        """PKCS#8, unencrypted."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode("ascii")

    def jwk(self) -> dict[str, str]:
        """The private JSON Web Key."""
        return cast("dict[str, str]", json.loads(OKPAlgorithm.to_jwk(self.private)))


def create() -> Key:
    """A new key."""
    return Key(Ed25519PrivateKey.generate())


def parse(text: str) -> Key:
    """The key in a PEM or JWK text. Raises CourseError where there is no Ed25519 private key."""
    try:
        if text.lstrip().startswith("{"):
            private: object = OKPAlgorithm.from_jwk(text)
        else:
            private = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, PyJWTError) as error:
        raise CourseError("certificates.key-unreadable") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise CourseError("certificates.key-unreadable")
    return Key(private)


def load(path: Path) -> Key:
    """The key in a file. Raises CourseError where it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error


def save(key: Key, path: Path) -> None:
    """Writes PEM, readable by its owner only. Raises CourseError where the file exists already: no key is ever lost."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.pem())
    except FileExistsError as error:
        raise CourseError("certificates.key-exists", file=path.name) from error
    except OSError as error:
        raise CourseError("certificates.file-unwritable", file=path.name) from error


def load_or_create(path: Path) -> Key:
    """The key in a file, made at first use."""
    if not path.exists():
        save(create(), path)
    return load(path)
