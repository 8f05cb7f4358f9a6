"""The certificate as people see it."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np
import png
import pypdf
import pytest
import zxingcpp

from certificates import Certificate, carriers, issue, render, verify
from certificates.render import printed
from certificates.render.typesetting import typeset
from tests.certificates import samples
from translations import CourseError, translator

MAKERS = {"en": samples.evidence, "nl": samples.dutch, "ar": samples.arabic, "ka": samples.georgian}

ALPHABET = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"
MOMENT = samples.evidence().issued_at


def made(language: str, **changes: Any) -> Certificate:
    return issue(MAKERS[language](**changes), key=samples.KEY, language=language)


def drawn(certificate: Certificate, page: str | None = None) -> Any:
    """The printed page as a picture, at the resolution of a phone held over paper."""
    data = printed.printed(certificate, translator(certificate.language), page)
    moment = samples.evidence().issued_at
    picture = typeset(printed.TEMPLATE, data, format="png", at=moment, ppi=220)
    width, height, rows, _ = png.Reader(bytes=picture).asRGBA8()
    return np.vstack([np.frombuffer(bytes(row), np.uint8) for row in rows]).reshape(height, width, 4)[:, :, :3].copy()


@pytest.mark.parametrize("language", MAKERS)
def test_every_form_carries_the_same_credential(language: str) -> None:
    certificate = made(language)
    for form in (render.pdf, render.png, render.svg, render.json, render.jwt):
        assert carriers.token(form(certificate)) == certificate.jwt
        assert form(certificate) == form(certificate)


@pytest.mark.parametrize("language", MAKERS)
def test_the_pdf_is_one_accessible_archivable_page(language: str) -> None:
    certificate = made(language)
    document = pypdf.PdfReader(io.BytesIO(render.pdf(certificate)))
    assert len(document.pages) == 1
    root = document.trailer["/Root"]
    assert root["/Lang"] == language
    assert root["/MarkInfo"]["/Marked"]
    metadata = root["/Metadata"].get_data().decode()
    assert "<pdfaid:part>3</pdfaid:part>" in metadata
    assert "<pdfaid:conformance>A</pdfaid:conformance>" in metadata
    assert "<pdfuaid:part>1</pdfuaid:part>" in metadata
    assert document.metadata is not None
    assert certificate.credential["name"] in str(document.metadata.title)
    assert document.attachments == {"credential.jwt": [certificate.jwt.encode()]}


def test_the_pdf_says_what_it_does_not_prove() -> None:
    text = " ".join(pypdf.PdfReader(io.BytesIO(render.pdf(made("en")))).pages[0].extract_text().split())
    for expected in ("Noor el-Amrani", "Practice certificate", "no identity and no supervision", "91.6%", "4 of 5"):
        assert expected in text


@pytest.mark.parametrize(
    "name",
    [
        '#set text(red) *b* $x$ @ref <label> \\ // "quoted"',
        "#panic()",
        "<script>alert(1)</script> & Co",
        "N" * 200,
        "Wolfeschlegelsteinhausenbergerdorff " * 5 + "the Elder",
        "Εμμανουήλ Жуков שלום نور",
    ],
)
def test_a_name_is_set_as_it_is(name: str) -> None:
    certificate = made("en", holder=name)
    document = pypdf.PdfReader(io.BytesIO(render.pdf(certificate)))
    assert len(document.pages) == 1
    if name.isascii():
        text = "".join(document.pages[0].extract_text().split()).replace("\u200b", "")
        assert "".join(name.split())[:150] in text
    assert verify(render.svg(certificate)).verdict == "practice"


def test_a_character_that_no_font_has_is_a_clear_error() -> None:
    certificate = made("en", holder="Noor \U0001fbff\U000105c0")
    with pytest.raises(CourseError, match="fonts on this computer"):
        render.pdf(certificate)


def test_a_language_brings_its_letters_along() -> None:
    """Every Georgian letter comes from the font of the language's folder, and none of it is an empty box."""
    words = dict.fromkeys(("title", "holder"), ALPHABET)
    document = pypdf.PdfReader(io.BytesIO(render.pdf(made("ka", **words), language="ka")))
    page = document.pages[0]
    assert ALPHABET in page.extract_text().replace(" ", "")
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]
    named = [font["/BaseFont"].partition("+")[2] for font in fonts]
    assert {"NotoSerifGeorgian-Regular", "NotoSerifGeorgian-Bold"} <= {
        each.removesuffix("-Identity-H") for each in named
    }
    for font in fonts:
        said = font["/ToUnicode"].get_object().get_data().decode()
        assert "<0000>" not in said.partition("beginbfchar")[2]  # glyph 0 is what stands for a letter that is not there
    in_english = pypdf.PdfReader(io.BytesIO(render.pdf(made("en", holder=samples.georgian().holder))))
    assert samples.georgian().holder in in_english.pages[0].extract_text()


def test_the_badge_has_a_drawing_for_every_letter() -> None:
    """A letter without a drawing is a box, the same for all; here no two of the alphabet look the same."""
    looks = {
        typeset("badge.typ", {"language": "ka", "direction": "ltr", "unit": each, "below": ""}, format="png", at=MOMENT)
        for each in ALPHABET
    }
    assert len(looks) == len(ALPHABET)


@pytest.mark.parametrize("language", MAKERS)
def test_the_printed_code_reads_as_id_and_hash(language: str) -> None:
    certificate = made(language)
    codes = zxingcpp.read_barcodes(drawn(certificate))
    digest = hashlib.sha256(certificate.jwt.encode()).hexdigest()
    assert [each.text for each in codes] == [f"{certificate.id}?=sha256={digest}"]
    assert verify(render.pdf(certificate)).sha256 == digest


def test_with_a_page_the_code_holds_the_whole_credential() -> None:
    certificate = made("en")
    address = "https://course.example/verify.html"
    (code,) = zxingcpp.read_barcodes(drawn(certificate, address))
    assert code.text == f"{address}#c={printed.compact(certificate.jwt)}"
    assert len(code.text) < len(certificate.jwt) / 2.5


def test_a_credential_too_large_for_paper_falls_back_to_id_and_hash() -> None:
    large = made("en", title="".join(chr(0x4E00 + 7 * n) for n in range(200)))
    assert printed.qr(large, page="https://course.example/").version == printed.qr(large).version


@pytest.mark.parametrize("language", MAKERS)
def test_the_badge_is_square_and_has_its_alternative_text(language: str) -> None:
    certificate = made(language)
    width, height, *_ = png.Reader(bytes=render.png(certificate)).read()
    assert (width, height) == (600, 600)
    drawing = render.svg(certificate).decode()
    assert 'role="img"' in drawing
    assert certificate.credential["name"] in drawing.partition("</title>")[0]


def test_the_json_is_a_standard_envelope() -> None:
    envelope = json.loads(render.json(made("en")))
    assert envelope["type"] == "EnvelopedVerifiableCredential"
    assert envelope["@context"] == "https://www.w3.org/ns/credentials/v2"
