"""Writes the folder of certificates that both verifiers judge: ``python -m tests.certificates.make_fixtures``.

A file is named by what is wrong with it. What is expected stands beside each in `cases`, by hand: a verdict, the
first step that fails, and the reason.
"""

from __future__ import annotations

import base64
import copy
import json
import struct
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certificates import render
from certificates.credential import Certificate, credential, sign
from certificates.keys import Key
from certificates.strict import encode_base64url
from tests.certificates import issued_cases, issuers
from tests.certificates.samples import EMAIL, KEY, OTHER_KEY, arabic, evidence, georgian
from translations import translator

FOLDER = Path(__file__).resolve().parent / "fixtures"
EXPECTED = FOLDER / "expected.json"
ID = "urn:uuid:5f0c1a52-9f1e-4a7d-8f51-0d1f6a2b3c4d"
SALT = "0123456789abcdef" * 4
P256 = "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169"
WEB = "did:web:university.example"

Payload = dict[str, Any]


def payload(*, key: Key = KEY, **changes: Any) -> Payload:
    return credential(evidence(**changes), did=key.did, text=translator("en"), id=ID, salt=SALT)


def header(**changes: Any) -> dict[str, Any]:
    public = {each: KEY.jwk()[each] for each in ("crv", "kty", "x")}
    return {"alg": "EdDSA", "jwk": public, "typ": "JWT"} | changes


def token(body: Payload | bytes, *, head: dict[str, Any] | bytes | None = None, key: Key = KEY) -> str:
    """A token signed over exactly these bytes, whatever they say."""
    parts = [
        encode_base64url(each if isinstance(each, bytes) else json.dumps(each, ensure_ascii=False).encode())
        for each in (header() if head is None else head, body)
    ]
    signed = ".".join(parts)
    return f"{signed}.{encode_base64url(key.private.sign(signed.encode()))}"


def edited(change: Callable[[Payload], object], **more: Any) -> bytes:
    """A well signed token whose payload was changed before signing."""
    body = copy.deepcopy(payload())
    change(body)
    return token(body, **more).encode()


def raw(old: str, new: str | bytes) -> bytes:
    """A well signed token whose payload's JSON was changed as text."""
    text = json.dumps(payload(), ensure_ascii=False).encode()
    assert text.count(old.encode()) == 1, old
    return token(text.replace(old.encode(), new.encode() if isinstance(new, str) else new)).encode()


def put(path: str, value: object) -> Callable[[Payload], object]:
    """Sets a value at a dotted path."""

    def change(body: Payload) -> None:
        *way, last = (int(each) if each.isdigit() else each for each in path.split("."))
        target: Any = body
        for each in way:
            target = target[each]
        target[last] = value

    return change


def both(*changes: Callable[[Payload], object]) -> Callable[[Payload], object]:
    def change(body: Payload) -> None:
        for each in changes:
            each(body)

    return change


def issued_by(did: str) -> Callable[[Payload], object]:
    return both(put("issuer.id", did), put("iss", did))


def dated(since: str, since_epoch: int, until: str | None = None, until_epoch: int | None = None) -> bytes:
    def change(body: Payload) -> None:
        body |= {"validFrom": since, "nbf": since_epoch}
        if until:
            body |= {"validUntil": until, "exp": until_epoch}

    return edited(change)


def certificate(jwt: str | None = None) -> Certificate:
    """The valid certificate, or its looks around another token."""
    issued = sign(payload(), key=KEY, language="en")
    return Certificate(id=issued.id, jwt=jwt or issued.jwt, credential=issued.credential, language="en")


def renamed() -> str:
    """A token whose holder was changed after signing."""
    good = token(payload())
    head, _, signature = good.split(".")
    body = payload()
    body["credentialSubject"]["identifier"][0]["identityHash"] = "Somebody Else"
    return f"{head}.{encode_base64url(json.dumps(body, ensure_ascii=False).encode())}.{signature}"


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_with(*texts: bytes) -> bytes:
    """A PNG of one pixel with these text chunks."""
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return start + chunk(b"IDAT", zlib.compress(b"\0\0")) + b"".join(texts) + chunk(b"IEND", b"")


def text_chunk(jwt: str, *, compressed: bool = False) -> bytes:
    body = zlib.compress(jwt.encode()) if compressed else jwt.encode()
    return chunk(b"iTXt", b"openbadgecredential\0" + bytes([compressed, 0]) + b"\0\0" + body)


