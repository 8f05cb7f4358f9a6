"""The verification page that an issuer hosts, in a real browser: its keys pinned, its own server the only one that it
may ask, and the verdict on each certificate of the shared table.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route

from certificates import verify
from certificates.page import build
from tests.certificates import issued_cases, issuers
from tests.certificates.issued_cases import Answer
from tests.certificates.test_issued import FILES, FOLDER, served
from tests.certificates.test_page import PAGE, drop, plain
from translations import translator

pytestmark = pytest.mark.browser
HOSTED = f"{issuers.ADDRESS}/verify"
ANSWERS = issued_cases.answers()
JUDGE = """async ([files, trust]) => {
  const found = {};
  for (const [name, data, email] of files) {
    const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const list = trust ? readTrust(new TextEncoder().encode(trust)) : NOBODY;
    const { verdict, steps, stranger } = await verify(bytes, email, { trust: list, ask });
    found[name] = { verdict, stranger, steps: steps.map(({ step, result, reason }) => [step, result, reason]) };
  }
  return found;
}"""


def answer(route: Route) -> None:
    """What the issuer's server says; anything else is not there at all."""
    address = route.request.url
    if address == HOSTED:
        route.fulfill(body=build.build(issuers.ISSUER), content_type="text/html; charset=utf-8")
        return
    found = ANSWERS.get(address, Answer(status=404))
    headers = {"location": found.location} if found.location else {}
    route.fulfill(status=found.status, body=found.body, headers=headers)


@pytest.fixture
def hosted(browser: Browser) -> Iterator[Page]:
    """The issuer's page on a phone; the test fails if it asks anybody else, or complains."""
    context = browser.new_context(locale="en", viewport={"width": 390, "height": 844})
    page = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.route("**/*", answer)
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(HOSTED)
    yield page
    context.close()
    assert all(each == HOSTED or each.startswith(f"{issuers.ADDRESS}/status/") for each in asked)
    assert not wrong


def rows() -> list[list[Any]]:
    return [
        [name, base64.b64encode((FOLDER / name).read_bytes()).decode(), FILES[name]["email"] or ""] for name in FILES
    ]


def test_page_and_python_agree_on_every_certificate_of_an_issuer(hosted: Page) -> None:
    found = hosted.evaluate(JUDGE, [rows(), json.dumps(issuers.TRUST.as_json())])
    for name, expected in FILES.items():
        email = expected["email"]
        ours = verify((FOLDER / name).read_bytes(), trust=issuers.TRUST, fetch=served, email=email)
        theirs = found[name]
        assert theirs["verdict"] == expected["verdict"] == ours.verdict, name
        assert theirs["steps"] == [[each.step, each.result, each.reason] for each in ours.steps], name
        assert theirs["stranger"] == (ours.stranger and ours.stranger.as_json()), name


def test_the_page_without_a_list_agrees_too(browser: Browser) -> None:
    page = browser.new_page()
    page.goto(PAGE)
    found = page.evaluate(JUDGE, [rows(), ""])
    listed = page.evaluate(JUDGE, [rows(), json.dumps(issuers.TRUST.as_json())])
    page.close()
    for name in FILES:
        data, email = (FOLDER / name).read_bytes(), FILES[name]["email"]
        for theirs, ours in (
            (found[name], verify(data, email=email)),
            (listed[name], verify(data, email=email, trust=issuers.TRUST)),
        ):
            assert theirs["verdict"] == ours.verdict, name
            assert theirs["steps"] == [[each.step, each.result, each.reason] for each in ours.steps], name


@pytest.mark.parametrize("language", ["en", "nl", "ar"])
def test_a_reader_sees_issuer_validity_and_results_at_once(hosted: Page, language: str) -> None:
    hosted.select_option("#language", language)
    text = translator(language)
    drop(hosted, "certificate.pdf", (FOLDER / "issued_valid.pdf").read_bytes())
    issuer = issuers.ISSUER.name(language)
    assert plain(hosted.inner_text("#verdict")) == plain(text("certificates.verdict-issuer", issuer=issuer)).replace(
        "\u2068", ""
    )
    shown = plain(hosted.inner_text("#facts"))
    for expected in ("Noor el-Amrani", "نور العمراني", "85%", "90%"):
        assert expected in shown
    assert text("certificates.conditions-supervised") in shown
    assert hosted.evaluate("document.documentElement.scrollWidth <= innerWidth")
    hosted.locator("#result details").evaluate("each => each.open = true")
    violations = Axe().run(hosted).response["violations"]
    assert not violations, [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations]


def test_an_unknown_issuer_is_named_by_domain_and_fingerprint_and_nothing_it_claims_is_shown(hosted: Page) -> None:
    found = drop(hosted, "stranger.jwt", (FOLDER / "stranger.jwt").read_bytes())
    assert found["verdict"] == "unknown-issuer"
    stranger = verify((FOLDER / "stranger.jwt").read_bytes()).stranger
    assert stranger is not None
    shown = plain(hosted.inner_text("#stranger"))
    assert stranger.domain in shown
    assert str(stranger.fingerprint) in shown
    assert stranger.address in shown
    assert not hosted.is_visible("#signed")
    assert "Noor" not in hosted.inner_text("#result")


def test_the_reader_loads_a_list_and_the_offline_page_says_that_the_status_was_not_checked(browser: Browser) -> None:
    context = browser.new_context(locale="en", viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(PAGE)
    data = (FOLDER / "issued_valid.jwt").read_bytes()
    assert drop(page, "certificate.jwt", data)["verdict"] == "unknown-issuer"
    page.locator("#own-list").evaluate("each => each.open = true")
    trust = json.dumps(issuers.ISSUER.trust.as_json()).encode()
    page.set_input_files("#trust", {"name": "trust.json", "mimeType": "application/json", "buffer": trust})
    page.locator('#result[data-verdict="status-not-checked"]').wait_for()
    assert "status not checked" in page.inner_text("#verdict")
    page.set_input_files("#trust", {"name": "trust.json", "mimeType": "application/json", "buffer": b"{}"})
    page.locator("#notice:not([hidden])").wait_for()
    assert drop(page, "certificate.jwt", data)["verdict"] == "unknown-issuer"
    context.close()


def test_the_hosted_page_may_ask_its_own_lists_and_nothing_else(hosted: Page) -> None:
    policy = build.build(issuers.ISSUER).partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src 'none'" in policy
    assert f"connect-src {issuers.ADDRESS}/status/;" in policy
    assert "connect-src" not in build.build()
    refused = hosted.evaluate("fetch('https://evil.example/').then(() => 'asked', (error) => String(error))")
    assert "Failed to fetch" in refused
