"""The words of a piece of HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_LEFT_OUT = {"math", "style", "script", "svg"}
_ISOLATES = dict.fromkeys([*range(0x2066, 0x206A), *range(0x202A, 0x202F), 0x200E, 0x200F])


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.inside = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.inside += tag in _LEFT_OUT
        if tag in ("p", "li", "td", "th", "tr", "br", "div", "pre"):
            self.said.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag in _LEFT_OUT

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.said.append(data)


def text(html: str) -> str:
    """What a reader reads there, in one line, without formulas, drawings and marks of direction."""
    words = _Words()
    words.feed(html)
    words.close()
    return re.sub(r"\s+", " ", bare("".join(words.said))).strip()


def bare(text: str) -> str:
    """A text without its marks of direction."""
    return text.translate(_ISOLATES)