def svg_with(*jwts: str, start: str = "", root: str = "svg", namespace: str = "http://www.w3.org/2000/svg") -> bytes:
    elements = "".join(f'<ob:credential verify="{each}"/>' for each in jwts)
    return (
        f'{start}<{root} xmlns="{namespace}" xmlns:ob="https://purl.imsglobal.org/ob/v3p0">{elements}</{root}>'.encode()
    )


def pdf_with(*jwts: str, filter: str = "", length: str | None = None) -> bytes:
    """A PDF of hardly more than its attachments."""
    streams = "".join(
        f"{n} 0 obj\n<</Type /EmbeddedFile{filter}/Length {length or len(each)}>>\nstream\n{each}\nendstream\nendobj\n"
        for n, each in enumerate(jwts, 1)
    )
    return f"%PDF-1.7\n{streams}trailer\n<<>>\n%%EOF\n".encode("latin-1")


def ending_in_line_break() -> bytes:
    """A PDF whose compressed attachment ends in a byte that looks like the line break after it."""
    for seed in range(10_000):
        packed = zlib.compress(token(payload(seed=seed)).encode())
        if packed.endswith(b"\r"):
            return pdf_with(packed.decode("latin-1"), filter="/Filter/FlateDecode")
    raise AssertionError("one in 256 ends so")


