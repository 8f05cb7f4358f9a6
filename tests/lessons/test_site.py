"""The web edition of a small course: what is on its pages, what its search can find, and a link walk that fails."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from labs.exercises.content import exercise
from lessons.editions.site import Site, build, faults
from lessons.editions.site.building import themed
from quiz.items import items
from tests.lessons import tiny
from translations import language, translator


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    root = tmp_path_factory.mktemp("tiny")
    tiny.write(root)
    return tiny.run(root)


@pytest.fixture(scope="module")
def site(ran: dict[tuple[str, str], Any], tmp_path_factory: pytest.TempPathFactory) -> Site:
    english = {unit: ran["en", unit] for unit in tiny.UNITS}
    return build(ran, out=tmp_path_factory.mktemp("site") / "pages", english=english)


def page(site: Site, name: str) -> str:
    return (site.folder / name).read_text(encoding="utf-8")


pytestmark = pytest.mark.timeout(180)


def test_it_is_whole_and_loads_nothing(site: Site) -> None:
    assert list(faults(site.folder)) == []
    assert {each.name for each in site.folder.iterdir()} == {"assets", "ar", "en", "nl", "index.html", "verify.html"}
    assert site.pages == 2 + 3 * 3 + 5
    assert site.bytes < 2_000_000


@pytest.mark.parametrize("code", tiny.CODES)
def test_a_lesson_in_its_language(site: Site, code: str) -> None:
    text, html = translator(code), page(site, f"{code}/01-one-gpu.html")
    question, heading, sentence = tiny.TITLES[code]
    assert f'<html lang="{code}" dir="{language(code).direction}">' in html
    for shown in (question, heading, sentence, text("lessons.site-predict"), text("lessons.site-recall")):
        assert shown in html
    # Formulas, code and what was drawn need no script; the notebook's style stands once, in the style sheet.
    assert '<math dir="ltr"' in html
    assert re.search(r'<pre dir="ltr"><code>.*unit</span>', html, re.DOTALL)
    assert re.search(r'<figure role="img" aria-label="[^"]{20,}"', html)
    assert "<style" not in html
    assert "4.00" in html or "4,00" in html
    assert "widget" not in html
    # The built notebook links notebooks; the page links pages.
    assert 'href="04-zero-1.html"' in html if code != "nl" else 'href="index.html"' in html


def test_every_question_stands_once_with_each_option_explained(site: Site) -> None:
    html = page(site, "en/01-one-gpu.html")
    parts = exercise("model-states").diagnosis.parts
    assert html.count('<section class="item">') == len(items("01-one-gpu")) + len(parts)
    options = [option for item in items("01-one-gpu") if item.form == "choice" for option in item.options]
    assert html.count('<div class="good"><p><strong>Right.') >= sum(option.correct for option in options)
    assert html.count('<div class="bad"><p><strong>Not right.') >= sum(not option.correct for option in options)


def test_the_same_place_has_the_same_anchor_in_every_language(site: Site) -> None:
    found = {code: re.findall(r'id="([^"]+)"', page(site, f"{code}/01-one-gpu.html")) for code in tiny.CODES}
    own = {code: [each for each in ids if not re.match(r"sw[0-9a-f]{8}", each)] for code, ids in found.items()}
    assert own["en"] == own["nl"] == own["ar"]
    assert {"the-question", "a-cafe-for-ranks", "cell-quiz"} <= set(own["ar"])


def test_languages_lead_to_each_other_and_to_the_home_where_a_lesson_is_missing(site: Site) -> None:
    html = page(site, "en/04-zero-1.html")
    assert re.search(r'href="\.\./nl/index\.html"', html)
    assert re.search(r'href="\.\./ar/04-zero-1\.html"', html)
    assert 'href="01-one-gpu.html"' in re.search(r'<nav class="around".*?</nav>', html, re.DOTALL).group()  # type: ignore[union-attr]


@pytest.mark.parametrize("code", tiny.CODES)
def test_the_search_knows_the_words_of_each_section(site: Site, code: str) -> None:
    script = page(site, f"{code}/words.js")
    sections = json.loads(script.removeprefix("window.shardwiseWords = ").removesuffix(";\n").replace("<\\/", "</"))
    under = {(name, anchor): (title, text) for name, _, anchor, title, text in sections}
    question, heading, sentence = tiny.TITLES[code]
    title, text = under["01-one-gpu", "the-question"]
    assert title == question
    assert sentence in text.replace("  ", " ")
    assert under["01-one-gpu", "a-cafe-for-ranks"][0] == heading
    assert translator(code)("lessons.site-install") in {title for title, _ in under.values()}
    assert "\u2066" not in script


@pytest.mark.parametrize("code", tiny.CODES)
def test_a_page_for_those_who_install_nothing(site: Site, code: str) -> None:
    html = page(site, f"{code}/reading.html")
    text = translator(code)
    for id in ("site-here-lessons", "site-not-here-labs", "site-install", "site-verify"):
        assert text(f"lessons.{id}").replace("’", "’") in html.replace("&#39;", "'")
    assert "make learn" in html
    assert 'href="../verify.html"' in html
    assert not re.search(r"&lt;/?(verify|reading|book)&gt;", html)


def test_a_book_is_linked_where_there_is_one(ran: dict[tuple[str, str], Any], tmp_path: Path) -> None:
    book = tmp_path / "shardwise-en.pdf"
    book.write_bytes(b"%PDF-1.7")
    one = {key: each for key, each in ran.items() if key[1] == tiny.UNITS[0]}
    english = {tiny.UNITS[0]: ran["en", tiny.UNITS[0]]}
    made = build(one, out=tmp_path / "pages", english=english, books={"en": book})
    assert list(faults(made.folder)) == []
    assert 'href="../shardwise-en.pdf"' in page(made, "en/index.html")
    assert "shardwise-en.pdf" not in page(made, "nl/index.html")


def test_dark_rules_follow_the_page_and_never_go_to_paper() -> None:
    written = themed('.a { color: black; }\n[data-jp-theme-light="false"] .a { color: white; }\n')
    assert written.startswith(".a { color: black; }")
    assert written.count("color: white") == 2
    assert "white" not in re.sub(r"@media screen[^{]*\{[^{}]*\{[^{}]*\}\s*\}", "", written)


BROKEN = {
    '<a href="nothing.html">a</a>': "nothing.html: is not there",
    '<a href="#nowhere">a</a>': "#nowhere: has no such anchor",
    '<a href="there.html#nowhere">a</a>': "there.html#nowhere: has no such anchor",
    '<a href="../elsewhere.html">a</a>': "../elsewhere.html: is not there",
    '<a href="/there.html">a</a>': "/there.html: is absolute: the site may lie in any folder",
    '<a href="folder">a</a>': "folder: is a folder: a browser opens none from a disk",
    '<a href="http://">a</a>': "http://: no address of a server",
    '<a href="javascript:alert(1)">a</a>': "javascript:alert(1): neither a page of the site nor a web address",
    '<img src="https://example.org/a.png" alt="">': "loads https://example.org/a.png: comes from elsewhere",
    '<img src="a.png" alt="">': "loads a.png: is not there",
    '<img src="there.html">': "a picture without alternative text",
    '<script src="//example.org/a.js"></script>': "loads //example.org/a.js: comes from elsewhere",
    "<style>@import 'a.css';</style>": "a style sheet that loads something",
    '<p style="background: url(https://example.org)">a</p>': "a style that loads something",
    '<p id="twice"></p><p id="twice"></p>': "the anchor twice is there 2 times",
    '<iframe src="https://example.org"></iframe>': "loads https://example.org: comes from elsewhere",
    '<meta http-equiv="refresh" content="0; url=https://example.org">': "<meta> sends a reader elsewhere",
}


@pytest.mark.parametrize(("html", "wrong"), BROKEN.items(), ids=range(len(BROKEN)))
def test_the_walk_finds_what_is_wrong(tmp_path: Path, html: str, wrong: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.html").write_text("<p id='here'></p><a href='#here'>a</a><a href='https://example.org/x'>b</a>")
    (tmp_path / "page.html").write_text(html)
    (found,) = faults(tmp_path)
    assert found.startswith("page.html:")
    assert found.endswith(wrong)


@pytest.mark.parametrize("script", ["fetch('a')", "new XMLHttpRequest()", "import('a')", "navigator.sendBeacon('a')"])
def test_the_walk_finds_a_script_that_asks(tmp_path: Path, script: str) -> None:
    (tmp_path / "page.html").write_text("")
    (tmp_path / "a.js").write_text(script)
    (found,) = faults(tmp_path)
    assert found.endswith("asks for something")


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert list(faults(tmp_path)) == [f"{tmp_path}: no page"]
