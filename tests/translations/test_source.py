"""Finding the texts of a source and putting others in their place: everything else stays as it was."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest
from markdown_it.token import Token

from tests.translations.pseudo import COURSE, pseudo
from translations.available import language
from translations.catalogs import Catalog, Entry
from translations.source import SourceError, code, data, markdown, notebook, translate_code, translate_data
from translations.source.texts import digest, has_words, marks
from translations.wording import ROOT

PYTHON = sorted(path for room in ("labs", "translations", "quiz") for path in (ROOT / room).rglob("*.py"))
MARKDOWN = [ROOT / "docs" / "design.md", ROOT / "docs" / "content.md", COURSE / "lessons" / "source" / "00-tiny.md"]


def same(_context: str, english: str, _line: int) -> str:
    return english


def foreign(_context: str, english: str, _line: int) -> str:
    return pseudo(english)


def without_words(source: str) -> tuple[str, list[str]]:
    """A program as its machine sees it: the tree without docstrings and messages, the tokens without comments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_":
            node.args = []
    tokens = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP)
    ]
    return ast.dump(tree), tokens


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_is_identical_in_every_language(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert code.rewrite(source, same) == source
    for right_to_left in (False, True):
        rewritten = code.rewrite(source, foreign, right_to_left=right_to_left)
        assert without_words(rewritten) == without_words(source)


def test_comments_are_joined_wrapped_and_moved() -> None:
    source = (
        "# A first line\n# and a second.\n#\n# - a bullet\n# Another.\n"
        "x = f(  # why it is so\n    1,\n)\ny = 2  # noqa: E501\n"
    )
    texts: list[str] = []
    code.rewrite(source, lambda _c, english, _l: texts.append(english) or english)  # type: ignore[func-returns-value]
    assert texts == ["A first line and a second.", "- a bullet Another.", "why it is so"]
    long = code.rewrite(source, lambda _c, english, _l: english + " and" * 30, width=60)
    assert all(len(line) <= 60 for line in long.split("\n"))
    assert "\nx = f(\n" in long
    assert long.endswith("y = 2  # noqa: E501\n")


def test_a_docstring_keeps_its_paragraphs_and_columns() -> None:
    source = (
        'def f():\n    """One line\n    goes on.\n\n    whole      all of it\n    shard      a part of it\n\n'
        '    - a point\n      goes on\n    """\n'
    )
    texts: list[tuple[str, int]] = []
    code.rewrite(source, lambda _c, english, line: texts.append((english, line)) or english)  # type: ignore[func-returns-value]
    assert texts == [
        ("One line goes on.", 2),
        ("whole      all of it", 5),
        ("shard      a part of it", 6),
        ("- a point goes on", 8),
    ]


def test_a_right_to_left_comment_is_embedded_for_its_line() -> None:
    arabic = "كل رتبة تحفظ 4 GB"
    entries = {f"comment-{digest('Each rank keeps 4 GB')}": Entry("Each rank keeps 4 GB", "", arabic, {}, False)}
    catalog = Catalog(language("ar"), "code", entries)
    said = translate_code("x = 1  # Each rank keeps 4 GB\n", catalog)
    assert said == "x = 1  # \u202bكل رتبة تحفظ \u202a4 GB\u202c\n"
    assert translate_code('"""Each rank keeps 4 GB"""\n', catalog) == '"""\u202bكل رتبة تحفظ \u202a4 GB\u202c\n"""\n'


def test_magics_are_code_without_texts() -> None:
    source = "%%time\n%matplotlib inline\n!echo # not a comment of ours\nprint(_('Some words'))  # a comment\n"
    said = code.rewrite(source, foreign)
    assert said.startswith("%%time\n%matplotlib inline\n!echo # not a comment of ours\n")
    assert said.count("~") == 2


@pytest.mark.parametrize("call", ['_(f"{x} words")', "_(words)", '_("a", "b")'])
def test_a_message_is_one_plain_string(call: str) -> None:
    with pytest.raises(SourceError, match=r"^3: "):
        code.rewrite(f"\n\n{call}\n", same)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_markdown_keeps_its_shape(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    source = source.split("---\n", 2)[2] if source.startswith("---\n") else source
    assert markdown.rewrite(source, same) == source
    rewritten = markdown.rewrite(source, foreign)
    assert rewritten != source
    assert shape(markdown.parse(rewritten)) == shape(markdown.parse(source))


def shape(tokens: list[Token]) -> list[Any]:
    """Blocks, levels and inline marks, without words and line numbers; code and formulas with theirs."""
    kept = ("code_inline", "fence", "math_block", "math_inline", "code_block")
    return [
        (token.type, token.level, token.content if token.type in kept and token.info != "python" else "", token.attrs)
        for block in tokens
        for token in (block, *(block.children or ()))
        if token.type not in ("text", "softbreak", "html_block")
    ]


def test_table_cells_survive_pipes_in_code() -> None:
    table = "| a word | `x \\| y` |\n|---|---:|\n| two words | of `a \\| b` |\n"
    assert markdown.rewrite(table, lambda _c, english, _l: english.upper().replace("`A | B`", "`a | b`")) == (
        "| A WORD | `x \\| y` |\n|---|---:|\n| TWO WORDS | OF `a \\| b` |\n"
    )


def test_html_with_words_is_refused_with_its_line() -> None:
    with pytest.raises(SourceError, match=r"^13: no HTML"):
        markdown.rewrite("words\n\n<p>words</p>\n", same, first_line=11)


def test_a_lesson_knows_the_line_of_each_text() -> None:
    source = (COURSE / "lessons" / "source" / "00-tiny.md").read_text(encoding="utf-8")
    lines = source.split("\n")
    found: list[tuple[str, int]] = []
    notebook.rewrite(notebook.parse(source), lambda _c, english, line: found.append((english, line)) or english)  # type: ignore[func-returns-value]
    assert len(found) == 24
    for english, line in found:
        assert english.split(" ")[0] in lines[line - 1]


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("# no frontmatter", 1),
        ("---\nunit: a\n---\n", 2),
        ("---\nunit: a\ntitle: b\nminutes: long\nobjectives: []\n---\n", 2),
        ("---\nunit: a\ntitle: b\nminutes: 5\nobjectives: []\n---\n\n```{code-cell}\nx\n", 8),
        ("---\nunit: a\ntitle: b\nminutes: 5\nobjectives: []\n---\n\n```{code-cell}\n:label: x\nx\n```\n", 9),
    ],
)
def test_a_broken_lesson_is_told_by_its_line(broken: str, line: int) -> None:
    with pytest.raises(SourceError, match=rf"^{line}: "):
        notebook.parse(broken)


