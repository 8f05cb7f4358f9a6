"""A learner's whole path in Chromium: home, lesson, lab, exercise, quiz by keyboard, certificate, verification.

In English and in Arabic, each from an empty record; in Dutch what is different there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import certificates
from certificates.page import build
from labs.exercises import exercise
from quiz import Session
from quiz.grading import right_answer
from shardwise.record import Record
from tests.browser.driver import WAIT, Course, Lesson, tab_to, violations
from translations import language, translator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

UNIT = "04-zero-1"
HOLDER = {"en": "Ada Lovelace", "ar": "ليلى حدّاد"}
LAB = "steps=5, layers=1, hidden=64, slow=0.15"
OURS = (".shardwise", ".shardwise-ask", ".shardwise-live", ".shardwise-diagnosis", ".quiz", "figure[role=img]")


class Walk:
    """A course and a page on it; what the page asked elsewhere and complained of is kept."""

    def __init__(self, code: str, course: Course, context: BrowserContext) -> None:
        self.language, self.course, self.context = language(code), course, context
        self.text = translator(code)
        self.outside: list[str] = []
        self.errors: list[str] = []
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(WAIT)
        page.on("request", lambda request: None if _is_here(request.url) else self.outside.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    @property
    def path(self) -> str:
        return f"{self.language.code}/{UNIT}.ipynb"


def _is_here(url: str) -> bool:
    return url.startswith(("http://localhost:", "ws://localhost:", "data:", "blob:", "file:"))


@pytest.fixture
def walk(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    code = request.param
    with Course(code, tmp_path / "learner") as course:
        monkeypatch.setenv("SHARDWISE_DATA", str(course.data))
        monkeypatch.setenv("SHARDWISE_HOME", str(course.home))
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        walk = Walk(code, course, context)
        yield walk
        context.close()
        ended = course.stop()
    assert (ended, course.left()) == (0, []), "".join(course.said)
    assert walk.outside == []


@pytest.mark.parametrize("walk", ["en", "ar"], indirect=True)
def test_the_whole_path(walk: Walk, tmp_path: Path) -> None:
    walk.page.goto(walk.course.address)
    see_home(walk)
    lesson = Lesson(walk.page, walk.path)
    begin(walk, lesson)
    watch_the_lab(walk, lesson)
    pass_the_exercise(walk, lesson)
    answer_the_quiz(walk, lesson)
    files = obtain_the_certificate(walk, lesson)
    verify(walk, files)
    lesson.save()
    assert walk.errors == []  # from here on JupyterLab misses its kernel and says so
    lesson.shut_down()
    reopen_without_a_kernel(walk)
    export(walk, tmp_path)


def see_home(walk: Walk) -> None:
    """The home page is in the learner's language; its menu is English where JupyterLab doesn't speak it."""
    page, code = walk.page, walk.language.code
    home = Lesson(page, f"{code}/home.ipynb")
    expect(page.locator(".lm-MenuBar-itemLabel").first).to_have_text("File")
    shown = home.run("map")
    expect(shown.locator(".shardwise").first).to_have_attribute("dir", walk.language.direction)
    menu_words = shown.locator("caption", has_text=walk.text("shardwise.menu-title"))
    assert menu_words.count() == (code != "en")
    assert violations(page, *OURS) == []
    home.show("map").get_by_role("link", name=walk.text(f"shardwise.unit-{UNIT}")).click()


def begin(walk: Walk, lesson: Lesson) -> None:
    """The first cells; prose in the language's direction, code from left to right."""
    page = walk.page
    directed = "element => getComputedStyle(element).direction"
    assert lesson.root.locator(".jp-MarkdownOutput h1").evaluate(directed) == walk.language.direction
    expect(lesson.run("open").locator("li")).to_have_count(3)
    assert lesson.root.locator(".jp-MarkdownOutput p").nth(1).evaluate(directed) == walk.language.direction
    assert lesson.show("open").locator(".cm-content").evaluate(directed) == "ltr"
    table = lesson.run("the-team").locator("table")
    assert table.evaluate(directed) == walk.language.direction
    head, number = (table.locator(each).first.bounding_box() for each in ("tbody th", "tbody td"))
    assert head is not None
    assert number is not None
    assert (head["x"] > number["x"]) == (walk.language.direction == "rtl")
    source = lesson.source("before")
    lesson.write("before", source.replace("steps=12", LAB))
    lesson.run("before")
    lesson.run("predict-states")
    tab_to(page, "[data-cell='predict-states'] input")
    page.keyboard.type("1.5 kB")
    page.keyboard.press("Enter")
    expect(lesson.show("predict-states").locator(".said")).to_contain_text("1.50")


