"""The whole way of an assignment on a real JupyterHub: an instructor and two students with accounts of their own, one
working in Arabic. Release, fetch, hand in from JupyterLab, collect, grade, formgrader, feedback, export.

The course is brought to the Hub by its own command. The students' servers have nothing of the course but that folder.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import WAIT, violations
from tests.shardwise.classroom import a_class, a_hub
from translations import translator

pytestmark = [pytest.mark.browser, pytest.mark.bwrap, pytest.mark.timeout(600)]

ID = a_class.EXERCISE
COURSE = "big-models"
WRITTEN = "كل رتبة تحتفظ بجزء من الحالات: $\\frac{12}{N}$ بايت.\n\n<script>window.taken = 1</script>"
COMMENT = "Say which rank keeps what."
_TEACHER = """
import sys
from traitlets.config.loader import PyFileConfigLoader
from nbgrader.apps import NbGraderAPI
from shardwise import cli

def ours(*words):
    assert cli.run(["classroom", *words]) == 0, words

def nbgraders(does, *given):
    api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path=".").load_config())
    done = getattr(api, does)(*given)
    assert done["success"], done
"""
_FIRST = """
import pathlib
pathlib.Path("students.csv").write_text(sys.argv[3])
ours("new", ".", "--units", "1", "--languages", "en,nl,ar", "--zone", "Africa/Cairo", "--title", "Big models",
     "--exchange", sys.argv[1], "--due", sys.argv[2], "--students", "students.csv")
nbgraders("release_assignment", "ID")
"""
_THEN = """
nbgraders("collect", "ID")
ours("grade", "ID")
"""
_LAST = """
ours("feedback")
nbgraders("release_feedback", "ID")
ours("export", "--format", "moodle", "--out", "marks.csv")
"""
_STUDENT = """
import json, sys
from shardwise import cli
from shardwise.classroom import student
from tests.shardwise.classroom import a_class

