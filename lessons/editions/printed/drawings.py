"""Figures of the lessons as vector drawings on paper: their title becomes the caption, their fonts are the book's."""

from __future__ import annotations

import re
from html import unescape

from labs.telemetry.drawing.palette import INK
from lessons.editions.printed.markup import call, string, words

LATIN = "Libertinus Serif"
ARABIC = "Amiri"
_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_VIEW = re.compile(r'viewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')
_TITLE_SIZE = "16"
_ABOVE = 8.0
"""What stays free above a drawing whose title was taken out."""


def drawing(markup: str, alt: str, *, cell: str = "") -> str:
    """An SVG element as a numbered figure with a caption."""
    title, rest = _without_title(markup)
    view = _VIEW.search(rest)
    if view is None:
        raise ValueError("a figure without a viewBox has no size to print")
    caption = f"[{words(title)}]" if title else "none"
    return call(
        "drawing",
        svg=string(_plain(rest)),
        alt=string(alt),
        width=view[3],
        height=view[4],
        caption=caption,
        cell=string(cell),
    )


def _without_title(markup: str) -> tuple[str, str]:
    """The lines in a title's size that a drawing begins with, and the drawing without them."""
    titles: list[str] = []
    bottom = 0.0
    for found in _TEXT.finditer(markup):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', found[1]))
        y = float(attributes.get("y", 0))
        if attributes.get("font-size") != _TITLE_SIZE or (titles and y - bottom > 1.5 * float(_TITLE_SIZE)):
            break
        titles.append(unescape(found[2]))
        bottom = y
    view = _VIEW.search(markup)
    if not titles or view is None:
        return "", markup
    rest = _TEXT.sub("", markup, count=len(titles))
    left, top, width, height = map(float, view.groups())
    cut = bottom + _ABOVE - top - 2
    return " ".join(titles), rest.replace(view[0], f'viewBox="{left:g} {top + cut:g} {width:g} {height - cut:g}"', 1)


def _plain(markup: str) -> str:
    """The element in what typst knows of SVG: fonts by name, one colour, directions as signs in the words."""
    family = f"{LATIN}, {ARABIC}"
    named = re.sub(r'font-family="[^"]*"', f'font-family="{family}"', markup)
    named = re.sub(r' (?:aria-hidden|lang)="[^"]*"', "", named)
    written = re.sub(r'<text ([^>]*)text-anchor="(\w+)" direction="rtl"([^>]*)>([^<]*)<', _from_right, named)
    return written.replace("<svg ", f'<svg color="{INK}" ', 1)


def _from_right(found: re.Match[str]) -> str:
    place, anchor, look, inside = found.groups()
    side = {"start": "end", "end": "start"}.get(anchor, anchor)
    return f'<text {place}text-anchor="{side}" font-family="{ARABIC}, {LATIN}"{look}>\u2067{inside}\u2069<'
