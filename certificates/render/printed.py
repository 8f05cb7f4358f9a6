"""The certificate on paper: one page, PDF/A-3a and PDF/UA-1, with the credential attached."""

from __future__ import annotations

import hashlib
import io
import re
import zlib

import segno

from certificates.credential import Certificate
from certificates.render.typesetting import typeset
from certificates.strict import decode_base64url, encode_base64url
from certificates.summary import percentage, summarize
from translations import Language, Translator, formats, translator

TEMPLATE = "certificate.typ"
LARGEST_CODE = 32
"""The largest QR version that a phone reads from paper: 145 modules in 54 mm."""

_LONG_WORD = re.compile(r"\S{44}(?=\S)")


def pdf(certificate: Certificate, *, language: Language | str | None = None, page: str | None = None) -> bytes:
    """The printed certificate. ``page``: the address of a verification page, where there is one; the QR code then opens
    it with the credential, if that fits. Raises CourseError for a script that no font shows.
    """
    text = translator(language or certificate.language)
    moment = summarize(certificate.credential).moment
    return typeset(TEMPLATE, printed(certificate, text, page), format="pdf", at=moment, standards=("a-3a", "ua-1"))


def printed(certificate: Certificate, text: Translator, page: str | None) -> dict[str, object]:
    """Everything that the template sets, in words and values."""
    summary = summarize(certificate.credential)
    conditions = "supervised" if summary.supervised else "unsupervised"
    code = qr(certificate, page=page)
    say = {
        key: text(f"certificates.{key}")
        for key in ("title-practice", "awarded", "mastered-unit", "objective-line", "practice-notice", "how-to-verify")
    }
    facts = (
        (text("certificates.issued-on"), formats.date(summary.moment.date(), text.language)),
        (text("certificates.result-quiz"), percentage(summary.quiz, text.language)),
        (text("certificates.exercises-passed"), summary.checks),
        (text("certificates.conditions"), text(f"certificates.conditions-{conditions}")),
        (text("certificates.course-version"), summary.version),
    )
    return {
        "language": text.language.code,
        "direction": text.language.direction,
        "say": say,
        "title": f"{say['title-practice']}: {summary.unit}",
        "holder": _LONG_WORD.sub("\\g<0>\u200b", summary.holder),
        "unit": summary.unit,
        "mastered": text("certificates.mastered-of", mastered=summary.mastered, objectives=len(summary.results)),
        "results": [[title, percentage(value, text.language)] for title, value in summary.results],
        "facts": facts,
        "id": certificate.id.removeprefix("urn:uuid:"),
        "code": _drawn(code),
        "code-alt": text("certificates.code-page-alt" if page else "certificates.code-alt"),
        "code-large": int(code.version) > 12,
        "jwt": certificate.jwt,
        "attachment": text("certificates.attachment"),
    }


def qr(certificate: Certificate, *, page: str | None = None) -> segno.QRCode:
    """The code on the certificate.

    Without the address of a page (a practice certificate has no server): the credential's id and the hash of its token,
    as a URN with a query component (RFC 8141), to compare with what any verifier shows. With one: the page with the
    credential in its fragment, which a browser never sends; id and hash again where that gets too fine to scan.
    """
    digest = hashlib.sha256(certificate.jwt.encode("ascii")).hexdigest()
    named = segno.make(f"{certificate.id}?=sha256={digest}", error="m", micro=False)
    if page is None:
        return named
    try:
        code = segno.make(f"{page}#c={compact(certificate.jwt)}", error="l", micro=False)
    except segno.DataOverflowError:
        return named
    return code if int(code.version) <= LARGEST_CODE else named


def compact(jwt: str) -> str:
    """The same token at a third of its length: header and payload deflated together, the signature as it is."""
    header, payload, signature = jwt.split(".")
    deflater = zlib.compressobj(level=9, wbits=-15)
    plain = decode_base64url(header) + b"\n" + decode_base64url(payload)
    return encode_base64url(deflater.compress(plain) + deflater.flush()) + "." + signature


def _drawn(code: segno.QRCode) -> str:
    out = io.BytesIO()
    code.save(out, kind="svg", border=0, xmldecl=False, dark="#1a1a1a")
    return out.getvalue().decode("utf-8")
