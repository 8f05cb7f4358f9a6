"""A lesson's Markdown as typst's markup, in the direction that the builder gave each piece."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise

from markdown_it.token import Token

from lessons.editions.printed.formulas import formula
from lessons.editions.printed.markup import array, call, isolated, longest_words, string, words
from lessons.editions.printed.terms import Terms
from translations import Language
from translations.source import markdown

_LESSON = re.compile(r"^(?:\./)?(\d\d-[a-z0-9-]+)\.ipynb$")
_WRAPPER = re.compile(r'<div dir="(ltr|rtl)" lang="[a-z-]+">|</div>|<!--.*?-->', re.DOTALL)
_FOLDED = re.compile(r"</?details(?: open)?>|<summary>(?P<summary>.*?)</summary>", re.DOTALL)
_PLAIN_TAGS = {
    "<sub>": "#sub[",
    "</sub>": "];",
    "<sup>": "#super[",
    "</sup>": "];",
    "<br>": " \\ ",
    "<kbd>": "",
    "</kbd>": "",
}


class ProseError(ValueError):
    """Markdown that a lesson may not use, since nothing says how it is printed."""


@dataclass(frozen=True, kw_only=True)
class Prose:
    """How texts are set: in which language, for which units there is a chapter to lead to, and whose terms are marked
    for the list at the end.
    """

    language: Language
    chapters: frozenset[str] = frozenset()
    terms: Terms | None = None

    def blocks(self, text: str) -> str:
        """A Markdown cell."""
        return _Setter(self).blocks(markdown.parse(text))

    def inline(self, text: str) -> str:
        """A text of one paragraph."""
        tokens = markdown.parse(text)
        return "".join(_Setter(self).inline(token.children or []) for token in tokens if token.type == "inline")


class _Setter:
    def __init__(self, prose: Prose) -> None:
        self.prose = prose
        self.language = prose.language
        self.direction = prose.language.direction
        self.marked: set[str] = set()

    def blocks(self, tokens: Sequence[Token]) -> str:
        pieces: list[str] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            end = _closing(tokens, at) if token.nesting == 1 else at
            pieces.append(self.block(token, tokens[at + 1 : end]))
            at = end + 1
        return "\n\n".join(piece for piece in pieces if piece)

    def block(self, token: Token, inside: Sequence[Token]) -> str:
        match token.type:
            case "heading_open":
                return f"{call('section', self.inline(inside[0].children or []), level=token.tag[1])}"
            case "paragraph_open":
                return call("paragraph", self.marks(inside[0].content) + self.inline(inside[0].children or []))
            case "bullet_list_open" | "ordered_list_open":
                return self.items(token, inside)
            case "blockquote_open":
                return call("quotation", self.blocks(inside))
            case "fence" | "code_block":
                return f"#listing({string(token.content.rstrip())}, lang: {string(token.info.strip().split(' ')[0])})"
            case "math_block":
                return call("display", formula(token.content.strip(), block=True))
            case "table_open":
                return self.table(inside)
            case "html_block":
                return self.html(token.content)
            case "hr":
                return "#rule()"
        raise ProseError(f"a lesson's text has {token.type}, which is not printed yet")

    def marks(self, text: str) -> str:
        """Invisible marks of the terms that a paragraph names, each once in a cell."""
        if self.prose.terms is None:
            return ""
        new = [key for key in self.prose.terms.keys_in(text) if key not in self.marked]
        self.marked.update(new)
        return "".join(f"#named({string(key)});" for key in new)

    def items(self, token: Token, inside: Sequence[Token]) -> str:
        pieces: list[str] = []
        at = 0
        while at < len(inside):
            end = _closing(inside, at)
            pieces.append(self.blocks(inside[at + 1 : end]))
            at = end + 1
        start = str(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None
        return call("items", *pieces, first=start)

    def table(self, inside: Sequence[Token]) -> str:
        rows: list[list[str]] = []
        sides: list[str] = []
        texts: list[list[str]] = []
        for before, token in pairwise(inside):
            if before.type == "tr_open":
                rows.append([])
                texts.append([])
            if before.type in ("th_open", "td_open"):
                rows[-1].append(self.inline(token.children or []) if token.type == "inline" else "")
                texts[-1].append(token.content if token.type == "inline" else "")
                if len(rows) == 1:
                    style = str(before.attrGet("style") or "")
                    sides.append(string("end" if "right" in style else "center" if "center" in style else "start"))
        kept = self.direction == "ltr" and self.language.direction == "rtl"
        return call(
            "grid-of",
            rows=array(array(f"[{cell}]" for cell in row) for row in rows[1:]),
            head=array(f"[{cell}]" for cell in rows[0]),
            sides=array(sides),
            longest=array(map(string, longest_words(texts, len(sides)))),
            ordered=str(kept).lower(),
        )

    def html(self, content: str) -> str:
        """The builder's directions, and a text that folds open: in print it is open."""
        rest = content.strip()
        for found in _WRAPPER.finditer(rest):
            if found[0].startswith("<div"):
                self.direction = found[1]
            elif found[0] == "</div>":
                self.direction = self.language.direction
        rest = _WRAPPER.sub("", rest).strip()
        pieces = [
            call("paragraph", f"#strong[{words(unescape(found['summary']))}]")
            for found in _FOLDED.finditer(rest)
            if found["summary"]
        ]
        if _FOLDED.sub("", rest).strip():
            raise ProseError(f"a lesson's text has HTML that is not printed yet: {content.strip()[:80]}")
        return "\n\n".join(pieces)

    def inline(self, tokens: Sequence[Token]) -> str:
        pieces: list[str] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.nesting == 1:
                end = _closing(tokens, at)
                pieces.append(self.spanned(token, self.inline(tokens[at + 1 : end])))
                at = end + 1
            else:
                pieces.append(self.run(token))
                at += 1
        return "".join(pieces)

    def spanned(self, token: Token, content: str) -> str:
        match token.type:
            case "strong_open":
                return f"#strong[{content}];"
            case "em_open":
                return f"#emph[{content}];"
            case "link_open":
                return self.link(str(token.attrGet("href") or ""), content)
        raise ProseError(f"a lesson's text has {token.type}, which is not printed yet")

    def link(self, target: str, content: str) -> str:
        lesson = _LESSON.match(target)
        if lesson:
            return f"#to-chapter({string(lesson[1])})[{content}];" if lesson[1] in self.prose.chapters else content
        if target.startswith(("http://", "https://", "mailto:")):
            return f"#away({string(target)})[{content}];"
        return content

    def run(self, token: Token) -> str:
        match token.type:
            case "text":
                return words(token.content)
            case "softbreak":
                return " "
            case "hardbreak":
                return " \\ "
            case "code_inline":
                return code(token.content, self.language)
            case "math_inline":
                return isolated(formula(token.content), self.language)
            case "math_inline_double":
                return call("display", formula(token.content, block=True))
            case "html_inline":
                if token.content in _PLAIN_TAGS:
                    return _PLAIN_TAGS[token.content]
        raise ProseError(f"a lesson's text has {token.type} {token.content!r}, which is not printed yet")


def code(text: str, language: Language) -> str:
    """Code within a sentence."""
    return isolated(f"#code({string(text)});", language)


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Where what a token opens is closed; the token's own place where it opens nothing."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += tokens[place].nesting
        if depth == 0:
            return place
    return len(tokens) - 1
