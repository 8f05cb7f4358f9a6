"""The badge: one drawing, as PNG and SVG, each with the credential baked in as Open Badges 3.0 asks."""

from __future__ import annotations

from html import escape

from openbadgeslib import baking

from certificates.credential import Certificate
from certificates.issuer import Issuer
from certificates.render.typesetting import typeset
from certificates.summary import Summary, summarize
from translations import Language, Translator, translator

PIXELS = 600


def png(certificate: Certificate, *, language: Language | str | None = None, issuer: Issuer | None = None) -> bytes:
    """A picture of 600 x 600 pixels, with the JWT in its text chunk."""
    text = translator(language or certificate.language)
    summary = summarize(certificate.credential)
    data = _data(certificate, summary, text, issuer)
    drawn = typeset("badge.typ", data, format="png", at=summary.moment, ppi=PIXELS / 300 * 72)
    return baking.bake_png(drawn, certificate.jwt, keyword=baking.ITXT_KEYWORD_OB3)


def svg(certificate: Certificate, *, language: Language | str | None = None, issuer: Issuer | None = None) -> bytes:
    """The same drawing in outlines, titled for screen readers, with the JWT in its ``verify`` attribute."""
    text = translator(language or certificate.language)
    summary = summarize(certificate.credential)
    data = _data(certificate, summary, text, issuer)
    drawn = typeset("badge.typ", data, format="svg", at=summary.moment).decode("utf-8")
    title = escape(_title(summary, data["below"], text))
    opening, rest = drawn.split(">", 1)
    titled = f'{opening} role="img" lang="{text.language.code}"><title>{title}</title>{rest}'
    return baking.bake_svg(
        titled.encode("utf-8"), certificate.jwt, element=baking.SVG_ELEMENT_OB3, namespace=baking.SVG_NS_OB3
    )


def _title(summary: Summary, below: str, text: Translator) -> str:
    if summary.kind == "exam":
        return text("certificates.badge-exam-alt", issuer=below, unit=summary.unit)
    return text("certificates.badge-alt", unit=summary.unit)


def _data(certificate: Certificate, summary: Summary, text: Translator, issuer: Issuer | None) -> dict[str, str]:
    below = text("certificates.practice")
    if summary.kind == "exam":
        below = issuer.name(text.language) if issuer else certificate.credential["issuer"]["name"]
    return {
        "language": text.language.code,
        "direction": text.language.direction,
        "unit": summary.unit,
        "below": below,
    }
