"""Feedback says what a student needs and nothing that a student must not know, offline, in their language."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labs.exercises import exercise
from labs.exercises.verdict import Verdict
from shardwise.classroom import course as classes
from shardwise.classroom import feedback
from shardwise.classroom.batch import result_path
from shardwise.classroom.feedback import Marks, page
from shardwise.classroom.grading import form, grade_one
from shardwise.classroom.mathml import course_text, from_tex, student_text
from shardwise.classroom.result import Finding, Part, Result
from shardwise.classroom.submission import read
from tests.shardwise.classroom.a_class import code, hand_in, made
from translations import language, released

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.timeout(120)
LAB = "zero-1"
HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> [link](javascript:alert(3)) ![p](http://x.invalid/a.png) "
    "$\\text{<img src=x onerror=alert(4)>}$ <https://x.invalid> `</code><b>` \u202eturned"
)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    """The published wrong version, graded with real ranks in every language."""
    folder = tmp_path_factory.mktemp("class")
    made(folder, exercises=(LAB,), students={each.code: each.code for each in released()})
    found = {}
    for each in released():
        answers = {"code": code("broken", LAB), "fault": '{"line": 1, "rule": ""}', "explain": "Because."}
        hand_in(folder, each.code, answers, assignment=LAB, language=each.code)
        found[each.code] = grade_one(
            folder / "submitted" / each.code / LAB,
            exercise_id=LAB,
            language=each,
            sandboxed=False,
            course=folder,
            student=each.code,
        ).about(handed_in="2026-11-20T10:00:00+00:00")
        path = result_path(folder, student=each.code, assignment=LAB)
        path.parent.mkdir(parents=True)
        found[each.code].write(path)
    return folder, found


@pytest.mark.parametrize("each", released(), ids=lambda each: each.code)
def test_it_says_what_failed_on_which_rank_by_which_rule_and_where_to_look(
    failing: tuple[Path, dict[str, Result]], each: language
) -> None:
    folder, found = failing
    result, own = found[each.code], exercise(LAB, each)
    (written,) = feedback.write_pages(folder, student=each.code)
    text = written.read_text(encoding="utf-8")
    assert f'<html lang="{each.code}" dir="{each.direction}">' in text
    assert result.verdict.rank is not None
    assert result.verdict.failed_at == own.broken
    shown = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", text)
    rule = re.sub(r"[\u2066-\u2069`]|\{.*?\}", "", own.failures[own.broken.partition("/")[2]])[:40].partition(",")[2]
    assert re.sub(r"\s+", " ", rule.strip())[:20] in re.sub(r"\s+", " ", shown)
    for hint in own.hints[:2]:
        assert re.sub(r"[\u2066-\u2069`]", "", hint)[:25] in shown
    assert re.sub(r"[\u2066-\u2069`]", "", own.hints[2])[:40] not in shown
    assert "Because." in text


def test_it_holds_no_seed_no_hidden_input_and_nothing_of_the_mark_scheme(
    failing: tuple[Path, dict[str, Result]],
) -> None:
    from labs.exercises.faults import task

    folder, found = failing
    for each in released():
        (written,) = feedback.write_pages(folder, student=each.code)
        text = written.read_text(encoding="utf-8")
        result = found[each.code]
        for secret in (str(result.seed), result.sha256, result.digest, *task(LAB, each).explain.criteria.values()):
            assert secret not in text
        assert code("solution", LAB)[-200:] not in text


def test_what_a_student_wrote_or_printed_is_shown_and_never_used(tmp_path: Path) -> None:
    course = made(tmp_path, exercises=(LAB,))
    place = hand_in(tmp_path, "anna", {"code": f"%%exercise {LAB}\n# {HOSTILE}", "explain": HOSTILE}, assignment=LAB)
    work = read(place, form(tmp_path, course.assignment(LAB)))
    verdict = Verdict(
        passed=False, points=0, of=10, failed_at="x/y", message=HOSTILE, finding=HOSTILE, rank=0, printed=HOSTILE
    )
    names = ("code", "fault", "numbers", "explain")
    result = Result(
        exercise=LAB,
        language="en",
        sha256="",
        seed=1,
        sandboxed=True,
        verdict=verdict,
        seconds=1,
        parts=tuple(Part(name=each, cell=each, points=0.0, of=4.0, message=HOSTILE) for each in names),
        findings=(Finding(id="handed-in-renamed", text=HOSTILE),),
    )
    text = page(result, course, work, Marks(comments=dict.fromkeys(names, HOSTILE)))
    tags = set(re.findall(r"<(\w+)", text))
    assert not tags & {"a", "img", "script", "iframe", "b", "object", "svg", "link", "form", "input", "base"}
    assert "onerror=alert" in text
    for used in ("<img", "<script", "<a ", "\u202e", 'src="', "href"):
        assert used not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("of $2^10$ bytes", "<msup><mn>2</mn><mrow><mn>10</mn></mrow></msup>"),
        ("$16·Ψ/N_d$", "<msub><mi>N</mi><mrow><mi>d</mi></mrow></msub>"),
        ("$a ≤ b$", "<mo>≤</mo>"),
        ("$a < b$", "<mo>&lt;</mo>"),
    ],
)
def test_formulas_of_the_course_are_mathml(text: str, expected: str) -> None:
    shown = course_text(text)
    assert expected in shown
    assert "$" not in shown


def test_formulas_of_students_are_mathml_or_stay_words() -> None:
    assert "<mfrac>" in from_tex(r"\frac{16 \Psi}{N_d}")
    assert "<msup>" in student_text("as $2^{10}$ says")
    for odd in (r"\frac{", "^", r"\begin{x}", "{" * 3000, r"\text{<b>x</b>}", r"\href{javascript:alert(1)}{x}", "&"):
        shown = from_tex(odd)
        assert 'javascript:alert(1)"' not in shown
        assert "<b>" not in shown
        assert shown.startswith(("<code", "<math"))


def test_every_formula_of_the_banks_can_be_set() -> None:
    """Each becomes well-formed MathML."""
    from xml.etree import ElementTree

    from quiz import items, units

    said = [item.feedback for unit in units() for item in items(unit)]
    assert len(said) > 100
    for each in said:
        for formula in re.findall(r"<math.*?</math>", course_text(each)):
            ElementTree.fromstring(formula)


def test_a_person_s_points_count_before_those_of_grading(failing: tuple[Path, dict[str, Result]]) -> None:
    folder, found = failing
    course = classes.read(folder)
    result = replace(
        found["en"],
        parts=tuple(replace(each, points=1.0 if each.name != "explain" else None) for each in found["en"].parts),
    )
    waits = page(result, course)
    assert "not marked yet" in waits
    given = page(result, course, None, Marks(points={"explain": 3.5}, penalty=1.5))
    assert "not marked yet" not in given
    assert ">−1.5<" in given
    assert ">5<" in given


@pytest.mark.browser
def test_a_page_needs_no_network_and_reads_from_the_right_in_arabic(
    failing: tuple[Path, dict[str, Result]], browser: Browser
) -> None:
    folder, _ = failing
    (written,) = feedback.write_pages(folder, student="ar")
    context = browser.new_context(viewport={"width": 390, "height": 800})
    try:
        opened = context.new_page()
        asked: list[str] = []
        wrong: list[str] = []
        opened.on("request", lambda request: asked.append(request.url))
        opened.on("console", lambda message: wrong.append(message.text))
        opened.goto(written.as_uri())
        assert asked == [written.as_uri()]
        assert not wrong
        assert opened.evaluate("getComputedStyle(document.body).direction") == "rtl"
        assert opened.evaluate(
            "[...document.querySelectorAll('pre')].every(p => getComputedStyle(p).direction == 'ltr')"
        )
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        table, part = opened.locator("table"), opened.locator("tbody th").first
        assert part.bounding_box()["x"] > table.bounding_box()["x"] + table.bounding_box()["width"] / 2 - 60  # type: ignore[index]
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(opened)
        assert not found.response["violations"], found.generate_report()
    finally:
        context.close()
