"""The certificate on paper: PDF/A-3a and PDF/UA-1, with the credential attached.

A practice certificate is one page. An issuer's is one too, and has a second where an exam asked about many objectives.
"""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from typing import Any

import segno

from certificates.credential import Certificate
from certificates.issuer import Issuer
from certificates.render.typesetting import typeset
from certificates.strict import decode_base64url, encode_base64url
from certificates.summary import direction_of, facts, percentage, summarize
from certificates.trust import domain
from translations import Language, Translator, formats, translator

TEMPLATE = "certificate.typ"
EXAM_TEMPLATE = "exam.typ"
MOST_RESULTS = 9
"""More than these get a page of their own."""

LARGEST_CODE = 32
"""The largest QR version that a phone reads from paper: 145 modules in 54 mm."""

_LONG_WORD = re.compile(r"\S{44}(?=\S)")


def pdf(
    certificate: Certificate,
    *,
    language: Language | str | None = None,
    page: str | None = None,
    issuer: Issuer | None = None,
) -> bytes:
    """The printed certificate. Raises CourseError for a script that no font shows.

    ``page``: the address of a verification page for a practice certificate, where there is one; the QR code then opens
    it with the credential, if that fits. ``issuer``: whose certificate it is, for its logo; its code leads to the
    issuer's own page about it.
    """
    text = translator(language or certificate.language)
    summary = summarize(certificate.credential)
    if summary.kind == "exam":
        template, data = EXAM_TEMPLATE, printed_exam(certificate, text, issuer)
    else:
        template, data = TEMPLATE, printed(certificate, text, page)
    return typeset(template, data, format="pdf", at=summary.moment, standards=("a-3a", "ua-1"))


def printed_exam(certificate: Certificate, text: Translator, issuer: Issuer | None) -> dict[str, object]:
    """Everything that the template of an exam sets, in words and values."""
    summary = summarize(certificate.credential)
    profile = certificate.credential["issuer"]
    name = issuer.name(text.language) if issuer else profile["name"]
    address = certificate_address(certificate.credential)
    shown = {"issuer": name, "domain": domain(profile["id"])}
    say = {
        key: text(f"certificates.{key}", **(shown if key == "exam-notice" else {}))
        for key in (
            "title-exam",
            "awarded",
            "passed-exam",
            "objective-line",
            "result-labs",
            "exam-notice",
            "how-to-verify-exam",
        )
    }
    holder = summary.holder_in(text.language.direction)
    other = summary.holder_other if holder == summary.holder else summary.holder
    results = [[title, percentage(value, text.language)] for title, value in summary.results]
    labs = [[title, percentage(value, text.language)] for title, value in summary.labs]
    return {
        "language": text.language.code,
        "direction": text.language.direction,
        "say": say,
        "title": f"{say['title-exam']}: {summary.unit}",
        "issuer": name,
        "official": (issuer.official(text.language) if issuer else None) or profile.get("official"),
        **logo(issuer),
        "holder": _LONG_WORD.sub("\\g<0>\u200b", holder),
        "holder-other": other,
        "other-direction": direction_of(other or ""),
        "exam": summary.unit,
        "results": results,
        "labs": labs,
        "results-title": text("certificates.results-title", exam=summary.unit),
        "apart": len(results) + len(labs) > MOST_RESULTS,
        "facts": [[label, value] for label, value in facts(summary, text)],
        "address": address,
        "code": _drawn(segno.make(address, error="m", micro=False)),
        "code-alt": text("certificates.code-exam-alt", address=address),
        "jwt": certificate.jwt,
        "attachment": text("certificates.attachment"),
    }


def certificate_address(credential: Mapping[str, Any]) -> str:
    """Where the issuer's server tells about a certificate: ``https://university.example/c/ID``."""
    return f"{credential['issuer']['url']}/c/{credential['id'].removeprefix('urn:uuid:')}"


def logo(issuer: Issuer | None) -> dict[str, object]:
    """An issuer's logo as a template takes it: SVG as text, PNG as numbers."""
    if issuer is None or issuer.logo is None:
        return {"logo": None, "logo-format": None}
    if issuer.logo.startswith(b"\x89PNG"):
        return {"logo": list(issuer.logo), "logo-format": "png"}
    return {"logo": issuer.logo.decode("utf-8", "replace"), "logo-format": "svg"}


def printed(certificate: Certificate, text: Translator, page: str | None) -> dict[str, object]:
    """Everything that the template sets, in words and values."""
    summary = summarize(certificate.credential)
    conditions = "supervised" if summary.supervised else "unsupervised"
    code = qr(certificate, page=page)
    say = {
        key: text(f"certificates.{key}")
        for key in ("title-practice", "awarded", "mastered-unit", "objective-line", "practice-notice", "how-to-verify")
    }
    shown = (
        (text("certificates.issued-on"), formats.date(summary.moment.date(), text.language)),
        (text("certificates.result-quiz"), percentage(summary.quiz, text.language)),
        (text("certificates.exercises-passed"), summary.checks or "-"),
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
        "facts": shown,
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
