"""Every altered byte of an issuer's certificate is refused, and no bytes at all bring a reader down: not the one of
certificates, nor those of status lists, trust lists and DID documents.
"""

from __future__ import annotations

import json
import random
import re
import struct
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certificates import Result, discovery, render, revocation, trust, verify
from certificates.carriers import token
from certificates.credential import Certificate
from certificates.strict import Refused
from tests.certificates import issued_cases, issuers, make_fixtures
from tests.certificates.test_issued import FOLDER, served

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
MOST = 100_000_000
LIST = issued_cases.signed_list(1).encode()
SEEDS = [
    *((FOLDER / name).read_bytes() for name in ("issued_valid.jwt", "issued_valid.json", "issued_valid.png")),
    *((FOLDER / name).read_bytes() for name in ("issued_valid.svg", "issued_valid.pdf")),
    make_fixtures.svg_with("a.b.c"),
    make_fixtures.pdf_with("a.b.c"),
    make_fixtures.png_with(make_fixtures.text_chunk("a.b.c", compressed=True)),
    LIST,
    json.dumps(issuers.TRUST.as_json()).encode(),
    json.dumps(issuers.ISSUER.did_document()).encode(),
]


@pytest.fixture(scope="module")
def short() -> Certificate:
    """A short one, so that every byte of it can be tried."""
    one = Result(id="a", title="A", share=1.0)
    return issuers.issued(
        results=(one,), labs=(), labs_score=None, labs_mark=None, email=None, title="A", holder_other=None
    )


def is_valid(data: bytes) -> bool:
    return verify(data, trust=issuers.TRUST, fetch=served).verdict in ("issuer", "endorsed", "status-not-checked")


def neighbours(jwt: bytes) -> Iterator[tuple[int, bytes]]:
    """At each place the change of fewest bits that leaves a letter of the alphabet."""
    for at, byte in enumerate(jwt):
        other = ALPHABET[ALPHABET.index(byte) ^ 1] if byte in ALPHABET else ALPHABET[at % 64]
        yield at, jwt[:at] + bytes([other]) + jwt[at + 1 :]


def flipped(data: bytes, span: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """Each single bit within this span."""
    for at in range(*span):
        for bit in range(8):
            altered = bytearray(data)
            altered[at] ^= 1 << bit
            yield at, bytes(altered)


def test_every_altered_byte_of_the_jwt_is_refused(short: Certificate) -> None:
    assert is_valid(short.jwt.encode())
    passed = [at for at, data in neighbours(short.jwt.encode()) if is_valid(data)]
    assert not passed


def test_every_altered_byte_of_the_credential_in_the_png_is_refused(short: Certificate) -> None:
    good = render.png(short)
    assert is_valid(good)
    start = good.index(b"iTXt") - 4
    (length,) = struct.unpack(">I", good[start : start + 4])
    passed = [at for at, data in flipped(good, (start, start + 12 + length)) if is_valid(data)]
    assert not passed
    # Whoever alters it well also writes the checksum anew.
    body = start + 8
    text = good.index(short.jwt.encode()) - body
    for at, jwt in neighbours(short.jwt.encode()):
        chunk = good[body : body + text] + jwt
        forged = (
            good[: start + 4]
            + b"iTXt"
            + chunk
            + struct.pack(">I", zlib.crc32(b"iTXt" + chunk))
            + good[body + length + 4 :]
        )
        assert len(forged) == len(good)
        if at % 3 == 0:
            assert not is_valid(forged), at


def test_every_altered_byte_of_the_credential_in_the_pdf_is_refused(short: Certificate) -> None:
    good = render.pdf(short, issuer=issuers.ISSUER)
    assert is_valid(good)
    mark = good.index(b"/EmbeddedFile")
    begin = good.index(b"stream", mark) + len(b"stream\n")
    end = good.index(b"endstream", begin)
    packed = good[begin:end].rstrip(b"\r\n")
    assert zlib.decompress(packed).decode() == short.jwt
    passed = []
    for at, data in flipped(good, (begin, begin + len(packed))):
        try:
            same = token(data) == short.jwt
        except Refused:
            continue
        # Deflate can say the same in other bits: then nothing that was signed has changed.
        if not same and is_valid(data):
            passed.append(at)
    assert not passed


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_other_byte_at_every_place_of_the_jwt_is_refused(short: Certificate) -> None:
    good = short.jwt.encode()
    for at in range(len(good)):
        for other in range(256):
            if other != good[at] and is_valid(good[:at] + bytes([other]) + good[at + 1 :]):
                # A blank at either end is no part of the token.
                assert at in (0, len(good) - 1), (at, other)


def test_what_is_cut_off_or_put_together_is_refused(short: Certificate) -> None:
    good = short.jwt.encode()
    assert not any(is_valid(good[:end]) for end in range(0, len(good), 11))
    head, body, signature = good.split(b".")
    other_head, other_body, other_signature = issuers.issued("nl").jwt.encode().split(b".")
    mixed = [(head, other_body, signature), (head, body, other_signature), (other_head, other_body, signature)]
    assert not any(is_valid(b".".join(each)) for each in mixed)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A real file with pieces cut out, doubled, overwritten or taken from another."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + draw(st.sampled_from([1, 4, 60, 5000])))))
        piece = draw(
            st.one_of(
                st.binary(max_size=12),
                st.sampled_from(SEEDS).map(lambda each: each[:600]),
                st.just(data[at:end] * 2),
                st.sampled_from(
                    [
                        b"\xff\xff\xff\xff",
                        b"\0\0\0\0",
                        b"<" * 50,
                        b"[" * 50,
                        b'{"a":' * 20,
                        b"/Type/EmbeddedFile stream\n",
                    ]
                ),
            )
        )
        data = data[:at] + piece + data[end:]
    return data


def readers(data: bytes) -> None:
    """Everything that reads what strangers send."""
    begun = time.perf_counter()
    found = verify(data, trust=issuers.TRUST, fetch=lambda address: data)
    assert len(found.steps) == 7
    for read in (
        lambda: trust.parse(data),
        lambda: revocation.read(
            data, address="https://a.example/status/1.jwt", purpose="suspension", party=issuers.ISSUER.party
        ),
        lambda: discovery.read(json.loads(data), did=issuers.DID),
    ):
        try:
            read()
        except (Refused, ValueError, RecursionError):
            continue
        except AttributeError:
            assert not isinstance(json.loads(data), dict), "only an object is ever handed on"
    assert time.perf_counter() - begun < 20


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=mangled())
def test_no_file_brings_a_reader_down(data: bytes) -> None:
    readers(data)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=mangled())
