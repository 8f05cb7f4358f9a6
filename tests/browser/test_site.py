"""The web edition in Chromium, from a folder and a plain web server: search, languages, direction, themes, paper."""

from __future__ import annotations

import functools
import http.server
import io
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pypdf
import pytest
from playwright.sync_api import Browser, Page, expect

from lessons.editions.site import build
from tests.browser.driver import violations
from tests.lessons import tiny
from translations import translator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]
UNIT = tiny.UNITS[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    notebooks = tiny.unrun()
    english = {unit: notebooks["en", unit] for unit in tiny.UNITS}
    return build(notebooks, out=tmp_path_factory.mktemp("site") / "pages", english=english).folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[str]:
    """The folder behind the plainest of web servers, under a path of its own."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{folder.name}"
        server.shutdown()
        thread.join(10)


@pytest.fixture(params=["file", "http"])
def root(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where the pages are read."""
    return folder.as_uri() if request.param == "file" else str(request.getfixturevalue("served"))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window; the test fails if a page asks for anything that is not of the site, or complains."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="nl-NL")
    opened = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("requestfailed", lambda request: wrong.append(request.url))
    yield opened
    context.close()
    assert not [each for each in asked if not each.startswith(("file:", "data:", "http://127.0.0.1:"))]
    assert not wrong


def test_the_root_picks_the_language_and_remembers_a_choice(page: Page, root: str) -> None:
    page.goto(f"{root}/index.html")
    page.wait_for_url(f"{root}/nl/index.html")
    page.locator(".languages a[hreflang='ar']").click()
    page.wait_for_url(f"{root}/ar/index.html")
    page.goto(f"{root}/index.html")
    page.wait_for_url(f"{root}/ar/index.html")


FOUND = {
    "en": ["optimizer STATES", "cafe", "facade", "shar"],
    "nl": ["coordinaten", "Optimizertoestanden", "geheugen", "verbruik"],
    "ar": ["المحسن", "حالات المحسّن", "رتب", "الحصص", "اجزاء", "مخازن"],
}
"""Without accents or vowel marks, in another case, a word's beginning, a part of a compound, without the article."""


@pytest.mark.parametrize("code", tiny.CODES)
def test_words_are_found_however_they_are_written(page: Page, root: str, code: str) -> None:
    page.goto(f"{root}/{code}/{UNIT}.html")
    page.locator(".find input").fill(FOUND[code][0])
    page.locator(".find input").press("Enter")
    page.wait_for_url(f"{root}/{code}/search.html?q=*")
    field = page.locator(".find input")
    for question in FOUND[code]:
        field.fill(question)
        links = page.locator("#results a[href^='01-one-gpu.html#']")
        expect(links.first).to_be_visible()
        expect(page.locator("#found")).to_contain_text(re.compile(r"\d"))
    field.fill("zzzz")
    expect(page.locator("#found")).to_have_text(translator(code)("lessons.site-search-none"))
    expect(page.locator("#results li")).to_have_count(0)


def test_a_result_leads_to_its_section(page: Page, root: str) -> None:
    page.goto(f"{root}/ar/search.html?q=المحسن")
    found = page.locator("#results li", has_text="المُحسِّن")
    link = found.filter(has=page.locator("a[href$='#the-question']")).first
    expect(link.locator("mark").first).to_contain_text("المُحسِّن")
    link.locator("a").click()
    page.wait_for_url(re.compile(r"/ar/0\d-[\w-]+\.html#the-question$"))


def test_the_same_place_in_another_language(page: Page, root: str) -> None:
    page.goto(f"{root}/en/{UNIT}.html")
    page.locator("#cell-quiz").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#cell-quiz').scrollIntoView()")
    page.locator(".languages a[hreflang='ar']").dispatch_event("click")
    page.wait_for_url(f"{root}/ar/{UNIT}.html#cell-quiz")
    assert page.evaluate("document.documentElement.dir") == "rtl"


def test_arabic_runs_right_to_left_and_code_does_not(page: Page, folder: Path) -> None:
    page.goto(f"{folder.as_uri()}/ar/{UNIT}.html")
    direction = "(each) => getComputedStyle(each).direction"
    assert page.locator("main h2").first.evaluate(direction) == "rtl"
    for selector in ("main pre", "main math", "main p code", "main table bdi"):
        assert page.locator(selector).first.evaluate(direction) == "ltr", selector
    units = page.locator("nav.units").bounding_box()
    main = page.locator("main").bounding_box()
    assert units
    assert main
    assert units["x"] > main["x"]


@pytest.mark.parametrize("width", [390, 1000, 1500])
@pytest.mark.parametrize("code", ["en", "ar"])
def test_nothing_is_wider_than_the_window_and_axe_finds_nothing(
    browser: Browser, folder: Path, code: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme="dark" if width > 999 else "light"
    )
    page = context.new_page()
    for name in (f"{UNIT}.html", "index.html", "reading.html", f"search.html?q={FOUND[code][0]}"):
        page.goto(f"{folder.as_uri()}/{code}/{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert not violations(page, "html"), name
    context.close()


def test_the_theme_is_the_systems_until_one_is_chosen(browser: Browser, folder: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{folder.as_uri()}/en/{UNIT}.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    comment = "getComputedStyle(document.querySelector('.shardwise pre .kn, .shardwise pre .n')).color"
    dark = page.evaluate(paper), page.evaluate(comment)
    page.locator(".theme").click()
    assert page.evaluate(paper) == "rgb(255, 255, 255)" != dark[0]
    assert page.evaluate(comment) != dark[1]
    page.goto(f"{folder.as_uri()}/en/index.html")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)", "dark pages cost ink"
    context.close()


def test_paper_has_no_navigation_and_shows_what_was_folded_up(browser: Browser, folder: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{folder.as_uri()}/en/{UNIT}.html")
    printed = "\n".join(each.extract_text() for each in pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages)
    text = translator("en")
    assert tiny.TITLES["en"][0] in printed
    assert "Right." in printed
    for id in ("site-contents", "site-search", "site-after", "site-code"):
        assert text(f"lessons.{id}") not in printed
    assert page.locator("main details[open]").count() == 0
    context.close()


def test_it_can_be_read_without_a_script(browser: Browser, folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{folder.as_uri()}/index.html")
    page.locator("a[hreflang='nl']").click()
    page.locator(f"main a[href='{UNIT}.html']").click()
    expect(page.locator("main h1")).to_contain_text(tiny.TITLES["nl"][0])
    option = page.locator(".item .options details").first
    option.locator("summary").click()
    expect(option.locator("div")).to_be_visible()
    context.close()


def test_an_option_says_why_and_the_keyboard_is_enough(page: Page, folder: Path) -> None:
    page.goto(f"{folder.as_uri()}/en/{UNIT}.html")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    summary = page.locator(".item .options summary").first
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".item .options details[open] strong")).to_have_text(re.compile("Right.|Not right."))
