"""The issuing service in a real browser over TLS: an exam in Arabic without a script, every page asked by axe, and a
stranger with a phone who comes by the code on a certificate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from shardwise import doctor
from shardwise.service import attempts, issuing
from shardwise.service.accounts import Person
from tests.browser.driver import FLAGS
from tests.shardwise.service import making, site
from tests.shardwise.service.site import FORMS, ORIGIN, Site
from translations import translator

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
SECONDS = 30


@dataclass
class Visit:
    site: Site
    browser: Browser

    def context(self, token: str = "", **more: Any) -> BrowserContext:
        """A new person at a browser, signed in where there is a token."""
        made = self.browser.new_context(ignore_https_errors=True, **more)
        made.set_default_timeout(SECONDS * 1000)
        if token:
            cookie = {"name": "__Host-shardwise", "value": token, "url": ORIGIN, "secure": True, "httpOnly": True}
            made.add_cookies([cookie])  # type: ignore[list-item]
        return made


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """The service, and Chromium that finds its name at the service's port."""
    with site.running(tmp_path_factory.mktemp("site")) as place, sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=doctor.chromium(), args=[*FLAGS, place.resolve])
        try:
            yield Visit(place, started)
        finally:
            started.close()


def test_an_exam_in_arabic_without_a_script(visit: Visit) -> None:
    """From the list of exams to the certificate's public page, with the browser's scripts switched off."""
    core = visit.site.core
    who, token = making.person(core, "amal.browser@example.org", name="أمل حداد")
    site.sitting(core, code="open-sesame", title="اختبار الصباح")
    say = translator("ar")
    context = visit.context(token, locale="ar", java_script_enabled=False, viewport={"width": 1100, "height": 800})
    page = context.new_page()
    page.goto(ORIGIN)
    assert page.get_attribute("html", "dir") == "rtl"
    page.locator(".card", has_text="اختبار الصباح").get_by_role("link").click()
    page.fill("#unlock", "open-sesame")
    page.get_by_role("button", name=say("shardwise.site-start")).click()
    seen = set()
    standing = attempts.attempts_of(core, who)[0]
    for number in range(1, standing.questions + 1):
        page.wait_for_url(f"**/questions/{number}")
        question = attempts.question(core, who, standing.id, number)
        seen.add(question.form)
        _answer(page, question.form, making.right(core, standing.id, number))
        page.locator("button[name=then][value=next]").click()
    assert seen == set(FORMS)
    page.wait_for_url("**/look")
    assert page.locator(".places a.open").count() == 0
    page.locator(".card a").click()
    page.fill("#source", "def optimizer_step(units):\n    pass\n")
    page.get_by_role("button", name=say("shardwise.site-task-send")).click()
    page.locator(".box.good").wait_for()
    page.get_by_role("link", name=say("shardwise.site-to-overview")).click()
    page.get_by_role("button", name=say("shardwise.site-hand-in")).click()
    page.wait_for_url("**/result")
    site.graded(core, standing.id)
    page.reload()
    assert say("shardwise.site-passed") in page.inner_text(".verdict")
    page.get_by_role("link", name=say("shardwise.site-to-certificate")).click()
    assert page.input_value("#name") == "أمل حداد"
    page.fill("#other", "Amal Haddad")
    page.get_by_role("button", name=say("shardwise.site-claim")).click()
    page.wait_for_url("**/c/*")
    shown = page.inner_text("main")
    assert "أمل حداد" in shown
    assert "Amal Haddad" in shown
    assert page.locator("#verdict:not(.bad)").count() == 1
    assert page.locator("section#english[lang=en][dir=ltr]").count() == 1
    context.close()


def _answer(page: Page, form: str, right: Any) -> None:
    """Answers as a person does: by choosing, typing, and moving steps one by one."""
    match form:
        case "choice" | "fault":
            page.check(f"#o-{right}")
        case "several":
            for each in right:
                page.check(f"#o-{each}")
        case "match":
            for row, fit in right.items():
                page.select_option(f"#m-{row}", fit)
        case "order":
            for place, step in enumerate(right):
                while (now := _order(page)).index(step) > place:
                    page.locator(f"button[value='up {step}']").click()
                    page.wait_for_load_state()
                    assert _order(page) != now
        case _:
            page.fill("#answer", right)


def _order(page: Page) -> list[str]:
    return [each.get_attribute("value") or "" for each in page.locator("input[name=order]").all()]


