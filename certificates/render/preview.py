"""The picture that a page shows of a shared link: 1200 x 630 pixels, the holder, what was passed, and who issued it."""

from __future__ import annotations

from certificates.credential import Certificate
from certificates.render.typesetting import typeset
from certificates.summary import percentage, summarize
from translations import Language, formats, translator

WIDTH = 1200


def preview(certificate: Certificate, *, issuer: str, language: Language | str | None = None) -> bytes:
    """A PNG. ``issuer``: the name by which whoever serves the picture knows the issuer."""
    text = translator(language or certificate.language)
    summary = summarize(certificate.credential)
    data = {
        "language": text.language.code,
        "direction": text.language.direction,
        "holder": summary.holder_in(text.language.direction),
        "unit": summary.unit,
        "issued-by": text("certificates.preview-issued-by", issuer=issuer),
        "facts": [
            text("certificates.preview-quiz", percent=percentage(summary.quiz, text.language)),
            *(
                [text("certificates.preview-labs", percent=percentage(summary.practical, text.language))]
                if summary.practical is not None
                else []
            ),
            formats.date(summary.awarded.date(), text.language),
        ],
    }
    return typeset("preview.typ", data, format="png", at=summary.moment, ppi=WIDTH / 600 * 72)