here = student.the_class(None)
path = here.fetch("ID").notebooks["en"]
answers = a_class.right_answers(here.course, here.student, "ID")
path.write_text(json.dumps(a_class.answered(json.loads(path.read_text()), answers)))
assert cli.run(["classroom", "submit", "ID", "--yes", "--json"]) == 0
"""


@dataclass
class Place:
    """A Hub with its class: who is who, and where."""

    hub: a_hub.Hub
    python: Path
    who: dict[str, str]
    course: Path
    settings: Path
    outside: list[str] = field(default_factory=list)

    def teach(self, script: str, *words: str) -> str:
        return self.does("teacher", _TEACHER + script, *words, cwd=self.course)

    def does(self, name: str, script: str, *words: str, cwd: Path | None = None) -> str:
        """A program run as one of them, without a browser."""
        repository = str(Path(__file__).parents[3])
        done = a_hub.run_as(
            self.who[name],
            [str(self.python), "-c", script.replace('"ID"', f'"{ID}"'), *words],
            cwd=cwd,
            environment={"PYTHONPATH": repository, "JUPYTER_CONFIG_PATH": str(self.settings), "SHARDWISE_LANG": "en"},
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    @contextmanager
    def page(self, browser: Browser, name: str, path: str, *, locale: str = "en-GB") -> Iterator[Page]:
        """A page of the Hub, where the account logs in first."""
        context = browser.new_context(viewport={"width": 1280, "height": 960}, locale=locale)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("request", lambda request: None if self._is_here(request.url) else self.outside.append(request.url))
        page.goto(f"{self.hub.address}/hub/login?next={path}")
        page.fill("#username_input", self.who[name])
        page.fill("#password_input", a_hub.PASSWORD)
        page.click("#login_submit")
        try:
            yield page
        finally:
            context.close()

    def _is_here(self, url: str) -> bool:
        port = self.hub.port
        return url.startswith((f"http://127.0.0.1:{port}/", f"ws://127.0.0.1:{port}/", "data:", "blob:", "about:"))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    if (reason := a_hub.why_not()) is not None:
        pytest.skip(reason)
    with a_hub.accounts("teacher", "ada", "layla") as who, tempfile.TemporaryDirectory(prefix="shardwise-hub-") as top:
        shared = Path(top)
        shared.chmod(0o755)
        python = a_hub.python_for(who["ada"], shared / "python")
        exchange, settings = shared / "exchange", shared / "shardwise" / "etc" / "jupyter"
        exchange.mkdir()
        exchange.chmod(0o1777)
        (shared / "hub").mkdir(mode=0o700)
        course = Path(pwd.getpwnam(who["teacher"]).pw_dir) / COURSE
        course.mkdir(mode=0o700)
        shutil.chown(course, who["teacher"], who["teacher"])
        due = shared / "due.csv"
        due.write_text(f"assignment,due\n{ID},2030-06-01 23:59 Africa/Cairo\n", encoding="utf-8")
        made = Place(hub=None, python=python, who=who, course=course, settings=settings)  # type: ignore[arg-type]
        students = f"id,first_name,language\n{who['ada']},Ada,en\n{who['layla']},Layla,ar\n"
        made.teach(_FIRST, str(exchange), str(due), students)
        words = ["install-hub", str(course), "--prefix", str(shared / "shardwise"), "--port", str(a_hub.free_port())]
        words += ["--server", str(python.parent.parent), "--instructors", who["teacher"]]
        installed = subprocess.run(
            [str(python), "-m", "shardwise.cli", "classroom", *words],
            env={**os.environ, "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter")},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert installed.returncode == 0, installed.stderr
        subconfig = shared / "shardwise" / "jupyterhub_config.py"
        with a_hub.Hub(shared / "hub", python=python, users=list(who.values()), subconfig=subconfig) as made.hub:
            yield made


def test_the_whole_way(place: Place, browser: Browser) -> None:
    try:
        with place.page(browser, "layla", "/hub/spawn", locale="ar-EG") as page:
            open_from_the_launcher(page)
            answer_in_arabic(page)
            number = hand_in_with_three_clicks(page)
        receipt = json.loads(place.does("ada", _STUDENT).strip().splitlines()[-1])
        assert receipt["language"] == "en"
        students_have_no_formgrader(place, browser)
        place.teach(_THEN)
        grade_by_hand(place, browser)
        place.teach(_LAST)
        feedback_is_read_in_arabic(place, browser)
    except BaseException:
        print(place.hub.said())
        raise
    assert place.outside == []
    table = list(csv.DictReader(io.StringIO((place.course / "marks.csv").read_text(encoding="utf-8-sig"))))
    assert len(table) == 2
    assert number.replace("-", "") in _digest(place, "layla")


def open_from_the_launcher(page: Page) -> None:
    """The tile makes the workspace and opens the home in the browser's language, from right to left."""
    page.locator(".jp-LauncherCard[data-category='Shardwise']").click()
    section = page.locator(".shardwise[dir=rtl] section.class")
    section.wait_for()
    text = translator("ar")
    expect(section.locator("h2")).to_have_text(text("shardwise.hand-in-title", course="Big models"))
    expect(section).to_contain_text("Africa/Cairo")
    expect(section).to_contain_text(text("shardwise.hand-in-state-fetched"))
    page.wait_for_selector(".shardwise-hand-in button")
    assert violations(page, "section.class", ".shardwise-hand-in") == []


def answer_in_arabic(page: Page) -> None:
    """The assignment's own notebook, from right to left; what is written there is not saved by hand."""
    page.locator("section.class a").first.click()
    panel = page.locator(".jp-NotebookPanel.shardwise-rtl:not(.lm-mod-hidden)")
    expect(panel.locator("h1")).to_contain_text("نموذج", timeout=WAIT)
    page.evaluate(
        """async (text) => {
            const panels = [...window.jupyterapp.shell.widgets("main")];
            const panel = panels.find((each) => each.context?.path.endsWith(".ar.ipynb"));
            await panel.context.ready;
            const own = (cell) => (cell.getMetadata("nbgrader") || {}).grade_id === "explain";
            const cell = [...panel.context.model.cells].find(own);
            cell.sharedModel.setSource(text);
            if (!panel.context.model.dirty) throw new Error("what was written is not there");
        }""",
        WRITTEN,
    )
    page.locator(".lm-TabBar-tab", has_text="home.ipynb").click()


def hand_in_with_three_clicks(page: Page) -> str:
    """Choose, look, hand in; gives the receipt's number."""
    text = translator("ar")
    panel = page.locator(".shardwise-hand-in")
    panel.locator(f"button[data-assignment='{ID}']").click()
    expect(panel).to_contain_text(f"{ID}.ar.ipynb")
    expect(panel).not_to_contain_text(text("shardwise.hand-in-untouched"))  # the page was asked to save
    panel.locator("button.do").click()
    done = panel.locator("section.done")
    done.wait_for()
    assert violations(page, ".shardwise-hand-in") == []
    line = done.locator("li", has_text=text("shardwise.hand-in-done-digest", digest="").strip()).inner_text()
    return line.rpartition(" ")[2].strip("\u2066\u2069")


