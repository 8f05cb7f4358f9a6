"""Every question of the course, and questions made to break formats, go out and come back; no loss is silent."""

from __future__ import annotations

import dataclasses
import io
import re
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiz import items, units
from quiz.exchange import FORMATS, Choice, Exchanged, Format, Number, Pairing, exported
from quiz.exchange.marked import from_html, inline_html, to_html
from quiz.exchange.model import Loss, TravelForm, normal, normal_code
from translations import languages, translator

EVERYTHING = [item for unit in units() for item in items(unit)]
ALL = pytest.mark.parametrize("form", FORMATS.values(), ids=lambda each: each.name)


def there_and_back(form: Format, questions: list[Exchanged]) -> None:
    """What comes back is what the format says that it holds, and reading it loses nothing more."""
    expected, said = [], set[Loss]()
    for question in questions:
        held, lost = form.held(question)
        expected.append(held)
        said |= {*lost}
        if held != question:
            assert lost, "what changes is said"
    data, lost = form.write(questions)
    assert {*lost} == said
    assert form.write(questions)[0] == data, "equal questions give equal bytes"
    found, misread = form.read(data)
    assert misread == ()
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        # QTI has two bounds in place of a number and its tolerance, which costs the last digits.
        assert [n.value for n in one.numbers] == pytest.approx([n.value for n in other.numbers], rel=1e-12)
        assert [n.tolerance for n in one.numbers] == pytest.approx([n.tolerance for n in other.numbers], rel=1e-9)
        assert dataclasses.replace(one, numbers=other.numbers) == other
        assert [(n.right, n.feedback) for n in one.numbers] == [(n.right, n.feedback) for n in other.numbers]


@ALL
@pytest.mark.parametrize("code", [each.code for each in languages()])
def test_the_whole_bank_goes_there_and_back(form: Format, code: str) -> None:
    there_and_back(form, [exported(item, seed=11, language=code)[0] for item in EVERYTHING])


def test_what_no_format_holds_is_said_of_every_question() -> None:
    for item in EVERYTHING:
        _, lost = exported(item, seed=1, language="en")
        whats = {each.what for each in lost}
        assert ("parameters" in whats) == bool(item.parameters)
        assert ("readings" in whats) == (item.form in ("number", "bytes"))
        assert ("fault" in whats) == (item.form == "fault")
        for language in languages():
            for each in lost:
                assert each.say(translator(language)).startswith(item.id)


def test_a_question_is_the_one_that_a_learner_meets() -> None:
    from quiz.grading import key_of
    from quiz.variants import variant

    for item in EVERYTHING[::7]:
        question, _ = exported(item, seed=5, language="en")
        made = variant(item, 5)
        assert question.tag("seed") == "5"
        assert question.tag("objective") == item.objective
        if item.key is not None:
            [right] = [each for each in question.numbers if each.right]
            assert right.value == key_of(made)
            assert right.tolerance == pytest.approx(abs(right.value) * item.tolerance)
        assert not re.search(r"\{[A-Za-z]\w*\}", question.text), "every parameter is filled in"


# --- questions made to break a format

signs = st.sampled_from(list("~=#{}:\\%<>&\"'`$[]()|*_^-.,;!?/@ \n\tabcXYZ019éßعرבी漢\u202f\u00a0\u2066\u200fΨ"))
raw = st.one_of(
    st.text(signs, max_size=40),
    st.text(max_size=30),
    st.sampled_from(
        ["]]>", "->", "=a -> b", "%100%", "%-50%x", "####", "#", "//", "// x", "::t::", "{}", "}{", "$CATEGORY: x",
         "[html]", "[plain]<b>", "&lt;b&gt;", "&amp;", "<!--", "<script>alert(1)</script>", "\\n", "\\", "T", "TRUE",
         "a\n\nb", "\n// [id:x]\n", "`a`", "`a<b`", "$x^2 / N_i$", "`~=#`", "<![CDATA[x]]>", "<?xml?>", "=%50%x#y"]
    ),
)  # fmt: skip


