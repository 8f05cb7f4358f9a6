"""A certificate for people and machines: PDF, badge (PNG, SVG), JSON and JWT. Each carries the signed credential."""

from __future__ import annotations

import json as _json

from certificates.carriers import ENVELOPE_START, ENVELOPE_TYPE
from certificates.credential import Certificate
from certificates.render.pictures import png, svg
from certificates.render.printed import pdf

__all__ = ["json", "jwt", "pdf", "png", "svg"]


def jwt(certificate: Certificate) -> bytes:
    """The compact JWT and a newline."""
    return certificate.jwt.encode("ascii") + b"\n"


def json(certificate: Certificate) -> bytes:
    """A VC 2.0 envelope around the JWT: JSON that keeps its signature."""
    envelope = {
        "@context": "https://www.w3.org/ns/credentials/v2",
        "id": ENVELOPE_START + certificate.jwt,
        "type": ENVELOPE_TYPE,
    }
    return _json.dumps(envelope, indent=2).encode("ascii") + b"\n"
