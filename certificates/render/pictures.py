"""The badge: one drawing, as PNG and SVG, each with the credential baked in as Open Badges 3.0 asks."""

from __future__ import annotations

from datetime import datetime
from html import escape

from openbadgeslib import baking

from certificates.credential import Certificate
from certificates.render.typesetting import typeset
from certificates.summary import summarize
from translations import Language, Translator, translator

PIXELS = 600


def png(certificate: Certificate, *, language: Language | str | None = None) -> bytes:
    """A picture of 600 x 600 pixels, with the JWT in its text chunk."""
    text = translator(language or certificate.language)
    drawn = typeset("badge.typ", _data(certificate, text), format="png", at=_moment(certificate), ppi=PIXELS / 300 * 72)
    return baking.bake_png(drawn, certificate.jwt, keyword=baking.ITXT_KEYWORD_OB3)


def svg(certificate: Certificate, *, language: Language | str | None = None) -> bytes:
    """The same drawing in outlines, titled for screen readers, with the JWT in its ``verify`` attribute."""
    text = translator(language or certificate.language)
    drawn = typeset("badge.typ", _data(certificate, text), format="svg", at=_moment(certificate)).decode("utf-8")
    title = escape(text("certificates.badge-alt", unit=summarize(certificate.credential).unit))
    opening, rest = drawn.split(">", 1)
    titled = f'{opening} role="img" lang="{text.language.code}"><title>{title}</title>{rest}'
    return baking.bake_svg(
        titled.encode("utf-8"), certificate.jwt, element=baking.SVG_ELEMENT_OB3, namespace=baking.SVG_NS_OB3
    )


def _moment(certificate: Certificate) -> datetime:
    return summarize(certificate.credential).moment


def _data(certificate: Certificate, text: Translator) -> dict[str, str]:
    summary = summarize(certificate.credential)
    return {
        "language": text.language.code,
        "direction": text.language.direction,
        "unit": summary.unit,
        "number": summary.achievement.rpartition(":")[2].partition("-")[0].lstrip("0"),
        "practice": text("certificates.practice"),
    }
