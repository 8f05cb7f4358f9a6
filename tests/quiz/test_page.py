"""The quiz in a real browser: answered by keyboard alone, in English and Arabic, without an axe-core violation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from quiz import Answered, Session
from quiz.grading import right_answer
from quiz.notebook import Quiz
from tests.quiz.host import show
from translations import language as find

ITEMS = {
    "choice": "zero-1-what-for",
    "several": "zero-1-same-as-before",
    "number": "zero-1-state-bytes",
    "bytes": "zero-1-lab-optimizer",
    "order": "zero-1-order",
    "match": "zero-1-what-lies-where",
    "fault": "zero-1-gather-before-update",
}


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 900, "height": 900})
    context.set_default_timeout(10_000)
    yield context.new_page()
    context.close()


def test_headless_a_quiz_is_walked_without_a_page_and_shows_no_key() -> None:
    kept: list[Answered] = []
    quiz = Quiz("04-zero-1", "en", seed="ada", attempt=1, on_answer=kept.append)
    while not quiz.session.finished:
        feedback = quiz.session.variant.item.feedback
        assert quiz.state["graded"] is None
        assert feedback[:30] not in json.dumps(quiz.state, ensure_ascii=False)
        assert quiz.answer(right_answer(quiz.session.variant)).correct
        quiz.next()
    assert quiz.state["phase"] == "result"
    assert quiz.state["passed"]
    assert json.loads(json.dumps([asdict(each) for each in kept]))
    quiz.close()


def test_a_page_can_send_nothing_that_breaks_the_quiz() -> None:
    quiz = Quiz("04-zero-1", "ar", seed="ada", items=["zero-1-what-for"])
    for content in (None, 3, {"do": "answer"}, {"do": "next"}, {"do": "again"}, {"do": "answer", "answer": {"a": [1]}}):
        quiz._received(quiz, content, [])
        assert quiz.state["phase"] == "question"
    assert quiz.state["error"]
    quiz.close()


@pytest.mark.browser
@pytest.mark.parametrize("code", ["en", "ar"])
def test_every_form_is_answered_with_the_keyboard_and_axe_finds_nothing(page: Any, code: str) -> None:
    kept: list[Answered] = []
    session = Session("04-zero-1", code, seed="ada", items=list(ITEMS.values()), on_answer=kept.append)
    quiz = Quiz.of(session)
    errors = show(page, quiz)
    axe = Axe()
    root = page.locator(".quiz")
    assert root.get_attribute("dir") == find(code).direction
    assert root.get_attribute("lang") == code
    for form in ITEMS:
        assert quiz.state["form"] == form
        assert axe.run(page, context=".quiz").response["violations"] == []
        answer_by_keyboard(page, quiz)
        page.wait_for_function("document.querySelector('.quiz-status').innerText.length > 20")
        assert quiz.state["graded"]["correct"], form
        assert axe.run(page, context=".quiz").response["violations"] == []
        assert page.evaluate("document.activeElement.className") == "quiz-main"
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('.quiz-status').innerText === ''")
    assert page.locator(".quiz-ending").is_visible()
    assert axe.run(page, context=".quiz").response["violations"] == []
    assert [each.correct for each in kept] == [True] * len(ITEMS)
    assert page.evaluate("window.keys") == []
    assert errors == []


def answer_by_keyboard(page: Any, quiz: Quiz) -> None:
    """The right answer with Tab, arrows, Space and Enter; what is typed never leaves the widget."""
    made = quiz.session.variant
    right = right_answer(made)
    press = page.keyboard.press
    match made.item.form:
        case "choice" | "fault":
            page.locator(".quiz input[type=radio]").first.focus()
            press("Space")
            keys = [o["key"] for o in quiz.state["offered"]]
            for _ in range(keys.index(str(right))):
                press("ArrowDown")
            press("Enter")
        case "several":
            boxes = page.locator(".quiz input[type=checkbox]")
            boxes.first.focus()
            for option in quiz.state["offered"]:
                if option["key"] in right:
                    press("Space")
                press("Tab")
            page.locator(".quiz-main").focus()
            press("Enter")
        case "number" | "bytes":
            page.locator(".quiz input[name=answer]").focus()
            page.keyboard.type(str(right).translate(str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")))
            press("Enter")
        case "match":
            assert isinstance(right, dict)
            keys = [a["key"] for a in quiz.state["answers"]]
            for row in quiz.state["offered"]:
                page.locator(f".quiz select[name={row['key']}]").focus()
                for _ in range(keys.index(right[row["key"]]) + 1):
                    press("ArrowDown")
            page.locator(".quiz-main").focus()
            press("Enter")
        case "order":
            order = [o["key"] for o in quiz.state["offered"]]
            for place, key in enumerate(right):
                for at in range(order.index(key), place, -1):
                    button = page.locator(f".quiz button[data-key={key}]:not(:disabled)").first
                    button.focus()
                    press("Alt+ArrowUp" if place % 2 else "Enter")
                    order.insert(at - 1, order.pop(at))
                    assert page.evaluate("document.activeElement.dataset.key") == key
            page.locator(".quiz-main").focus()
            press("Enter")


@pytest.mark.browser
def test_a_wrong_answer_is_explained_beside_the_option_and_can_be_reported(page: Any) -> None:
    quiz = Quiz("04-zero-1", "en", seed="ada", items=["zero-1-what-for"])
    show(page, quiz)
    page.locator(".quiz-main").click()
    page.wait_for_selector(".quiz-error")
    assert "Choose one answer first" in page.locator("[role=status]").inner_text()
    page.get_by_label("It trains with fewer bits", exact=False).check()
    page.locator(".quiz-main").click()
    page.wait_for_selector(".quiz-is-wrong")
    assert "quantization" in page.locator("[role=status]").inner_text()
    assert page.locator("svg[aria-label='wrong']").count() == 1
    assert page.locator("svg[aria-label='right, not chosen']").count() == 1
    page.get_by_text("Report this question").click()
    page.locator(".quiz-report textarea").fill("Two answers are right.")
    page.locator(".quiz-make-report").click()
    page.wait_for_selector(".quiz-kept")
    assert page.evaluate("document.activeElement.className") == "quiz-kept"
    assert "Two answers are right." in page.locator(".quiz-report textarea[readonly]").input_value()
    assert page.locator(".quiz-report a").first.get_attribute("href").startswith("mailto:")
    assert page.locator(".quiz-report").get_attribute("open") is not None, "it stays open"
    assert Axe().run(page, context=".quiz").response["violations"] == []
    report = page.locator(".quiz-report input").input_value()
    assert report == f"item=zero-1-what-for version=1 seed={quiz.session.variant.seed} language=en"
    page.evaluate("document.body.setAttribute('data-jp-theme-light', 'false')")
    assert Axe().run(page, context=".quiz").response["violations"] == []
