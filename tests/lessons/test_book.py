"""The printed edition: every formula of every lesson is set, and a lesson becomes pages that hold what it holds."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typst
from pypdf import PdfReader

from lessons.__main__ import main
from lessons.builder import ROOT
from lessons.editions.executed import executed
from lessons.editions.printed import Book, book
from lessons.editions.printed.drawings import drawing
from lessons.editions.printed.formulas import FormulaError, formula, of_markdown
from lessons.editions.printed.markup import string, words
from lessons.editions.printed.outputs import OutputError, Outputs
from lessons.editions.printed.prose import Prose, ProseError
from lessons.editions.printed.terms import Terms
from shardwise import pages
from translations import language, languages

UNIT = "04-zero-1"
RELEASED = [each for each in languages() if each.released]
NOTEBOOKS = sorted((ROOT / "lessons").glob("*/[0-9]*.ipynb"))


@pytest.fixture(scope="module", params=[each.code for each in RELEASED])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Book]:
    """A unit in a language: its executed notebook, and the book of it."""
    folder = tmp_path_factory.getbasetemp().parent / "executed"
    notebook = executed(request.param, UNIT, cache=folder)
    return notebook, book([notebook], request.param, address="https://example.org/course")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the book asked for a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def markup(text: str) -> bytes:
    """What typst makes of markup alone."""
    made = typst.compile(input=text.encode(), format="pdf")
    assert isinstance(made, bytes)
    return made


# --- formulas


def formulas() -> dict[tuple[str, bool], str]:
    """Every formula of every built lesson, with the notebook that has it."""
    found: dict[tuple[str, bool], str] = {}
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for each in of_markdown("".join(cell["source"])):
                    found.setdefault(each, path.relative_to(ROOT).as_posix())
    return found


def test_every_formula_of_every_lesson_is_set() -> None:
    found = formulas()
    assert len(found) > 300
    written = [formula(tex, block=block) for tex, block in found]
    assert len(PdfReader(io.BytesIO(markup("\n\n".join(written)))).pages) > 3


@pytest.mark.parametrize("tex", [r"\foo x", r"\frac{a}{b", r"\operatorname*{argmin}_x \unknown", r"\left( x"])
def test_a_formula_that_is_not_known_is_named(tex: str) -> None:
    with pytest.raises(FormulaError) as raised:
        formula(tex)
    assert tex in str(raised.value)


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        ("x_1^2", "x_(1)^(2)"),
        (r"\frac{a + b}{2}", r"frac(a \+ b, 2)"),
        (r"\mathrm{gelu}(X)", r'upright("gelu") \( X \)'),
        (r"\left(\frac{a}{b}\right)", r"lr(\( frac(a, b) \))"),
        (r"\log_2 N", "log_(2) N"),
        (r"a,\; b", r"a \, thick b"),
        ("n'", "n'"),
        (r"\hat{m}", "hat(m)"),
        (r"\lVert g \rVert", r'class("normal", \‖) g class("normal", \‖)'),
    ],
)
def test_a_formula_in_words_of_typst(tex: str, expected: str) -> None:
    assert f"${expected}$" in formula(tex)
    markup(formula(tex))


# --- words stay words


@pytest.mark.parametrize(
    "text", ["#panic(1) $x$ *a* _b_ `c` <d> @e \\ [f] ~ // g /* h", "= a\n- b\n+ c\n1. d", "https://example.org --- -1"]
)
def test_no_text_is_markup(text: str) -> None:
    found = PdfReader(io.BytesIO(markup(words(text)))).pages[0].extract_text()
    assert "".join(found.split()) == "".join(text.split())


@pytest.mark.parametrize("text", ['a "b" \\ c', "line\nline", "#{1}"])
def test_a_string_is_a_string(text: str) -> None:
    markup(f"#assert.eq({string(text)}.len(), {len(text)})")


def test_prose_that_is_not_printed_is_refused() -> None:
    prose = Prose(language=language("en"))
    with pytest.raises(ProseError):
        prose.blocks("![picture](x.png)")
    with pytest.raises(ProseError):
        prose.blocks('<iframe src="x"></iframe>')


def test_an_output_that_is_not_printed_is_refused() -> None:
    with pytest.raises(OutputError):
        Outputs(language("en")).html("<p><video></video></p>")


def test_a_table_of_the_course_is_a_table() -> None:
    shown = pages.table([["a", 1], ["b", 2]], header=["x", "y"], caption="c", language=language("en"))
    written = Outputs(language("en"), cell="counted").html(pages.page(shown, language("en")))
    assert "#grid-of(rows: (([a], [1], ), ([b], [2], ), )" in written
    assert 'caption: [c], cell: "counted"' in written


def test_only_a_missing_prediction_is_a_line_to_write_on() -> None:
    def shown(caption: str) -> str:
        table = pages.table([["none", 1]], header=["x", "y"], caption=caption, language=language("en"))
        return Outputs(language("en")).html(table)

    assert "to-fill-in" not in shown("Formats")
    assert "to-fill-in" in shown("Prediction, formula, measurement")


def test_a_title_becomes_the_caption() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 200"><text x="16" y="32" text-anchor="start"'
        ' direction="ltr" font-size="16" font-weight="600">One &amp; two</text><text x="16" y="60">rest</text></svg>'
    )
    written = drawing(svg, "alt")
    assert "caption: [One & two]" in written
    assert 'viewBox=\\"0 38 760 162\\"' in written


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("en", "Every rank keeps gradients; ranks differ.", ["rank", "gradient"]),
        ("nl", "Elke rank houdt zijn gradiënten.", ["rank", "gradient"]),
        ("ar", "تحتفظ كل رتبة بتدرُّجاتها، والرُّتَب تختلف.", ["rank", "gradient"]),
    ],
)
def test_terms_are_found(code: str, text: str, expected: list[str]) -> None:
    assert Terms(language(code)).keys_in(text) == expected


# --- a unit in print


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("no_network")
def test_a_unit_is_set(made: tuple[Any, Book]) -> None:
    notebook, printed = made
    reader = PdfReader(io.BytesIO(printed.pdf))
    assert len(reader.pages) > 12
    assert reader.trailer["/Root"]["/Lang"] == printed.language.code
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert reader.metadata is not None
    assert reader.metadata.title
    assert any(notebook.metadata.course.title in str(each.title) for each in flat(reader.outline))
    assert book([notebook], printed.language, address="https://example.org/course").pdf == printed.pdf


@pytest.mark.timeout(300)
def test_figures_are_drawn_and_fonts_are_in_it(made: tuple[Any, Book]) -> None:
    _, printed = made
    reader = PdfReader(io.BytesIO(printed.pdf))
    for page in reader.pages:
        for name, each in objects(page):
            assert each.get("/Subtype") != "/Image", f"{name} is made of pixels"
        for font in fonts(page):
            assert any(key in font for key in ("/FontFile", "/FontFile2", "/FontFile3"))


@pytest.mark.poppler
@pytest.mark.timeout(300)
def test_the_text_can_be_read_in_order(made: tuple[Any, Book], tmp_path: Path) -> None:
    _, printed = made
    (tmp_path / "book.pdf").write_bytes(printed.pdf)
    command = ["pdftotext", str(tmp_path / "book.pdf"), "-"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = " ".join(re.sub("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", found).split())
    wanted = {
        "en": ["After this unit you can:", "The question", "Without looking back:", "Hints and solutions", "Answers"],
        "nl": ["Na dit hoofdstuk kun je:", "Zonder terug te kijken:", "Hints en oplossingen", "Antwoorden"],
        "ar": ["بعد هذه الوحدة", "من غير أن ترجع إلى", "لا أحد يحتاج إلى حالات", "الصفحة"],
    }[printed.language.code]
    if printed.language.direction == "ltr":
        places = [text.rindex(each) for each in wanted]
        assert places == sorted(places)
    for each in [*wanted, "def optimizer_step", "import torch.distributed as dist"]:
        assert each in text
    assert "lessons.book" not in text


def test_the_command_names_what_it_does_not_know(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["book", "--language", "xx", "--out", str(tmp_path)]) == 1
    assert "xx" in capsys.readouterr().err
    assert main(["book", "--language", "en", "--unit", "99-none", "--out", str(tmp_path)]) == 1
    assert "99-none" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def flat(outline: list[Any]) -> Iterator[Any]:
    for each in outline:
        if isinstance(each, list):
            yield from flat(each)
        else:
            yield each


def objects(holder: Any) -> Iterator[tuple[str, Any]]:
    """The forms and images that a page draws, those within forms too."""
    resources = holder.get("/Resources")
    for name, each in ((resources.get_object().get("/XObject") or {}) if resources else {}).items():
        drawn = each.get_object()
        yield name, drawn
        yield from objects(drawn)


def fonts(page: Any) -> Iterator[Any]:
    """The descriptors of the fonts that a page uses."""
    for each in (page["/Resources"].get("/Font") or {}).values():
        for inner in each.get_object().get("/DescendantFonts", []):
            yield inner.get_object()["/FontDescriptor"]
