"""The verification page in a real browser, from a file, without any request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from certificates import issue, render, verify
from certificates.page import build
from certificates.render.printed import compact
from tests.certificates import make_fixtures, samples
from tests.certificates.test_verification import bombs
from translations import translator

pytestmark = pytest.mark.browser
PAGE = build.PAGE.as_uri()
EXPECTED: dict[str, dict[str, Any]] = json.loads(make_fixtures.EXPECTED.read_text(encoding="utf-8"))["files"]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """The page in English; the test fails if it asks for anything or complains."""
    context = browser.new_context(locale="en", viewport={"width": 390, "height": 844})
    opened = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: wrong.append(message.text) if not _about_xml(message.text) else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto(PAGE)
    yield opened
    context.close()
    assert {each.partition("#")[0] for each in asked} == {PAGE}
    assert not wrong


def _about_xml(message: str) -> bool:
    """Chromium styles its own report on broken XML, and the policy forbids even that."""
    return message.startswith("Applying inline style violates")


def judged(page: Page) -> dict[str, Any]:
    page.locator("#steps li").nth(6).wait_for()
    return page.evaluate(
        """() => ({
            verdict: document.getElementById("result").dataset.verdict,
            steps: [...document.querySelectorAll("#steps li")].map((each) => ({
                step: each.dataset.step, result: each.dataset.result, reason: each.dataset.reason,
                detail: each.querySelector(".detail").textContent.replace(/[\\u2066-\\u2069]/g, ""),
            })),
        })"""
    )


def drop(page: Page, name: str, data: bytes) -> dict[str, Any]:
    page.evaluate("document.getElementById('steps').replaceChildren()")
    page.set_input_files("#file", {"name": name, "mimeType": "application/octet-stream", "buffer": data})
    return judged(page)


def plain(text: str) -> str:
    return text.translate(dict.fromkeys(range(0x2066, 0x206A)))


def test_the_committed_page_is_in_step_with_its_sources() -> None:
    assert build.PAGE.read_text(encoding="utf-8") == build.build(), "run: python -m certificates.page.build"


def test_page_and_python_agree_on_every_fixture(page: Page) -> None:
    for name, expected in EXPECTED.items():
        data = (make_fixtures.FOLDER / name).read_bytes()
        found, ours = drop(page, name, data), verify(data)
        failed = next((each for each in found["steps"] if each["result"] == "fail"), {"step": None, "reason": None})
        assert {"verdict": found["verdict"], "step": failed["step"], "reason": failed["reason"]} == expected, name
        assert [(each["step"], each["result"]) for each in found["steps"]] == [
            (each.step, each.result) for each in ours.steps
        ], name
        for theirs, mine in zip(found["steps"], ours.steps, strict=True):
            if mine.reason != "format-shape":  # Two validators may find another place first.
                assert (theirs["reason"], theirs["detail"]) == (mine.reason, plain(mine.detail)), name


def test_a_file_that_is_too_large_is_refused(page: Page) -> None:
    found = drop(page, "large.jwt", b"a" * 1_000_001)
    assert found["steps"][0]["reason"] == "format-large"


def test_the_page_refuses_bombs_as_python_does(page: Page) -> None:
    for name, (data, reason) in bombs().items():
        assert drop(page, name, data)["steps"][0]["reason"] == reason, name


@pytest.mark.parametrize(("email", "result"), [("noor@example.org ", "pass"), ("eve@example.org", "fail")])
def test_the_holder_is_compared_by_email(page: Page, email: str, result: str) -> None:
    page.fill("#email", email)
    data = (make_fixtures.FOLDER / "practice_valid.pdf").read_bytes()
    found = drop(page, "certificate.pdf", data)
    assert next(each for each in found["steps"] if each["step"] == "recipient")["result"] == result
    ours = verify(data, email=email)
    assert (ours.verdict, [each.result for each in ours.steps]) == (
        found["verdict"],
        [each["result"] for each in found["steps"]],
    )


def test_a_credential_in_the_fragment_and_a_pasted_one_are_judged(page: Page) -> None:
    certificate = issue(samples.arabic(), key=samples.KEY, language="ar")
    page.goto(f"{PAGE}#c={compact(certificate.jwt)}&lang=ar")
    assert judged(page)["verdict"] == "practice"
    assert page.get_attribute("html", "dir") == "rtl"
    assert page.inner_text("dd.holder") == samples.arabic().holder
    page.evaluate("document.getElementById('steps').replaceChildren()")
    georgian = issue(samples.georgian(), key=samples.KEY, language="ka")
    page.goto(f"{PAGE}#c={compact(georgian.jwt)}&lang=ka")
    assert judged(page)["verdict"] == "practice"
    assert page.get_attribute("html", "lang") == "ka"
    assert page.inner_text("dd.holder") == samples.georgian().holder
    assert page.inner_text("h1") == translator("ka")("certificates.page-title")
    page.evaluate("document.getElementById('steps').replaceChildren()")
    page.goto(f"{PAGE}#c=AAAA.BBBB")
    assert judged(page)["verdict"] == "invalid"
    page.evaluate("document.getElementById('steps').replaceChildren()")
    page.click("#paste-label")
    page.fill("#paste", certificate.jwt)
    page.click("#verify")
    assert judged(page)["verdict"] == "practice"


def test_a_hostile_name_stays_text(page: Page) -> None:
    name = '<img src=x onerror="document.title=1">&amp;{where}</script>'
    certificate = issue(samples.evidence(holder=name, title="<b>Unit</b>"), key=samples.KEY, language="en")
    for data in (render.jwt(certificate), render.svg(certificate), render.pdf(certificate)):
        assert drop(page, "certificate", data)["verdict"] == "practice"
        assert page.inner_text("dd.holder") == name
        assert page.locator("#result img, #result b").count() == 0


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("nl", "dark"), ("ar", "light"), ("ka", "dark")])
def test_the_page_is_accessible_and_fits_a_phone(browser: Browser, language: str, scheme: Any) -> None:
    context = browser.new_context(locale=language, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.goto(PAGE)
    assert page.get_attribute("html", "lang") == language
    violations = Axe().run(page).response["violations"]
    for name in ("practice_valid.pdf", "tampered_name.pdf"):
        drop(page, name, (make_fixtures.FOLDER / name).read_bytes())
        for details in page.locator("details").all():
            details.evaluate("each => each.open = true")
        violations += Axe().run(page).response["violations"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not violations, [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations]
    context.close()


def test_the_page_says_what_a_practice_certificate_does_not_prove(page: Page) -> None:
    drop(page, "certificate.jwt", (make_fixtures.FOLDER / "practice_valid.jwt").read_bytes())
    for language in ("en", "nl", "ar", "ka"):
        page.select_option("#language", language)
        meaning = plain(translator(language)("certificates.verdict-practice-meaning"))
        assert page.inner_text("#meaning") == meaning


def test_the_page_may_load_nothing() -> None:
    text = Path(build.PAGE).read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "unsafe" not in text.partition("<title>")[0]
    assert len(text.encode()) < 160_000