def watch_the_lab(walk: Walk, lesson: Lesson) -> None:
    """The plot grows while the cell is busy; then it is a picture."""
    page = walk.page
    output = lesson.start("run-1")
    rows = "least => Number(document.querySelector('.shardwise-live')?.dataset.rows) > least"
    page.wait_for_function(rows, arg=0)
    first = int(output.locator(".shardwise-live").get_attribute("data-rows") or 0)
    page.wait_for_function(rows, arg=first)
    assert lesson.is_busy("run-1")
    assert page.locator(".shardwise-live").get_attribute("dir") == walk.language.direction
    assert violations(page, ".shardwise-live") == []
    lesson.wait("run-1")
    expect(output.locator("figure[role=img] svg")).to_be_visible()
    assert output.locator(".shardwise-live").count() == 0
    expect(lesson.run("compare").locator("table")).to_have_count(2)
    expect(lesson.run("difference").locator("pre")).to_have_css("direction", "ltr")
    assert violations(page, *OURS) == []


def pass_the_exercise(walk: Walk, lesson: Lesson) -> None:
    """As the stub it fails with a word on why; as the solution it gets every point."""
    for source, passed in ((None, False), (exercise("zero-1").code("solution"), True)):
        if source is not None:
            lesson.write("stub", f"%%exercise zero-1\n{source}")
        lesson.run("stub")
        verdict = lesson.run("check-stub")
        title = walk.text("shardwise.check-passed" if passed else "shardwise.check-failed")
        expect(verdict.locator(".box strong").first).to_have_text(title)
        expect(verdict.locator(".box")).to_have_attribute("role", "status")
    assert violations(walk.page, *OURS) == []
    progress = Record.open().progress(UNIT)
    assert progress.checks == {"zero-1": True}


def answer_the_quiz(walk: Walk, lesson: Lesson) -> None:
    """With Tab, arrows, Space and Enter, from the cell on, until the unit is mastered."""
    page = walk.page
    output = lesson.run("quiz")
    expect(output.locator(".quiz")).to_have_attribute("dir", walk.language.direction)
    attempt = Record.open().attempt(unit=UNIT, language=walk.language.code)
    session = Session(UNIT, walk.language, seed=str(attempt.seed), attempt=attempt.number)  # the same questions
    assert session.total == 9
    while not session.finished:
        looked_at = session.number == 1
        assert not looked_at or violations(page, ".quiz") == []
        answer(page, session)
        page.wait_for_selector("[data-cell='quiz'] .quiz-is-right")
        assert not looked_at or violations(page, ".quiz") == []
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-cell='quiz'] .quiz-status:empty", state="attached")
        session.answer(right_answer(session.variant))
        session.next()
    expect(output.locator(".quiz-ending")).to_be_visible()
    assert violations(page, ".quiz") == []
    expect(output.locator(".kept")).to_be_hidden()
    assert Record.open().progress(UNIT).mastered


def answer(page: Page, session: Session) -> None:
    """The right answer to the question that is open, by keyboard alone."""
    asked, right = session.question(), right_answer(session.variant)
    keys = [each.key for each in asked.offered]
    press, here = page.keyboard.press, "[data-cell='quiz'] .quiz"
    match asked.form:
        case "choice" | "fault":
            tab_to(page, f"{here} input[type=radio]")
            press("Space")
            for _ in range(keys.index(str(right))):
                press("ArrowDown")
        case "several":
            for key in right:
                tab_to(page, f"{here} input[value='{key}']")
                press("Space")
        case "number" | "bytes":
            tab_to(page, f"{here} input[name=answer]")
            page.keyboard.type(str(right))
        case "match":
            assert isinstance(right, dict)
            answers = [each.key for each in asked.answers]
            for key in keys:
                tab_to(page, f"{here} select[name='{key}']")
                for _ in range(answers.index(right[key]) + 1):
                    press("ArrowDown")
        case "order":
            for place, key in enumerate(right):
                for at in range(keys.index(key), place, -1):
                    tab_to(page, f"{here} button[data-key='{key}']:not(:disabled)")
                    press("Alt+ArrowUp")
                    keys.insert(at - 1, keys.pop(at))
    tab_to(page, f"{here} .quiz-main")
    press("Enter")


