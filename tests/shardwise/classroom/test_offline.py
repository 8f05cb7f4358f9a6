"""What formgrader and nbgrader's feedback make of a notebook: nothing from elsewhere, nothing of a student's HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from traitlets.config import Config

from shardwise.classroom import offline
from tests.shardwise.classroom import a_class

HOSTILE = (
    "<script>fetch('/formgrader/api/grade/1', {method: 'PUT'})</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](https://elsewhere.example/pixel.png)",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "</div></div><form action=/formgrader/api>",
    "$\\href{javascript:alert(1)}{x}$",
    '<div dir="rtl" lang="ar" onclick=alert(1)>',
    '<div dir="rtl" lang="ar">\n<script>alert(1)</script>\n</div>',
    "<style>@import url(https://elsewhere.example/x.css)</style>",
    "$$\\text{</math><script>alert(1)</script>}$$",
    "<https://elsewhere.example>",
    "&lt;script&gt;",
)
_TAG = re.compile(r"<\s*/?\s*([A-Za-z][\w-]*)([^>]*)>")
HARMLESS = {
    "p",
    "div",
    "code",
    "pre",
    "em",
    "strong",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "br",
    "hr",
    "blockquote",
    "span",
}
MATHS = {"math", "mi", "mo", "mn", "mrow", "msup", "msub", "mtext", "mstyle", "mspace", "mfrac", "eq", "eqn", "section"}


@pytest.mark.parametrize("text", HOSTILE)
def test_html_of_a_student_is_shown_and_not_used(text: str) -> None:
    made = offline.shown(text)
    for name, attributes in _TAG.findall(made):
        assert name in HARMLESS | MATHS, made
        assert not re.search(r"\bon\w+\s*=|javascript:|href|src\s*=|url\(", attributes), made


def test_the_courses_own_direction_and_formulas_are_used() -> None:
    made = offline.shown('<div dir="rtl" lang="ar">\n\nنصٌّ مع $x^2$ و`f()`.\n\n</div>')
    assert made.count('<div dir="rtl" lang="ar">') == made.count("</div>") == 1
    assert "<math" in made
    assert "<msup>" in made
    assert "$" not in made


@pytest.mark.parametrize("text", ['<div dir="rtl" lang="ar">\nx', "x\n</div>", '</div>\n<div dir="rtl" lang="ar">'])
def test_a_mark_of_direction_that_does_not_balance_breaks_no_page(text: str) -> None:
    made = offline.shown(text)
    assert (made.count("<div"), made.count("</div")) == (1, 1)
    assert made.startswith('<div dir="auto">')


@pytest.mark.parametrize("template", ["formgrade", "feedback"])
def test_nbgraders_pages_ask_for_nothing_elsewhere(template: str, tmp_path: Path) -> None:
    folder = tmp_path / "course"
    a_class.made(folder)
    notebook = a_class.answered(a_class.given(folder, language="ar"), {"explain": "\n\n".join(HOSTILE)})
    read = nbformat.reads(json.dumps(notebook), as_version=4)
    for cell in read.cells:
        cell.metadata.setdefault("nbgrader", nbformat.NotebookNode(grade=False, solution=False, locked=True))
        cell.metadata.nbgrader.setdefault("score", 0)
        cell.metadata.nbgrader.setdefault("comment", "")

    def page(config: Config) -> str:
        about = {"score": 0, "max_score": 1, "late_penalty": 0, "notebook": "x"}
        resources = {"base_url": "", "index": 0, "total": 1, "notebook_id": "x", "nbgrader": about}
        made, _ = HTMLExporter(config=_as_nbgrader_does(template, config)).from_notebook_node(read, resources=resources)
        return str(made)

    assert "cdnjs.cloudflare.com" in page(Config())  # without us
    assert "<script>fetch(" in page(Config())
    ours = Config()
    offline.configure(ours)
    made = page(ours)
    assert not re.search(r'(?:src|href)\s*=\s*["\']?(?:https?:)?//', made)
    assert "<script>fetch(" not in made
    assert "&lt;script&gt;fetch(" in made
    assert '<div dir="rtl" lang="ar">' in made


def _as_nbgrader_does(template: str, config: Config) -> Config:
    """The settings as nbgrader completes them, in `FormgradeExtension` and in `GenerateFeedback`."""
    from nbgrader.server_extensions.formgrader import handlers  # type: ignore[import-untyped]

    made = Config(config)
    made.HTMLExporter.template_name = template
    if "extra_template_basedirs" not in config.HTMLExporter:
        made.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    if template == "feedback":
        bootstrap = Path(handlers.static_path, "node_modules", "bootstrap", "dist", "css")
        made.HTMLExporter.extra_template_paths = [str(bootstrap)]
    return made