def students_have_no_formgrader(place: Place, browser: Browser) -> None:
    """Neither the Hub's, which is the instructors', nor one in a server of their own; nor the course's files."""
    address = f"{place.hub.address}/services/formgrader-{COURSE}/formgrader/manage_assignments"
    with place.page(browser, "ada", f"/services/formgrader-{COURSE}/formgrader/manage_assignments") as page:
        page.wait_for_load_state()
        answered = page.goto(address)
        assert answered is not None
        assert answered.status == 403
        page.goto(f"{place.hub.address}/hub/spawn")
        page.wait_for_url("**/user/**/lab**")
        own = page.goto(f"{place.hub.address}/user/{place.who['ada']}/formgrader/manage_assignments")
        assert own is not None
        assert own.status == 404
    script = (
        "import pathlib, sys\ntry:\n    print(pathlib.Path(sys.argv[1]).read_bytes()[:4])\nexcept OSError: print('no')"
    )
    for path in (place.course / "gradebook.db", place.course / "class.yaml"):
        assert place.does("ada", script, str(path)).strip() == "no"


def grade_by_hand(place: Place, browser: Browser) -> None:
    """formgrader in a tab of its own; what the student wrote is shown and not run; points and a comment are kept."""
    with place.page(browser, "teacher", f"/services/formgrader-{COURSE}/") as page:
        page.wait_for_url("**/formgrader/manage_assignments")
        expect(page.locator("#main-row, body").first).to_contain_text(ID)
        page.goto(f"{place.hub.address}/services/formgrader-{COURSE}/formgrader/gradebook/{ID}/{ID}")
        expect(page.locator("tbody tr")).to_have_count(2)
        found = page.request.get(f"{place.hub.address}/services/formgrader-{COURSE}/formgrader/api/submissions/{ID}")
        assert found.ok
        (layla,) = [each for each in found.json() if each["student"] == place.who["layla"]]
        notebooks = page.request.get(
            f"{place.hub.address}/services/formgrader-{COURSE}/formgrader/api/submitted_notebooks/{ID}/{ID}"
        ).json()
        (own,) = [each for each in notebooks if each["student"] == layla["student"]]
        page.goto(f"{place.hub.address}/services/formgrader-{COURSE}/formgrader/submissions/{own['id']}/")
        answer = page.locator(".nbgrader_cell", has=page.locator("#explain"))
        expect(answer).to_contain_text("كل رتبة تحتفظ بجزء")
        expect(answer.locator("math mfrac")).to_have_count(1)
        expect(answer).to_contain_text("<script>window.taken = 1</script>")
        assert page.evaluate("window.taken") is None
        expect(page.locator("div[dir=rtl]").first).to_be_visible()
        score = answer.locator("#explain")
        score.fill("3")
        score.press("Tab")
        comment = answer.locator("#explain-comment")
        comment.fill(COMMENT)
        comment.press("Tab")
        expect(answer.locator(".score-saved")).to_be_visible()
        expect(answer.locator(".comment-saved")).to_be_visible()


def feedback_is_read_in_arabic(place: Place, browser: Browser) -> None:
    """From the home page, once it is brought up to date; the page holds what the teacher wrote, from right to left."""
    text = translator("ar")
    with place.page(browser, "layla", "/hub/spawn", locale="nl-NL") as page:
        page.wait_for_url("**/user/**/lab**")
        page.goto(f"{place.hub.address}/user/{place.who['layla']}/lab?reset")
        page.locator(".jp-LauncherCard[data-category='Shardwise']").click()
        section = page.locator(".shardwise[dir=rtl] section.class")  # the language of the last time, not the browser's
        link = section.get_by_role("link", name=text("shardwise.hand-in-read-feedback"))
        link.click()
        shown = page.frame_locator(".jp-HTMLViewer iframe").locator("body")
        expect(shown).to_contain_text(COMMENT)
        expect(shown).to_have_css("direction", "rtl")


def _digest(place: Place, name: str) -> str:
    """As grading computes it from what the teacher collected."""
    from shardwise.classroom import handed_in

    return handed_in.gather(place.course / "submitted" / place.who[name] / ID).digest
