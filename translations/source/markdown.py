"""Markdown as JupyterLab shows it: each paragraph, heading, list item and table cell is one text."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from translations.source import code
from translations.source.texts import Say, SourceError, digest, has_words

_SUMMARY = re.compile(r"(<summary>)(.*?)(</summary>)")
_TAG = re.compile(r"</?(details|summary)( open)?>|<!--.*?-->")
_HARD_BREAK = re.compile(r"(  +|\\)$")
_KINDS = {"heading_open": "heading", "th_open": "table", "td_open": "table", "paragraph_open": "paragraph"}


def rewrite(text: str, say: Say, *, first_line: int = 1) -> str:
    """The Markdown with ``say``'s wording; a text that stays the same keeps its lines. Fenced Python counts as code."""
    lines = text.split("\n")
    new: dict[int, tuple[int, list[str]]] = {}
    tokens = parse(text)
    for number, (before, token) in enumerate(pairwise([Token("", "", 0), *tokens])):
        if token.type == "html_block" and token.map:
            new.update(_html(token, lines, say, first_line))
        elif token.type == "fence" and token.map and token.info.strip() == "python":
            start, end = token.map
            body = code.rewrite("\n".join(lines[start + 1 : end - 1]), say, first_line=first_line + start + 1)
            new[start + 1] = (end - 1, body.split("\n"))
        elif token.type == "inline" and token.map and before.type in ("heading_open", "paragraph_open"):
            start, end = token.map
            changed = _block(before, token, lines[start:end], say, first_line + start)
            if changed is not None:
                new[start] = (end, changed)
        elif token.type == "tr_open" and token.map:
            start = token.map[0]
            row = _row(tokens[number:], lines[start], say, first_line + start)
            if row is not None:
                new[start] = (start + 1, [row])
    result: list[str] = []
    at = 0
    while at < len(lines):
        at, replacement = new.get(at, (at + 1, [lines[at]]))
        result.extend(replacement)
    return "\n".join(result)


def parse(text: str) -> list[Token]:
    """The block tokens, with their line maps."""
    return _parser().parse(text)


def headings(text: str) -> list[tuple[int, int]]:
    """Each heading's level and line (from 0)."""
    return [(int(token.tag[1]), token.map[0]) for token in parse(text) if token.type == "heading_open" and token.map]


def _block(opening: Token, token: Token, lines: list[str], say: Say, line: int) -> list[str] | None:
    english = _joined(token.content)
    if not has_words(english):
        return None
    wording = say(f"{_KINDS[opening.type]}-{digest(english)}", english, line)
    if wording == english:
        return None
    content = token.content.split("\n")[0]
    at = lines[0].find(content)
    if at < 0:
        raise SourceError(f"{line}: this paragraph's first line cannot be found again; write it plainer")
    prefix = lines[0][:at]
    following = re.sub(r"[^>\s]", " ", prefix)
    first, *rest = wording.replace("\n", "  \n").split("\n")
    underline = lines[-1:] if opening.type == "heading_open" and opening.markup in ("=", "-") else []
    return [prefix + first, *(following + each for each in rest), *underline]


def _row(tokens: list[Token], line: str, say: Say, number: int) -> str | None:
    cells = re.split(r"(?<!\\)\|", line)
    inner = slice(1 if not cells[0].strip() else 0, len(cells) - 1 if not cells[-1].strip() else len(cells))
    contents: list[str] = []
    for token in tokens:
        if token.type == "tr_close":
            break
        if token.type == "inline":
            contents.append(token.content)
    changed = False
    wordings = [cell.strip() for cell in cells[inner]]
    for index, english in enumerate(contents[: len(wordings)]):
        if not has_words(english):
            continue
        wording = say(f"table-{digest(english)}", english, number)
        if wording != english:
            wordings[index] = wording.replace("|", "\\|")
            changed = True
    return f"| {' | '.join(wordings)} |" if changed else None


def _html(token: Token, lines: list[str], say: Say, first_line: int) -> dict[int, tuple[int, list[str]]]:
    start, end = token.map or (0, 0)
    new: dict[int, tuple[int, list[str]]] = {}
    for number in range(start, end):
        line = lines[number]
        if has_words(_TAG.sub(" ", _SUMMARY.sub(" ", line))):
            raise SourceError(f"{first_line + number}: no HTML but <details> and <summary>, each on a line of its own")

        def replaced(match: re.Match[str], at: int = first_line + number) -> str:
            english = match[2].strip()
            return f"{match[1]}{say(f'summary-{digest(english)}', english, at)}{match[3]}"

        changed = _SUMMARY.sub(replaced, line)
        if changed != line:
            new[number] = (number + 1, [changed])
    return new


def _joined(content: str) -> str:
    """A paragraph as one line; a line break in it is a hard one."""
    joined = ""
    for line in content.split("\n"):
        joined += _HARD_BREAK.sub("", line).strip() + ("\n" if _HARD_BREAK.search(line) else " ")
    return joined.strip()


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    dollarmath_plugin(parser, allow_space=False, double_inline=True)
    amsmath_plugin(parser)
    return parser