def loose(jwt: str) -> str:
    """The same signature bytes in another spelling: the last letter's unused bits."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return jwt[:-1] + alphabet[alphabet.index(jwt[-1]) | 1]


def envelope(jwt: str, **changes: Any) -> bytes:
    return json.dumps(json.loads(render.json(certificate(jwt))) | changes).encode()


def result(n: int) -> str:
    return f"credentialSubject.result.{n}.value"


def required(n: int) -> str:
    return f"credentialSubject.achievement.resultDescription.{n}.requiredValue"


NAME = "credentialSubject.identifier.0.identityHash"
NONE: tuple[str, None, None] = ("practice", None, None)


def cases() -> dict[str, tuple[bytes, tuple[str, str | None, str | None]]]:
    """File name -> (bytes, (verdict, first failing step, reason))."""
    good = token(payload())
    issued = certificate(good)
    right_to_left = sign(
        credential(arabic(), did=KEY.did, text=translator("ar"), id=ID, salt=SALT), key=KEY, language="ar"
    )
    mkhedruli = sign(
        credential(georgian(), did=KEY.did, text=translator("ka"), id=ID, salt=SALT), key=KEY, language="ka"
    )
    pdf = render.pdf(issued)

    def invalid(step: str, reason: str) -> tuple[str, str, str]:
        return "invalid", step, f"{step}-{reason}"

    def unknown(reason: str = "unknown") -> tuple[str, str, str]:
        return "unknown-issuer", "issuer", f"issuer-{reason}"

    return {
        # Practice certificates that are in order
        "practice_valid.jwt": (good.encode(), NONE),
        "practice_valid.json": (render.json(issued), NONE),
        "practice_valid.png": (render.png(issued), NONE),
        "practice_valid.svg": (render.svg(issued), NONE),
        "practice_valid.pdf": (pdf, NONE),
        "practice_in_arabic.jwt": (right_to_left.jwt.encode(), NONE),
        "practice_in_arabic.pdf": (render.pdf(right_to_left), NONE),
        "practice_in_georgian.jwt": (mkhedruli.jwt.encode(), NONE),
        "practice_in_georgian.pdf": (render.pdf(mkhedruli), NONE),
        "practice_in_georgian.svg": (render.svg(mkhedruli), NONE),
        "practice_with_blank_lines.jwt": (f"\r\n {good}\n\n".encode(), NONE),
        "practice_without_email.jwt": (edited(lambda body: body["credentialSubject"]["identifier"].pop()), NONE),
        "practice_with_end.jwt": (dated("2026-11-29T12:00:05Z", 1795953605, "2999-01-01T00:00:00Z", 32472144000), NONE),
        "practice_with_status_list.jwt": (
            edited(
                put(
                    "credentialStatus",
                    {
                        "id": "https://university.example/status/1#7",
                        "type": "BitstringStatusListEntry",
                        "statusPurpose": "revocation",
                        "statusListIndex": "7",
                        "statusListCredential": "https://university.example/status/1",
                    },
                )
            ),
            NONE,
        ),
        "practice_signed_by_kid.jwt": (
            token(payload(), head={"alg": "EdDSA", "kid": f"{KEY.did}#{KEY.did[8:]}"}).encode(),
            NONE,
        ),
        "compressed_text.png": (png_with(text_chunk(good, compressed=True)), NONE),
        "small.svg": (svg_with(good), NONE),
        "small.pdf": (pdf_with(good), NONE),
        "ends_in_line_break.pdf": (ending_in_line_break(), NONE),
        "length_elsewhere.pdf": (pdf_with(good, length="9 0 R"), NONE),
        # Nothing there, too much, or not a token
        "empty.jwt": (b" \n", invalid("format", "empty")),
        "no_certificate.txt": (b"Dear reader, this is no certificate.", invalid("format", "token")),
        "truncated.jwt": (good[:-300].encode(), invalid("format", "token")),
        "two_parts.jwt": (good.rpartition(".")[0].encode(), invalid("format", "token")),
        "token_too_long.jwt": (f"{good}{'A' * 64000}".encode(), invalid("format", "long")),
        "not_base64.jwt": (f"{good}AAA".encode(), invalid("format", "base64")),
        "signature_too_long.jwt": (f"{good}A".encode(), invalid("format", "token")),
        "loose_base64.jwt": (loose(good).encode(), invalid("format", "base64")),
        "no_token.png": (png_with(), invalid("format", "none")),
        "no_token.svg": (svg_with(), invalid("format", "none")),
        "no_attachment.pdf": (pdf_with(), invalid("format", "none")),
        "two_tokens.png": (png_with(text_chunk(good), text_chunk(good)), invalid("format", "several")),
        "two_tokens.svg": (svg_with(good, good), invalid("format", "several")),
        "two_attachments.pdf": (pdf_with(good, good), invalid("format", "several")),
        "second_attachment_added.pdf": (pdf + pdf_with(good), invalid("format", "several")),
        "damaged.png": (render.png(issued).replace(b"IDAT", b"IDAX"), invalid("format", "png")),
        "truncated.png": (render.png(issued)[:-20], invalid("format", "png")),
        "bytes_after_end.png": (png_with(text_chunk(good)) + b"more", invalid("format", "png")),
        "broken.svg": (svg_with(good)[:-3], invalid("format", "svg")),
        "document_type.svg": (
            svg_with("&a;", start='<!DOCTYPE svg [<!ENTITY a "a.b.c">]>'),
            invalid("format", "svg"),
        ),
        "web_page.svg": (
            svg_with(good, root="html", namespace="http://www.w3.org/1999/xhtml"),
            invalid("format", "svg"),
        ),
        "unknown_filter.pdf": (pdf_with(good, filter="/Filter/LZWDecode"), invalid("format", "pdf")),
        "wrong_length.pdf": (pdf_with(good, length="7"), invalid("format", "pdf")),
        "damaged_attachment.pdf": (pdf_with(good, filter="/Filter/FlateDecode"), invalid("format", "pdf")),
        # JSON that could be read in two ways, or not at all
        "duplicate_keys.jwt": (raw('"jti": ', '"jti": "urn:uuid:0", "jti": '), invalid("format", "repeated-name")),
        "duplicate_keys.json": (
            envelope(good).replace(b'"id"', b'"id": "data:application/vc+jwt,a.b.c", "id"'),
            invalid("format", "repeated-name"),
        ),
        "duplicate_algorithm.jwt": (
            token(payload(), head=b'{"alg": "none", "alg": "EdDSA"}').encode(),
            invalid("format", "repeated-name"),
        ),
        "not_a_number.jwt": (raw('"nbf": 1795953605', '"nbf": NaN'), invalid("format", "json")),
        "invalid_utf8.jwt": (raw("el-Amrani", b"el-Amr\xe2ni"), invalid("format", "json")),
        "byte_order_mark.jwt": (
            token(b"\xef\xbb\xbf" + json.dumps(payload()).encode()).encode(),
            invalid("format", "json"),
        ),
        "nested_too_deep.jwt": (edited(put("name", json.loads("[" * 40 + "]" * 40))), invalid("format", "json")),
        "a_list.jwt": (token(json.dumps([payload()]).encode()).encode(), invalid("format", "json")),
        "unsigned.json": (json.dumps(payload()).encode(), invalid("format", "unsigned")),
        "wrong_type.json": (envelope(good, type="EnvelopedVerifiablePresentation"), invalid("format", "type")),
        "wrong_media_type.json": (envelope(good, id=f"data:text/plain,{good}"), invalid("format", "none")),
        # Text that doesn't show as what it is
        "bidi_name.jwt": (edited(put(NAME, "Noor \u202einarmA-le\u202c")), invalid("format", "text")),
        "zero_width_name.jwt": (edited(put(NAME, "No\u200bor el-Amrani")), invalid("format", "text")),
        "newline_in_name.jwt": (edited(put(NAME, "Noor\nel-Amrani")), invalid("format", "text")),
        "decomposed_name.jwt": (
            edited(put(NAME, unicodedata.normalize("NFD", "Zoë Müller"))),
            invalid("format", "text"),
        ),
        "lone_surrogate.jwt": (raw("Noor el-Amrani", "Noor \\ud800"), invalid("format", "text")),
        "name_too_long.jwt": (edited(put(NAME, "N" * 201)), invalid("format", "shape")),
        # Another algorithm, another type, another shape
        "alg_none.jwt": (token(payload(), head=header(alg="none")).encode(), invalid("format", "algorithm")),
        "alg_hs256.jwt": (token(payload(), head=header(alg="HS256")).encode(), invalid("format", "algorithm")),
        "unknown_header.jwt": (
            token(payload(), head=header(crit=["b64"], b64=False)).encode(),
            invalid("format", "header"),
        ),
        "private_key_in_header.jwt": (
            token(payload(), head=header(jwk=KEY.jwk())).encode(),
            invalid("format", "header"),
        ),
        "wrong_type.jwt": (
            edited(put("type", ["VerifiableCredential", "EndorsementCredential"])),
            invalid("format", "type"),
        ),
        "open_badges_2.jwt": (edited(put("type", "Assertion")), invalid("format", "type")),
        "unknown_field.jwt": (edited(put("note", "approved by the university")), invalid("format", "shape")),
        "missing_name.jwt": (
            edited(lambda body: body["credentialSubject"].pop("identifier")),
            invalid("format", "shape"),
        ),
        "active_address.jwt": (edited(put("issuer.url", "javascript:alert(1)")), invalid("format", "shape")),
        "prototype_field.jwt": (raw('"jti": ', '"__proto__": {"admin": true}, "jti": '), invalid("format", "shape")),
        "issuer_differs.jwt": (edited(put("iss", OTHER_KEY.did)), invalid("format", "claims")),
        "holder_differs.jwt": (edited(put("sub", OTHER_KEY.did)), invalid("format", "claims")),
        "id_differs.jwt": (edited(put("jti", ID.replace("5f", "6f"))), invalid("format", "claims")),
        # The signature
        "other_key.jwt": (token(payload(), key=OTHER_KEY).encode(), invalid("signature", "fail")),
        "other_key_in_header.jwt": (
            token(payload(), head=header(jwk=header()["jwk"] | {"x": OTHER_KEY.jwk()["x"]}), key=OTHER_KEY).encode(),
            invalid("signature", "other-key"),
        ),
        "other_key_by_kid.jwt": (
            token(payload(), head={"alg": "EdDSA", "kid": OTHER_KEY.did}, key=OTHER_KEY).encode(),
            invalid("signature", "other-key"),
        ),
        "altered_signature.jwt": (
            f"{good.rpartition('.')[0]}.{encode_base64url(bytes(64))}".encode(),
            invalid("signature", "fail"),
        ),
        "tampered_name.jwt": (renamed().encode(), invalid("signature", "fail")),
        "tampered_name.png": (render.png(certificate(renamed())), invalid("signature", "fail")),
        "tampered_name.svg": (render.svg(certificate(renamed())), invalid("signature", "fail")),
        "tampered_name.pdf": (render.pdf(certificate(renamed())), invalid("signature", "fail")),
        "tampered_name.json": (envelope(renamed()), invalid("signature", "fail")),
        "p256_issuer.jwt": (edited(issued_by(P256)), invalid("signature", "key")),
        "malformed_issuer_key.jwt": (edited(issued_by("did:key:z6MkTooShort")), invalid("signature", "key")),
        # The issuer
        "issued_to_somebody_else.jwt": (
            edited(both(put("credentialSubject.id", OTHER_KEY.did), put("sub", OTHER_KEY.did))),
            unknown(),
        ),
        "web_issuer.jwt": (edited(issued_by(WEB)), unknown("stranger")),
        # The dates
        "expired.jwt": (
            dated("2020-01-01T00:00:00Z", 1577836800, "2021-01-01T00:00:00Z", 1609459200),
            invalid("dates", "expired"),
        ),
        "not_yet_valid.jwt": (dated("2999-01-01T00:00:00Z", 32472144000), invalid("dates", "future")),
        "impossible_date.jwt": (dated("2026-02-30T00:00:00Z", 1772409600), invalid("dates", "impossible")),
        "impossible_hour.jwt": (dated("2026-02-27T24:00:00Z", 1772236800), invalid("dates", "impossible")),
        "ends_before_start.jwt": (
            dated("2026-11-29T12:00:05Z", 1795953605, "2026-11-29T12:00:04Z", 1795953604),
            invalid("dates", "impossible"),
        ),
        "start_differs.jwt": (edited(put("nbf", 1795953604)), invalid("dates", "differ")),
        "end_differs.jwt": (edited(put("exp", 32472144000)), invalid("dates", "differ")),
        "web_issuer_expired.jwt": (
            edited(
                both(
                    issued_by(WEB),
                    put("validFrom", "2020-01-01T00:00:00Z"),
                    put("nbf", 1577836800),
                    put("validUntil", "2021-01-01T00:00:00Z"),
                    put("exp", 1609459200),
                )
            ),
            ("invalid", "issuer", "issuer-stranger"),
        ),
        # What was shown
        "score_out_of_range.jwt": (edited(put(result(1), "137")), invalid("evidence", "range")),
        "score_negative.jwt": (edited(put(result(1), "-5")), invalid("evidence", "range")),
        "score_in_other_digits.jwt": (edited(put(result(1), "٩٥")), invalid("evidence", "range")),
        "mark_out_of_range.jwt": (edited(put(required(2), "1e1")), invalid("evidence", "range")),
        "mastery_disagrees.jwt": (edited(put(result(0), "100")), invalid("evidence", "disagrees")),
        "below_pass_mark.jwt": (edited(both(put(result(0), "60"), put(result(3), "10"))), invalid("evidence", "below")),
        "checks_open.jwt": (edited(put("evidence.3.narrative", "1/2")), invalid("evidence", "below")),
        "checks_more_than_all.jwt": (edited(put("evidence.3.narrative", "3/2")), invalid("evidence", "malformed")),
        "result_twice.jwt": (
            edited(lambda body: body["credentialSubject"]["result"].append(body["credentialSubject"]["result"][2])),
            invalid("evidence", "malformed"),
        ),
        "result_missing.jwt": (
            edited(lambda body: body["credentialSubject"]["result"].pop()),
            invalid("evidence", "malformed"),
        ),
        "mark_missing.jwt": (
            edited(lambda body: body["credentialSubject"]["achievement"]["resultDescription"][0].pop("requiredValue")),
            invalid("evidence", "malformed"),
        ),
        "evidence_missing.jwt": (edited(lambda body: body["evidence"].pop()), invalid("evidence", "malformed")),
        "evidence_twice.jwt": (
            edited(lambda body: body["evidence"].append(body["evidence"][0])),
            invalid("evidence", "malformed"),
        ),
        "hash_malformed.jwt": (edited(put("evidence.0.narrative", "sha256:a1")), invalid("evidence", "malformed")),
        "claims_supervision.jwt": (edited(put("evidence.4.narrative", "yes")), invalid("evidence", "supervised")),
    }


def main(folder: Path = FOLDER) -> None:
    """Writes every file, ``expected.json``, and for the certificates of issuers what is expected with their list."""
    folder.mkdir(parents=True, exist_ok=True)
    made = cases()
    for name, (data, _) in made.items():
        (folder / name).write_bytes(data)
    expected = {
        name: {"verdict": verdict, "step": step, "reason": reason}
        for name, (_, (verdict, step, reason)) in made.items()
    }
    text = json.dumps({"email": EMAIL, "files": expected}, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")
    issued = folder.with_name(f"{folder.name}_of_issuers")
    issued.mkdir(exist_ok=True)
    table = issued_cases.cases()
    for name, (data, _) in table.items():
        (issued / name).write_bytes(data)
    rows = {name: vars(expectation) for name, (_, expectation) in table.items()}
    said = {
        address: {"status": each.status, "location": each.location, "body": base64.b64encode(each.body).decode()}
        for address, each in issued_cases.answers().items()
        if len(each.body) < 50_000
    }
    document = {"trust": issuers.TRUST.as_json(), "files": rows, "answers": said}
    (issued / "expected.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