@pytest.mark.timeout(400)
def test_axe_finds_nothing_on_any_page(visit: Visit) -> None:
    """Every kind in English on a desk; what learners and strangers see in Arabic on a phone. No page is wider than its
    screen.
    """
    core = visit.site.core
    boss, token = making.person(core, "axe@example.org", role="administrator", name="Axe Boss")
    done = site.passed(core, boss)
    made = issuing.request(core, boss, done)
    locked = site.sitting(core, code="open-sesame", supervised=True)
    running = attempts.start(core, boss, site.sitting(core, attempts=9), language="en")
    forms = _one_of_each_form(core, boss, running.id, running.questions)
    both = ["/sign-in", f"/exams/{locked}", f"/attempts/{done}/result", f"/c/{made.id}"]
    desk = [
        "/",
        "/certificates",
        "/privacy",
        f"/attempts/{running.id}/look",
        f"/attempts/{running.id}/tasks/zero-1",
        "/admin",
        "/admin/certificates",
        f"/admin/certificates/{made.id}",
        "/admin/people",
        "/admin/cohorts",
        "/admin/sittings",
        "/admin/audit",
        "/nowhere",
    ]
    wrong: list[str] = []
    for code, viewport, paths in (
        ("en", {"width": 1100, "height": 800}, [*both, *desk]),
        ("ar", PHONE, [*both, *forms]),
    ):
        context = visit.context(token, locale=code, viewport=viewport, bypass_csp=True)
        stranger = visit.context(locale=code, viewport=viewport, bypass_csp=True)
        for path in paths:
            page = (stranger if path == "/sign-in" else context).new_page()
            page.goto(ORIGIN + path)
            found = Axe().run(page).response["violations"]
            wrong += [f"{code} {path}: {rule['id']} {node['target']}" for rule in found for node in rule["nodes"]]
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                wrong.append(f"{code} {path}: {wide} pixels wider than the screen")
            page.close()
        context.close()
        stranger.close()
    assert not wrong, "\n".join(wrong)


def _one_of_each_form(core: Any, who: Person, attempt: str, questions: int) -> list[str]:
    found: dict[str, int] = {}
    for number in range(1, questions + 1):
        found.setdefault(attempts.question(core, who, attempt, number).form, number)
    assert set(found) == set(FORMS)
    return [f"/attempts/{attempt}/questions/{number}" for number in found.values()]


def test_the_clock_counts_down_and_the_end_comes_by_itself(visit: Visit) -> None:
    """By the style sheet and a header, without a script."""
    core = visit.site.core
    who, token = making.person(core, "clock@example.org")
    running = attempts.start(core, who, site.sitting(core), language="en")
    context = visit.context(token)
    page = context.new_page()
    page.goto(f"{ORIGIN}/attempts/{running.id}/questions/1")
    said = page.evaluate("getComputedStyle(document.querySelector('.clock-left'), '::after').content")
    assert "counter(left)" in said
    left = page.evaluate("getComputedStyle(document.querySelector('.clock-left')).getPropertyValue('--left')")
    assert int(left) in (44, 45)
    context.close()


@pytest.mark.poppler
@pytest.mark.parametrize("code", ["nl", "ar"])
def test_a_stranger_with_a_phone_knows_at_once(visit: Visit, tmp_path: Path, code: str) -> None:
    """The code on the printed certificate is read as a camera reads it; its address is opened by a new browser with a
    phone's screen; issuer, validity and results stand in view before anything is moved, well within half a minute.
    """
    import zxingcpp

    core = visit.site.core
    who, _ = making.person(core, f"phone.{code}@example.org", name="Samira de Wit")
    made = issuing.request(core, who, site.passed(core, who, language=code, supervised=True), language=code)
    with visit.site.client() as client:
        pdf = client.get(f"/c/{made.id}.pdf?lang={code}").content
    picture = _page_of(pdf, tmp_path)
    address = next(each.text for each in zxingcpp.read_barcodes(picture))
    assert address == f"{ORIGIN}/c/{made.id}"
    context = visit.context(locale=code, viewport=PHONE, is_mobile=True, has_touch=True, java_script_enabled=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    began = time.monotonic()
    page.goto(address)
    say = translator(code)
    issuer = issuing.issuing_of(core).issuer.name(code)
    for wanted in (
        page.locator("#verdict h2"),
        page.get_by_text(issuer).first,
        page.locator("h1"),
        page.locator("#facts dt", has_text=say("certificates.result-quiz")).first,
        page.locator("#facts dd", has_text="100%").first,
        page.locator("#facts dt", has_text=say("certificates.result-labs")).first,
        page.locator("#facts dd", has_text=say("certificates.conditions-supervised")).first,
    ):
        box = wanted.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= PHONE["height"], wanted
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"] + 1
    assert time.monotonic() - began < SECONDS
    assert page.evaluate("window.scrollY") == 0
    assert all(each.startswith(ORIGIN) for each in asked)
    assert page.get_attribute("html", "lang") == code
    page.locator("a", has_text=say("shardwise.site-verify")).first.click()
    page.locator("#result[data-verdict='issuer']").wait_for()
    context.close()


def _page_of(pdf: bytes, folder: Path) -> Any:
    """The first page as a picture, by poppler."""
    import subprocess

    import numpy as np

    (folder / "c.pdf").write_bytes(pdf)
    command = ["pdftoppm", "-gray", "-r", "150", "-f", "1", "-l", "1", str(folder / "c.pdf"), str(folder / "c")]
    subprocess.run(command, check=True, timeout=60)
    data = next(folder.glob("c-*.pgm")).read_bytes()
    kind, size, _most, pixels = data.split(b"\n", 3)
    assert kind == b"P5"
    width, height = (int(each) for each in size.split())
    return np.frombuffer(pixels, dtype=np.uint8).reshape(height, width)