def obtain_the_certificate(walk: Walk, lesson: Lesson) -> dict[str, Path]:
    """For the name that is typed; four files."""
    page = walk.page
    output = lesson.run("certificate")
    tab_to(page, "[data-cell='certificate'] input")
    page.keyboard.type(HOLDER[walk.language.code])
    page.keyboard.press("Enter")
    expect(output.locator(".badge svg")).to_be_visible()
    assert violations(page, *OURS) == []
    expect(output.locator("a")).to_have_count(4)
    files = {path.suffix[1:]: path for path in (walk.course.home / "certificates").iterdir()}
    assert set(files) == {"pdf", "png", "svg", "jwt"}
    return files


def verify(walk: Walk, files: dict[str, Path]) -> None:
    """The command, the function and the page say the same of every form."""
    command = [sys.executable, "-m", "shardwise.cli", "certificate", "verify", str(files["pdf"]), "--json"]
    asked = subprocess.run(command, env=walk.course.environment, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1, "a practice certificate proves no identity"
    assert json.loads(asked.stdout)["verdict"] == "practice"
    page = walk.open()
    page.goto(build.PAGE.as_uri())
    page.select_option("#language", walk.language.code)
    for path in files.values():
        page.evaluate("document.getElementById('steps').replaceChildren()")
        page.set_input_files("#file", path)
        page.locator("#steps li").nth(6).wait_for()
        assert page.locator("#result").get_attribute("data-verdict") == "practice"
        expect(page.locator("dd.holder")).to_have_text(HOLDER[walk.language.code])
        assert certificates.verify(path.read_bytes()).verdict == "practice"
    page.close()


def reopen_without_a_kernel(walk: Walk) -> None:
    """What was saved shows where no kernel runs: picture, tables, the result of the quiz."""
    walk.page.close()
    page = walk.page = walk.open()
    page.route("**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.goto(walk.course.at(walk.path))
    lesson = Lesson(page, walk.path, kernel=False)
    for id, shown in (
        ("the-team", "table"),
        ("run-1", "figure[role=img] svg"),
        ("compare", "table"),
        ("check-stub", ".box.good"),
        ("quiz", ".kept table"),
        ("certificate", ".badge svg"),
    ):
        expect(lesson.show(id).locator(shown).first).to_be_visible()
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    for id in ("difference", "certificate"):
        lesson.show(id)
        assert violations(page, *OURS) == []


def export(walk: Walk, folder: Path) -> None:
    """The page that JupyterLab's menu exports shows the same from a file, without asking anyone for anything."""
    page = walk.page
    answered = page.request.get(walk.course.at(walk.path, kind="nbconvert/html"), timeout=WAIT)
    assert answered.ok, answered.text()[:500]
    file = folder / "lesson.html"
    file.write_bytes(answered.body())
    page.goto(file.as_uri())
    expect(page.locator("figure[role=img] svg").first).to_be_visible()
    expect(page.locator(".kept table")).to_be_visible()
    assert page.locator("math").count() > 5
    for part in (".jp-MarkdownOutput p", "figure[role=img]", ".shardwise table"):
        assert page.locator(part).first.evaluate("each => getComputedStyle(each).direction") == walk.language.direction
    expect(page.locator(".jp-CodeCell pre").first).to_have_css("direction", "ltr")
    assert violations(page, *OURS) == []


@pytest.mark.parametrize("walk", ["nl"], indirect=True)
def test_the_dutch_course_has_dutch_menus_and_leads_to_the_other_languages(walk: Walk) -> None:
    page = walk.page
    page.goto(walk.course.address)
    home = Lesson(page, "nl/home.ipynb")
    expect(page.locator(".lm-MenuBar-itemLabel").first).to_have_text("Bestand")
    shown = home.run("map")
    expect(shown.locator(".shardwise").first).to_have_attribute("lang", "nl")
    assert shown.locator("caption", has_text=walk.text("shardwise.menu-title")).count() == 0
    home.show("map").get_by_role("link", name=language("ar").name).click()
    arabic = Lesson(page, "ar/home.ipynb")
    expect(page.locator(".jp-NotebookPanel.shardwise-rtl:not(.lm-mod-hidden) h1")).to_be_visible()
    expect(arabic.run("map").locator(".shardwise").first).to_have_attribute("dir", "rtl")
    arabic.show("map").get_by_role("link", name=language("en").name).click()
    Lesson(page, "en/home.ipynb")
    assert walk.errors == []
