"""A certificate or a status list as JSON-LD with a Data Integrity proof (eddsa-rdfc-2022), for software that doesn't
read JWTs. A second copy of the same, with a status list of its own format; this course verifies the JWT.

It needs pyld (the extra `service`), and no network: the contexts come with openbadgeslib.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, cast

from certificates import status
from certificates.credential import Certificate
from certificates.issuer import Issuer, multibase_of
from certificates.signing import Signer
from certificates.status import moment

CLAIMS = ("iss", "sub", "jti", "nbf", "exp")


def copy(certificate: Certificate, *, issuer: Issuer, signer: Signer, at: datetime | None = None) -> dict[str, Any]:
    """An issuer's certificate with a proof in place of the JWT's signature, its status entry pointing at the list of
    the same format.
    """
    document = {name: value for name, value in certificate.credential.items() if name not in CLAIMS}
    entry = document["credentialStatus"]
    number = int(entry["statusListCredential"].rpartition("/")[2].removesuffix(".jwt"))
    place = status.Place(number=number, index=int(entry["statusListIndex"]))
    document["credentialStatus"] = status.entry(issuer, place, suffix="json")
    return secured(document, signer=signer, at=at)


def signed_list(
    *,
    issuer: Issuer,
    signer: Signer,
    purpose: status.Purpose,
    number: int,
    indices: Iterable[int],
    at: datetime | None = None,
    valid_for: timedelta = status.VALID_FOR,
) -> dict[str, Any]:
    """`status.signed_list` in this format."""
    body = status.credential(
        issuer=issuer, purpose=purpose, number=number, indices=indices, at=at, valid_for=valid_for, suffix="json"
    )
    return secured(body, signer=signer, at=at)


def secured(document: Mapping[str, Any], *, signer: Signer, at: datetime | None = None) -> dict[str, Any]:
    """The document with its proof: Ed25519 over the hashes of the canonical proof options and of the canonical document
    (W3C Data Integrity EdDSA Cryptosuites, 3.2).
    """
    options = {
        "type": "DataIntegrityProof",
        "cryptosuite": "eddsa-rdfc-2022",
        "created": moment(at or datetime.now(UTC)),
        "verificationMethod": signer.key_id,
        "proofPurpose": "assertionMethod",
    }
    context = {"@context": document["@context"]}
    digest = _hashed(context | options) + _hashed(document)
    return {**document, "proof": {**options, "proofValue": multibase_of(signer.sign(digest))}}


def _hashed(document: Mapping[str, Any]) -> bytes:
    """SHA-256 of the document's canonical N-Quads (RDFC-1.0); a term that no context defines is an error."""
    from openbadgeslib.ob3.contexts import document_loader

    jsonld = import_module("pyld.jsonld")
    options = {
        "algorithm": "URDNA2015",
        "format": "application/n-quads",
        "documentLoader": document_loader(),
        "safe": True,
    }
    quads = cast("str", jsonld.normalize(dict(document), options))
    return hashlib.sha256(quads.encode("utf-8")).digest()
