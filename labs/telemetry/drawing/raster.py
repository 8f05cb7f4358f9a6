"""A figure as a PNG, drawn by typst as the certificates are: no browser, and Arabic shaped right."""

from __future__ import annotations

import re
from importlib.resources import files

from labs.telemetry.drawing.palette import INK
from translations import languages

PIXELS_AN_INCH = 192.0
"""Two pixels for each unit of a figure."""
LATIN = "'Noto Sans', 'DejaVu Sans', 'Liberation Sans', 'Segoe UI', Helvetica, Arial, 'Libertinus Serif'"
ARABIC = "Amiri"
"""The certificates' typeface: it is always there, and has every sign of a line of Arabic with numbers."""
_PAGE = b"""
#set page(width: auto, height: auto, margin: 0pt, fill: white)
#image(bytes(sys.inputs.figure), format: "svg")
"""


def png(markup: str) -> bytes:
    """An SVG element as a picture on white."""
    import typst

    folders = [str(files("fontpkg_amiri") / "files"), *(str(each.fonts) for each in languages() if each.fonts)]
    fonts = typst.Fonts(include_system_fonts=True, font_paths=folders)
    made = typst.compile(
        input=_PAGE, format="png", ppi=PIXELS_AN_INCH, font_paths=fonts, sys_inputs={"figure": _plain(markup)}
    )
    assert isinstance(made, bytes)
    return made


def _plain(markup: str) -> str:
    """The element in what typst knows of SVG: fonts by name, one colour for the text, and of right-to-left words their
    direction in characters and their ends by side.
    """
    own = "".join(f"'{each.font}', " for each in languages() if each.font and f'lang="{each.code}"' in markup)
    named = re.sub(r'font-family="[^"]*"', f'font-family="{own}{LATIN}"', markup)
    right_to_left = re.sub(r'<text ([^>]*)text-anchor="(\w+)" direction="rtl"([^>]*)>([^<]*)<', _from_right, named)
    return right_to_left.replace("<svg ", f'<svg color="{INK}" ', 1)


def _from_right(found: re.Match[str]) -> str:
    place, anchor, look, words = found.groups()
    side = {"start": "end", "end": "start"}.get(anchor, anchor)
    return f'<text {place}text-anchor="{side}" font-family="{ARABIC}"{look}>\u2067{words}\u2069<'