def test_data_is_translated_where_its_schema_says_so() -> None:
    schema = {
        "properties": {
            "items": {"items": {"$ref": "#/$defs/item"}},
            "notes": {"additionalProperties": {"type": "string"}, "x-translate": True},
        },
        "$defs": {
            "item": {
                "properties": {
                    "text": {"x-translate": True},
                    "code": {"x-translate": "code"},
                    "options": {"items": {"properties": {"text": {"allOf": [{"x-translate": True}]}}}},
                }
            }
        },
    }
    item = {"id": "one", "text": "A question?\n", "code": "x = 1  # a comment", "form": "some words"}
    written = {"items": [item | {"options": [{"key": "a", "text": "An answer"}]}], "notes": {"first": "A note"}}
    contexts: list[str] = []
    data.rewrite(written, lambda context, english, _l: contexts.append(context) or english, schema)  # type: ignore[func-returns-value]
    assert contexts == ["one.text", f"comment-{digest('a comment')}", "one.options.a.text", "notes.first"]
    entries = {"one.options.a.text": Entry("An answer", "", "Een antwoord", {}, False)}
    said = translate_data(written, Catalog(language("nl"), "bank", entries), schema)
    assert said["items"][0]["options"] == [{"key": "a", "text": "Een antwoord"}]
    assert said["items"][0]["text"] == "A question?\n"


def test_marks_are_counted_in_any_order() -> None:
    assert marks("`a` of $x$ and {n}, see [b](http://c).") == marks("{n} [B](http://c) $x$ `a`")
    assert marks("`a`") != marks("`a` `a`")
    assert not has_words("`words` $words$ 16 <https://words.org>")
