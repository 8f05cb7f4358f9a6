"""Texts with the course's marks as the HTML of other systems, and back.

What comes from outside is read as text: tags that mean code or formula become marks, the others are dropped, and
nothing of them reaches a page unescaped.
"""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

from quiz import rendering
from quiz.exchange.model import normal, normal_code

_BLOCKS = {"p", "div", "br", "li", "ul", "ol", "tr", "table", "h1", "h2", "h3", "h4", "blockquote", "pre"}
_CODE = {"code", "tt", "kbd", "samp"}
_SILENT = {"script", "style", "template", "head", "title"}
_MEDIA = {"img", "video", "audio", "object", "iframe", "svg", "embed", "math"}
DEEPEST = 200


def to_html(text: str, code: str = "") -> str:
    """A text and its block of code as HTML."""
    block = f'<pre dir="ltr"><code>{escape(code)}</code></pre>' if code else ""
    return rendering.html(text) + block


def inline_html(text: str) -> str:
    """A text as HTML; one paragraph stands without its tag."""
    return rendering.inline(text) if "\n\n" not in text else rendering.html(text)


def from_html(markup: str) -> tuple[str, str, bool]:
    """The text with marks, the block of code, and whether something that can't be kept (a picture, say) was in it."""
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return normal("".join(reader.pieces)), normal_code("".join(reader.code)), reader.media


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.code: list[str] = []
        self.media = False
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.media = self.media or tag in _MEDIA
        if tag in _BLOCKS:
            self.pieces.append("\n\n")
        kind = self._kind(tag, dict(attrs))
        if tag not in ("br", "img", "hr", "embed", "input") and len(self._open) < DEEPEST:
            self._open.append(kind)
            self.pieces.append(self._sign(kind))

    def handle_endtag(self, tag: str) -> None:
        kinds = {tag, "code" if tag in _CODE else tag, "formula" if tag in ("bdi", "span") else tag}
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place] in kinds:
                for kind in reversed(self._open[place:]):
                    self.pieces.append(self._sign(kind, ending=True))
                del self._open[place:]
                break
        if tag in _BLOCKS:
            self.pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        if _SILENT & {*self._open}:
            return
        if "pre" in self._open:
            self.code.append(data)
        elif "code" in self._open:
            self.pieces.append(data.replace("`", "'"))
        else:
            # Signs that would be read as marks are no marks here: they come from a text without any.
            self.pieces.append(data if "formula" in self._open else data.replace("`", "'").replace("$", "＄"))

    def _kind(self, tag: str, attributes: dict[str, str | None]) -> str:
        if tag in _CODE:
            return "in-pre" if "pre" in self._open else "code"
        if tag in ("bdi", "span"):
            return "formula" if "formula" in (attributes.get("class") or "").split() else tag
        return tag

    def _sign(self, kind: str, *, ending: bool = False) -> str:
        if kind == "code":
            return "`"
        if kind == "formula":
            return "$"
        if "formula" in self._open and kind in ("sup", "sub"):
            return "}" if ending else {"sup": "^{", "sub": "_{"}[kind]
        return ""
