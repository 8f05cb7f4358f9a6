"""Where a credential is found: as a JWT, in JSON, in a baked PNG or SVG, or attached to a PDF. Exactly one, or none.

The page's script reads the same carriers by the same rules (`page/verifier.js`).
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any
from xml.etree import ElementTree

from certificates.strict import Refused, parse_json, rules

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_KEYWORD = b"openbadgecredential"
SVG_CREDENTIAL = "{https://purl.imsglobal.org/ob/v3p0}credential"
ENVELOPE_TYPE = "EnvelopedVerifiableCredential"
ENVELOPE_START = "data:application/vc+jwt,"
_BLANK = b" \t\r\n"


def token(data: bytes) -> str:
    """The one compact JWT that a file carries. Raises Refused."""
    if len(data) > rules()["file_bytes"]:
        raise Refused("format-large")
    text = data.strip(_BLANK)
    if not text:
        raise Refused("format-empty")
    if data.startswith(PNG_SIGNATURE):
        found = _in_png(data)
    elif data.startswith(b"%PDF-"):
        found = _in_pdf(data)
    elif text.startswith(b"{"):
        found = [_in_json(parse_json(text))]
    elif text.startswith(b"<"):
        found = _in_svg(text)
    else:
        found = [text]
    if not found:
        raise Refused("format-none")
    if len(found) > 1:
        raise Refused("format-several")
    if not re.fullmatch(rb"[A-Za-z0-9_.-]*", found[0]):
        raise Refused("format-token")
    if len(found[0]) > rules()["token_bytes"]:
        raise Refused("format-long")
    if not re.fullmatch(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", found[0]):
        raise Refused("format-token")
    return found[0].decode("ascii")


def _in_json(envelope: dict[str, Any]) -> bytes:
    """A VC 2.0 envelope. A bare credential holds no signature."""
    if envelope.get("type") != ENVELOPE_TYPE:
        raise Refused("format-unsigned" if "credentialSubject" in envelope else "format-type")
    address = envelope.get("id")
    if not isinstance(address, str) or not address.startswith(ENVELOPE_START):
        raise Refused("format-none")
    return address.removeprefix(ENVELOPE_START).encode()


def _in_png(data: bytes) -> list[bytes]:
    """The text chunks with the Open Badges keyword, in a PNG whose every checksum holds and that ends at its end."""
    found: list[bytes] = []
    at, kind = len(PNG_SIGNATURE), b""
    while at < len(data):
        if kind == b"IEND" or at + 12 > len(data):
            raise Refused("format-png")
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body, checksum = data[at + 8 : at + 8 + length], data[at + 8 + length : at + 12 + length]
        if len(checksum) < 4 or zlib.crc32(kind + body) != struct.unpack(">I", checksum)[0]:
            raise Refused("format-png")
        if kind == b"iTXt" and body.startswith(PNG_KEYWORD + b"\0"):
            _only_one(found)
            found.append(_international_text(body[len(PNG_KEYWORD) + 1 :]))
        at += 12 + length
    if kind != b"IEND":
        raise Refused("format-png")
    return found


def _only_one(found: list[bytes]) -> None:
    """Refuses a second one at once: reading thousands of them would take minutes and gigabytes."""
    if found:
        raise Refused("format-several")


def _international_text(body: bytes) -> bytes:
    parts = body[2:].split(b"\0", 2)
    if len(body) < 2 or len(parts) < 3 or body[0] > 1 or body[1]:
        raise Refused("format-png")
    return _inflate(parts[2], "format-png") if body[0] else parts[2]


def _in_svg(data: bytes) -> list[bytes]:
    """The ``verify`` attributes of the Open Badges elements, in XML without document type or entities."""
    try:
        text = data.decode("utf-8")
        # A browser tells of broken XML by an element of that name, and reads nothing that is nested deeper than 5,000.
        if "<!DOCTYPE" in text or "parsererror" in text or text.count("<") > rules()["svg_tags"]:
            raise Refused("format-svg")
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise Refused("format-svg") from error
    if root.tag != "{http://www.w3.org/2000/svg}svg":
        raise Refused("format-svg")
    return [each.get("verify", "").encode() for each in root.iter(SVG_CREDENTIAL)]


def _in_pdf(data: bytes) -> list[bytes]:
    """The attached files: every stream of type EmbeddedFile."""
    found: list[bytes] = []
    for mark in re.finditer(rb"/Type[ \t\r\n]?/EmbeddedFile(?![A-Za-z])", data):
        _only_one(found)
        opening = re.compile(rb"stream\r?\n").search(data, mark.end(), mark.end() + 1000)
        if not opening:
            raise Refused("format-pdf")
        # A dictionary starts behind the nearest "obj" and ends where its stream begins.
        dictionary = data[max(0, data.rfind(b"obj", 0, mark.start())) : opening.start()]
        length = re.search(rb"/Length (\d{1,7})(?![0-9]| \d+ R)", dictionary)
        # Without a length of its own, the stream ends before the line break before its closing word.
        closing = re.compile(rb"\r?\n?endstream").search(data, opening.end() + (int(length[1]) if length else 0))
        if not closing or (length and closing.start() != opening.end() + int(length[1])):
            raise Refused("format-pdf")
        body = data[opening.end() : closing.start()]
        if b"/FlateDecode" in dictionary:
            body = _inflate(body, "format-pdf")
        elif b"/Filter" in dictionary:
            raise Refused("format-pdf")
        found.append(body)
    return found


def _inflate(data: bytes, damaged: str) -> bytes:
    """At most one byte more than a token may have, so that a bomb costs nothing."""
    limit = rules()["token_bytes"] + 1
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, limit)
        if len(plain) < limit and (not inflater.eof or inflater.unused_data):
            raise Refused(damaged)
    except zlib.error as error:
        raise Refused(damaged) from error
    return plain