def test_no_file_of_many_brings_a_reader_down(data: bytes) -> None:
    readers(data)


@settings(max_examples=60, deadline=None)
@given(
    document=st.dictionaries(
        st.sampled_from(["id", "verificationMethod", "assertionMethod", "issuers", "version", "keys"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(issuers.DID),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_no_document_brings_a_reader_down(document: dict[str, Any]) -> None:
    for read in (lambda: discovery.read(document, did=issuers.DID), lambda: trust.parse(json.dumps(document).encode())):
        with pytest.raises(Refused):
            read()


@pytest.mark.serial
def test_no_file_takes_more_than_100_megabytes() -> None:
    """Of the files that are made to take much: the largest that are allowed, nested, repeated, packed."""
    deep = b'{"a":' * 160_000
    packed = zlib.compress(b"a" * 200_000_000, 9)
    files = [
        b"A" * 1_000_000,
        deep,
        b"[" * 999_999,
        b'{"credentialSubject": "' + b"x" * 900_000 + b'"}',
        b"{" + b",".join(b'"%d": 1' % n for n in range(90_000)) + b"}",
        make_fixtures.png_with(make_fixtures.chunk(b"iTXt", b"openbadgecredential\0\1\0\0\0" + packed)),
        b"<svg xmlns='http://www.w3.org/2000/svg'>" + b"<a/>" * 200_000 + b"</svg>",
        b"<svg xmlns='http://www.w3.org/2000/svg' a='" + b"&amp;" * 190_000 + b"'/>",
        b"%PDF-1.7 " + b"obj /Type/EmbeddedFile" * 45_000,
        b"%PDF-1.7 obj /Type/EmbeddedFile /Filter/FlateDecode stream\n" + packed + b"\nendstream",
        LIST + b"A" * 900_000,
    ]
    draw = random.Random(7)
    for _ in range(20):
        data = bytearray(draw.choice(SEEDS))
        for _ in range(30):
            at = draw.randrange(len(data))
            data[at:at] = data[max(0, at - 2000) : at]
        files.append(bytes(data[:1_000_000]))
    for data in files:
        tracemalloc.start()
        begun = time.process_time()
        readers(data[:1_000_000])
        seconds, (_, most) = time.process_time() - begun, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < MOST, re.sub(rb"[^ -~]", b".", data[:60])
        assert seconds < 10
