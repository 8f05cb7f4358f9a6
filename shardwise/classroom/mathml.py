"""Texts with formulas as HTML that needs no script and no network: the course's own, and what a student wrote.

What a student wrote is hostile: HTML in it is shown, not used, pictures and links stay words, and a formula becomes
MathML only where nothing but MathML came out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from quiz import rendering

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SPACE = "http://www.w3.org/1998/Math/MathML"
LONGEST = 2_000
"""Characters of a formula that are set."""
TEXT = 40_000
"""Characters of a student's text that are shown."""
TAGS = frozenset(
    [
        "math",
        "mrow",
        "mi",
        "mo",
        "mn",
        "mtext",
        "mspace",
        "msub",
        "msup",
        "msubsup",
        "mfrac",
        "msqrt",
        "mroot",
        "munder",
        "mover",
        "munderover",
        "mtable",
        "mtr",
        "mtd",
        "mstyle",
        "mpadded",
        "mphantom",
        "menclose",
        "mmultiscripts",
        "mprescripts",
        "none",
    ]
)
ATTRIBUTES = frozenset(
    [
        "display",
        "mathvariant",
        "stretchy",
        "fence",
        "form",
        "separator",
        "lspace",
        "rspace",
        "width",
        "height",
        "depth",
        "columnalign",
        "rowspacing",
        "columnspacing",
        "displaystyle",
        "scriptlevel",
        "accent",
        "movablelimits",
        "minsize",
        "maxsize",
        "linethickness",
        "largeop",
        "symmetric",
        "columnlines",
        "rowlines",
        "notation",
        "dir",
    ]
)
_FORMULA = re.compile(r'<bdi class="formula" dir="ltr">(.*?)</bdi>', re.DOTALL)
_PIECE = re.compile(r"<(su[pb]|var)>(.*?)</\1>|(\d+(?:[.,]\d+)*)|([A-Za-zΨψ]+)|(&[#\w]+;|\S)", re.DOTALL)


def course_text(text: str) -> str:
    """A text of the course (a message, an item's feedback) as HTML, its $formulas$ as MathML."""
    return _FORMULA.sub(lambda found: _set(found[1]), rendering.html(text))


def student_text(text: str) -> str:
    """Markdown of a student as HTML."""
    return str(_markdown().render(text[:TEXT]))


def from_tex(formula: str, *, block: bool = False) -> str:
    """A formula in TeX as MathML; as code where it is none, or gives more than a formula."""
    plain = f'<code dir="ltr">{escape(formula)}</code>'
    if len(formula) > LONGEST:
        return plain
    from latex2mathml.converter import convert

    try:
        made = ElementTree.fromstring(convert(formula, display="block" if block else "inline"))
    except Exception:  # it raises what it likes on what it does not know
        return plain
    for each in made.iter():
        name = each.tag.removeprefix(f"{{{SPACE}}}")
        if name not in TAGS or not set(each.attrib) <= ATTRIBUTES:
            return plain
        each.tag = name
    made.set("dir", "ltr")
    return ElementTree.tostring(made, encoding="unicode")


def _set(marked: str) -> str:
    """A formula that is set in HTML already, as MathML."""
    pieces = list(_pieces(marked))
    return f'<math dir="ltr"><mrow>{"".join(pieces)}</mrow></math>'


def _pieces(marked: str) -> Iterator[str]:
    waiting = ""
    for kind, inside, digits, letters, sign in _PIECE.findall(marked):
        if kind in ("sup", "sub"):
            waiting = f"<m{kind}>{waiting or '<mrow></mrow>'}<mrow>{_word(inside)}</mrow></m{kind}>"
            continue
        yield waiting
        if kind == "var" or letters:
            word = inside or letters
            waiting = f"<mi>{word}</mi>" if len(word) == 1 else f"<mtext>{word}</mtext>"
        else:
            waiting = f"<mn>{digits}</mn>" if digits else f"<mo>{sign}</mo>"
    yield waiting


def _word(inside: str) -> str:
    return f"<mn>{inside}</mn>" if re.fullmatch(r"-?\d+", inside) else f"<mi>{inside}</mi>"


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink", "reference"])
    made.use(dollarmath_plugin, renderer=_formula_of_student)

    def code(_self: Any, tokens: Sequence[Any], at: int, *_rest: object) -> str:
        return f'<pre dir="ltr"><code>{escape(tokens[at].content)}</code></pre>'

    for kind in ("fence", "code_block"):
        made.add_render_rule(kind, code)
    return made


def _formula_of_student(formula: str, about: dict[str, Any]) -> str:
    return from_tex(formula, block=bool(about.get("display_mode")))
