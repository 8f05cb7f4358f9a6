"""Nothing that was altered passes, and nothing makes the verifier fall over."""

from __future__ import annotations

import random
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import Certificate, Result, issue, read, render, verify
from tests.certificates import make_fixtures, samples
from translations import CourseError, languages

JWT = (make_fixtures.FOLDER / "practice_valid.jwt").read_bytes()
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """A short one, so that every byte of it can be tried."""
    objective = Result(id="a", title="A", share=1.0)
    return issue(samples.evidence(results=(objective,), email=None, title="A"), key=samples.KEY, language="en")


def test_every_single_byte_altered_is_refused(certificate: Certificate) -> None:
    good = certificate.jwt.encode()
    assert verify(good).verdict == "practice"
    passed = []
    for at, byte in enumerate(good):
        # The neighbour in the base64url alphabet changes the fewest bits: the least that an alteration can do.
        other = ALPHABET[ALPHABET.index(byte) ^ 1] if byte in ALPHABET else ALPHABET[at % 64]
        if verify(good[:at] + bytes([other]) + good[at + 1 :]).verdict != "invalid":
            passed.append(at)
    assert not passed


def bombs() -> dict[str, tuple[bytes, str]]:
    """Files of up to 1 MB that would cost minutes or gigabytes to read carelessly, and why each is refused."""
    packed = make_fixtures.chunk(b"iTXt", b"openbadgecredential\0\1\0\0\0" + zlib.compress(b"a" * 64_000, 9))
    huge = make_fixtures.chunk(b"iTXt", b"openbadgecredential\0\1\0\0\0" + zlib.compress(b"a" * 100_000_000, 9))
    attached = zlib.compress(b"a" * 64_000, 9).decode("latin-1")
    svg = make_fixtures.svg_with(JWT.decode())
    deep = svg.replace(b"<ob:", b"<g>" * 6000 + b"<ob:").replace(b"</svg>", b"</g>" * 6000 + b"</svg>")
    return {
        "many.png": (make_fixtures.png_with(*[packed] * (900_000 // len(packed))), "format-several"),
        "huge.png": (make_fixtures.png_with(huge), "format-long"),
        "many.pdf": (make_fixtures.pdf_with(*[attached] * 3000, filter="/Filter/FlateDecode"), "format-several"),
        "endless.pdf": (b"%PDF-1.7\n" + b"/Type/EmbeddedFile stream\n" * 38_000 + b"endstream", "format-several"),
        "deep.svg": (deep, "format-svg"),
        "wide.svg": (svg.replace(b"<ob:", b"<g/>" * 100_000 + b"<ob:"), "format-svg"),
        "parsererror.svg": (svg.replace(b"<ob:", b"<parsererror/><ob:"), "format-svg"),
        "long.svg": (make_fixtures.svg_with("é" * 40_000), "format-token"),
        "long_number.jwt": (make_fixtures.raw('"nbf"', '"exp": ' + "1" * 5000 + ', "nbf"'), "format-shape"),
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", bombs())
def test_a_bomb_costs_nothing(name: str) -> None:
    data, reason = bombs()[name]
    assert len(data) <= 1_000_000
    tracemalloc.start()
    begun = time.process_time()
    failed = verify(data).failed
    seconds, (_, most) = time.process_time() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert failed is not None
    assert failed.reason == reason
    assert seconds < 3
    assert most < 60_000_000


def test_every_truncation_is_refused(certificate: Certificate) -> None:
    good = certificate.jwt.encode()
    assert all(verify(good[:end]).verdict == "invalid" for end in range(0, len(good), 7))


def test_every_byte_of_the_png_counts(certificate: Certificate) -> None:
    good = render.png(certificate)
    for at in random.Random(1).sample(range(8, len(good)), 200):
        altered = bytearray(good)
        altered[at] ^= 1
        assert verify(bytes(altered)).verdict == "invalid", at


@pytest.mark.parametrize("form", [render.pdf, render.svg, render.json])
def test_no_altered_byte_changes_what_was_signed(certificate: Certificate, form: object) -> None:
    """What surrounds the credential may be altered (print always can); what is signed stays or is refused."""
    assert callable(form)
    good = form(certificate)
    assert verify(good).credential == certificate.credential
    where = [*random.Random(2).sample(range(len(good)), 150)]
    start = good.find(certificate.jwt[:40].encode())
    if start >= 0:
        where += random.Random(3).sample(range(start, start + len(certificate.jwt)), 100)
    for at in where:
        altered = bytearray(good)
        altered[at] ^= 1
        verification = verify(bytes(altered))
        assert verification.verdict == "invalid" or verification.credential == certificate.credential, at
        if start >= 0 and start <= at < start + len(certificate.jwt):
            assert verification.verdict == "invalid", at


@settings(max_examples=150, deadline=None)
@given(
    start=st.sampled_from([b"", b"{", b"<svg", b"%PDF-1.7 /Type/EmbeddedFile ", b"\x89PNG\r\n\x1a\n", JWT[:200], JWT]),
    rest=st.binary(max_size=300),
)
def test_no_bytes_make_it_raise(start: bytes, rest: bytes) -> None:
    verification = verify(start + rest)
    assert verification.verdict == "invalid" or not rest.strip()
    assert len(verification.steps) == 7


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a" * 1_000_001, "format-large"),
        (b"[" * 60_000, "format-token"),
        (b'{"a":' * 100_000, "format-json"),
        (make_fixtures.png_with(make_fixtures.text_chunk("A" * 900_000, compressed=True)), "format-long"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "format-type"),
    ],
)
def test_a_bomb_is_refused_at_once(data: bytes, reason: str) -> None:
    verification = verify(data)
    assert verification.failed is not None
    assert verification.failed.reason == reason


def test_a_step_after_a_failed_one_is_not_checked() -> None:
    steps = verify((make_fixtures.FOLDER / "tampered_name.jwt").read_bytes()).steps
    assert [each.result for each in steps] == ["pass", "fail", *["not-checked"] * 5]


@pytest.mark.parametrize(
    ("email", "result"),
    [(None, "not-checked"), ("  ", "not-checked"), (" noor@EXAMPLE.org", "pass"), ("eve@example.org", "fail")],
)
def test_the_recipient_is_compared_only_where_asked(email: str | None, result: str) -> None:
    verification = verify(JWT, email=email)
    assert {each.step: each.result for each in verification.steps}["recipient"] == result
    assert verification.verdict == ("invalid" if result == "fail" else "practice")


def test_a_certificate_without_email_is_not_compared() -> None:
    data = (make_fixtures.FOLDER / "practice_without_email.jwt").read_bytes()
    verification = verify(data, email="eve@example.org")
    assert {each.step: each.reason for each in verification.steps}["recipient"] == "recipient-none"


def test_the_result_for_programs_names_the_steps_in_order() -> None:
    result = verify(JWT).as_json()
    assert list(result) == ["verdict", "steps", "credential", "issuer", "endorsers", "stranger"]
    assert [each["step"] for each in result["steps"]] == [
        "format",
        "signature",
        "issuer",
        "dates",
        "revocation",
        "recipient",
        "evidence",
    ]
    assert all(list(each) == ["step", "result", "detail"] for each in result["steps"])


def test_the_reader_reads_it_in_their_language() -> None:
    data = (make_fixtures.FOLDER / "expired.jwt").read_bytes()
    details = {each.code: [step.detail for step in verify(data, language=each).steps] for each in languages()}
    assert "January 1, 2021" in details["en"][3]
    assert "1 januari 2021" in details["nl"][3]
    assert "1 يناير 2021" in details["ar"][3]


def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="can't be read"):
        read(tmp_path / "missing.pdf")
    with pytest.raises(CourseError, match="can't be read"):
        read(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(b"a" * 2_000_000)
    assert len(read(large)) == 1_000_001