def marked(text: str) -> str:
    """A text as the course's own are: whatever signs, but marks only in pairs."""
    text = normal(text)
    for sign in "`$":
        if text.count(sign) % 2 or re.search(rf"\{sign}\s*\{sign}|\{sign}[^\{sign}]*\n", text):
            text = text.replace(sign, "")
    return normal(from_html(to_html(text))[0])


texts = raw.map(marked)
said = texts.filter(bool)
ids = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
tags = st.just(("kind=compute", "objective=zero-1-bytes", "seed=5"))
finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12).filter(lambda v: abs(v) > 1e-6),
    st.integers(-1000, 1000).map(float),
)


@st.composite
def questions(draw: st.DrawFn) -> Exchanged:
    form: TravelForm = draw(st.sampled_from(["choice", "several", "number", "order", "match"]))
    rest: dict[str, Any] = {}
    if form in ("choice", "several"):
        bodies = draw(st.lists(st.tuples(said, texts), min_size=2, max_size=6))
        right = draw(st.sets(st.integers(0, len(bodies) - 1), min_size=1, max_size=1 if form == "choice" else None))
        rest["choices"] = tuple(
            Choice(text=text, right=n in right, feedback=feedback) for n, (text, feedback) in enumerate(bodies)
        )
    elif form == "number":
        values = draw(st.lists(st.tuples(finite, texts), min_size=1, max_size=4))
        rest["numbers"] = tuple(
            Number(value=v, tolerance=abs(v) * 0.01, right=n == 0, feedback=told) for n, (v, told) in enumerate(values)
        )
    elif form == "order":
        rest["steps"] = tuple(draw(st.lists(said, min_size=2, max_size=6)))
    else:
        one_line = said.filter(lambda each: "\n" not in each)
        fits = draw(st.lists(one_line, min_size=2, max_size=5, unique=True))
        used = draw(st.lists(st.tuples(said, st.integers(0, len(fits) - 1)), min_size=2, max_size=5))
        rest["pairs"] = tuple(Pairing(text=text, fit=fits[n]) for text, n in used)
        taken = {n for _, n in used}
        rest["extra"] = tuple(fit for n, fit in enumerate(fits) if n not in taken)
    return Exchanged(
        id=draw(ids), form=form, text=draw(said), code=normal_code(draw(raw)), feedback=draw(texts),
        language=draw(st.sampled_from(["en", "ar"])), tags=draw(tags), **rest,
    )  # fmt: skip


@ALL
@settings(max_examples=120, deadline=None)
@given(st.lists(questions(), min_size=1, max_size=3))
def test_whatever_a_question_says_it_goes_there_and_back(form: Format, held: list[Exchanged]) -> None:
    there_and_back(form, held)


@settings(max_examples=200, deadline=None)
@given(raw)
def test_texts_survive_html(text: str) -> None:
    kept = marked(text)
    assert from_html(to_html(kept)) == (kept, "", False)
    assert from_html(inline_html(kept))[0] == kept
    code = normal_code(text)
    assert from_html(to_html(kept, code))[1] == code


@ALL
def test_no_markup_of_a_question_reaches_a_page(form: Format) -> None:
    nasty = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    question = Exchanged(
        id="q", form="choice", text=nasty, feedback=nasty,
        choices=(Choice(text=nasty, right=True, feedback=nasty), Choice(text="b", right=False)),
    )  # fmt: skip
    data = form.write([question])[0]
    text = unzipped(data) if form.name == "qti" else data.decode()
    assert "<script" not in text
    assert "<img" not in text
    from quiz.rendering import html

    for each in form.read(data)[0]:
        assert "<script" not in html(each.text)


def unzipped(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return "".join(package.read(name).decode() for name in package.namelist())
