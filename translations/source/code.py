"""Comments, docstrings and ``_("...")`` strings of Python that learners read. The code itself is never touched."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from translations import formats
from translations.catalogs import Catalog
from translations.source.texts import Say, SourceError, digest, has_words

WIDTH = 100
"""Where a translated comment is wrapped; an untranslated one keeps its lines."""

_DIRECTIVE = re.compile(r"#(!|\s*(noqa|type:|ruff:|fmt:|mypy:|pragma|include:|%%))")
_MAGIC = re.compile(r"(\s*)(%|!)")
_BULLET = re.compile(r"(- |\* |\d+\. )")
_COLUMNS = re.compile(r"\S {3,}\S")
_OPENING = re.compile(r"""[rRuU]?("{3}|'{3}|"|')""")


@dataclass(frozen=True)
class _Edit:
    """Replaces the characters from ``start`` to ``end``."""

    start: int
    end: int
    new: str


def translate_code(code: str, catalog: Catalog, width: int = WIDTH) -> str:
    """The code with its comments, docstrings and ``_("...")`` strings in the catalog's language; all else as it was.

    A right-to-left comment is embedded right to left (U+202B), for the line that it stands in runs left to right.
    """
    return rewrite(
        code,
        lambda context, english, _line: catalog.get(context, english),
        right_to_left=catalog.language.direction == "rtl",
        width=width,
    )


def rewrite(code: str, say: Say, *, first_line: int = 1, right_to_left: bool = False, width: int = WIDTH) -> str:
    """The code with ``say``'s wording. Code that does not parse keeps its strings and docstrings."""
    source = _Source(code, say, first_line, right_to_left, width)
    edits = sorted((*source.comments(), *source.strings()), key=lambda edit: edit.start)
    for edit in reversed(edits):
        code = code[: edit.start] + edit.new + code[edit.end :]
    return code


class _Source:
    """One piece of code, and the edits that give it ``say``'s wording."""

    def __init__(self, code: str, say: Say, first_line: int, right_to_left: bool, width: int) -> None:
        self.say, self.first_line, self.right_to_left, self.width = say, first_line, right_to_left, width
        self.lines = code.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.plain = without_magic(code)

    def comments(self) -> Iterator[_Edit]:
        """Edits of comments: consecutive whole-line comments of one indentation are one text."""
        block: list[tuple[int, int, str]] = []
        inside, found = self._tokens()
        for row, column, text in found:
            whole = not self.lines[row][:column].strip()
            words = text.lstrip("#").strip()
            follows = block and (block[-1][0] + 1, block[-1][1]) == (row, column)
            if block and not (whole and follows and words and not _BULLET.match(words) and not _DIRECTIVE.match(text)):
                yield from self._block(block)
                block = []
            if _DIRECTIVE.match(text) or not words:
                continue
            if whole:
                block.append((row, column, words))
            else:
                yield from self._trailing(row, column, words, movable=row not in inside)
        if block:
            yield from self._block(block)

    def strings(self) -> Iterator[_Edit]:
        """Edits of docstrings and of the strings in ``_("...")``."""
        try:
            tree = ast.parse(self.plain)
        except SyntaxError:
            return
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from self._docstring(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_":
                yield from self._message(node)

    def _tokens(self) -> tuple[set[int], list[tuple[int, int, str]]]:
        """The rows that begin inside a string or after a backslash, and the comments (row, column, text)."""
        inside = {row + 1 for row, line in enumerate(self.lines) if line.endswith("\\")}
        found: list[tuple[int, int, str]] = []
        opened: list[int] = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.plain).readline):
                kind = tokenize.tok_name[token.type]
                if kind == "COMMENT":
                    found.append((token.start[0] - 1, token.start[1], token.string))
                elif kind == "STRING":
                    inside.update(range(token.start[0], token.end[0]))
                elif kind.endswith("STRING_START"):
                    opened.append(token.start[0])
                elif kind.endswith("STRING_END"):
                    inside.update(range(opened.pop(), token.end[0]))
        except (tokenize.TokenError, SyntaxError):
            pass
        return inside, found

    def _block(self, block: list[tuple[int, int, str]]) -> Iterator[_Edit]:
        row, column, _ = block[0]
        english = " ".join(words for _, _, words in block)
        translated = self._wording(english, row)
        if translated is not None:
            start, end = self.starts[row] + column, self.starts[block[-1][0] + 1] - 1
            yield _Edit(start, end, self._comment(translated, column))

    def _trailing(self, row: int, column: int, words: str, *, movable: bool) -> Iterator[_Edit]:
        translated = self._wording(words, row)
        if translated is None:
            return
        line, start = self.lines[row], self.starts[row]
        if movable and column + len(translated) + 2 > max(self.width, len(line)):
            indent = len(line) - len(line.lstrip())
            yield _Edit(start, start, f"{' ' * indent}{self._comment(translated, indent)}\n")
            yield _Edit(start + len(line[:column].rstrip()), start + len(line), "")
        else:
            yield _Edit(start + column, start + len(line), f"# {self._directed(translated)}")

    def _comment(self, text: str, column: int) -> str:
        bullet = _BULLET.match(text)
        hanging = "# " + " " * (len(bullet[0]) if bullet else 0)
        lines = self._wrapped(text, self.width - column - len(hanging))
        return f"\n{' ' * column}".join([f"# {lines[0]}", *(hanging + line for line in lines[1:])])

    def _docstring(self, node: ast.Constant) -> Iterator[_Edit]:
        start, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        whole = "\n".join(self.lines)[start:end]
        opening = _OPENING.match(whole)
        if opening is None or len(opening[1]) == 1:
            return
        indent = self._column(node.lineno, node.col_offset)
        body = whole[opening.end() : -3].split("\n")
        new: list[str] = []
        changed_last = False
        for first, lines in _paragraphs(body):
            depth = indent if first == 0 else len(lines[0]) - len(lines[0].lstrip())
            english = " ".join(line.strip() for line in lines)
            translated = self._wording(english, node.lineno - 1 + first)
            changed_last = translated is not None
            if translated is None:
                new.extend(lines)
                continue
            bullet = _BULLET.match(translated)
            hanging = " " * (depth + (len(bullet[0]) if bullet else 0))
            wrapped = self._wrapped(translated, self.width - len(hanging) - (opening.end() if first == 0 else 0))
            new.append(wrapped[0] if first == 0 else " " * depth + wrapped[0])
            new.extend(hanging + line for line in wrapped[1:])
        if changed_last and self.right_to_left:
            new.append(" " * indent)
        if new != body:
            yield _Edit(start + opening.end(), end - 3, "\n".join(new))

    def _message(self, node: ast.Call) -> Iterator[_Edit]:
        line = self.first_line + node.lineno - 1
        if len(node.args) != 1 or node.keywords:
            raise SourceError(f'{line}: _("...") takes one string')
        argument = node.args[0]
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            raise SourceError(f'{line}: _("...") takes a plain string; put values in with .format(name=...)')
        english = argument.value
        translated = self.say(f"string-{digest(english)}", english, line)
        if translated != english:
            start = self._offset(argument.lineno, argument.col_offset)
            yield _Edit(start, self._offset(argument.end_lineno, argument.end_col_offset), _literal(translated))

    def _wording(self, english: str, row: int) -> str | None:
        """The other wording of a comment or paragraph, if there is one."""
        if not has_words(english) or english.startswith(">>>"):
            return None
        translated = self.say(f"comment-{digest(english)}", english, self.first_line + row)
        return None if translated == english else translated

    def _wrapped(self, text: str, width: int) -> list[str]:
        lines = textwrap.wrap(text, max(width, 30), break_long_words=False, break_on_hyphens=False) or [""]
        return [self._directed(line) for line in lines]

    def _directed(self, line: str) -> str:
        if not self.right_to_left:
            return line
        embedded = formats.isolate_runs(line).replace(formats.ISOLATE, "\u202a").replace(formats.POP, "\u202c")
        return f"\u202b{embedded}"

    def _offset(self, line: int | None, column: int | None) -> int:
        assert line is not None
        return self.starts[line - 1] + self._column(line, column)

    def _column(self, line: int, column: int | None) -> int:
        """ast counts bytes; an edit counts characters."""
        return len(self.lines[line - 1].encode()[:column].decode())


def _paragraphs(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """A docstring's paragraphs with the number of their first line; an empty line is one of its own.

    A paragraph ends at an empty line, a bullet, a row of columns, and where the indentation changes but under a bullet.
    """
    block: list[str] = []
    first = 0
    for number, line in enumerate(lines):
        if block and (not line.strip() or not block[-1].strip() or _begins(line, block, first)):
            yield first, block
            block = []
        if not block:
            first = number
        block.append(line)
    if block:
        yield first, block


def _begins(line: str, block: list[str], first: int) -> bool:
    if _BULLET.match(line.strip()) or _COLUMNS.search(line) or _COLUMNS.search(block[-1]):
        return True
    if first == 0 and len(block) == 1:
        return False
    depth, before = (len(each) - len(each.lstrip()) for each in (line, block[-1]))
    return depth != before and not _BULLET.match(block[-1].strip())


def without_magic(code: str) -> str:
    """The code, line by line, with IPython's own lines as Python that has no text in it."""
    lines = [f"{magic[1]}pass" if (magic := _MAGIC.match(line)) else line for line in code.split("\n")]
    return "\n".join(lines)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
