"""The whole way of an assignment on one machine, without a Hub and without root: release, fetch, hand in, collect,
grade, formgrader in a tab of its own, feedback, export.
"""

from __future__ import annotations

import csv
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from shardwise import cli
from shardwise.classroom import batch, student
from tests.browser.driver import WAIT
from tests.shardwise.classroom import a_class
from tests.shardwise.classroom.test_student import ID, ME, School, work_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.bwrap,
    pytest.mark.timeout(300),
    # nbgrader 0.9.6 misspells an argument of its own when it releases feedback, and leaves files to be closed.
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> School:
    made = School(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(made.jupyter))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter-data"))
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SHARDWISE_LANG", "en")
    return made


@pytest.fixture
def formgrader(school: School) -> Iterator[str]:
    """Its address, as the command prints it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shardwise.cli", "classroom", "formgrader", str(school.folder), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://localhost:\d+/formgrader\?token=\w+", line)
        assert found is not None, line
        yield found.group()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()


def test_the_whole_way_on_one_machine(school: School, formgrader: str, browser: Browser) -> None:
    here = student.the_class(None)
    path = here.fetch(ID).notebooks["nl"]
    right = a_class.right_answers(school.course, ME)
    work_in(path, {**right, "explain": "Elke rank bewaart zijn deel: $\\frac{12}{N}$. <img src=x onerror='taken = 1'>"})
    receipt = here.submit(ID)
    done = school.api().collect(ID)
    assert done["success"], done
    assert cli.run(["classroom", "grade", ID, "--course", str(school.folder)]) == 0
    give_points(formgrader, browser)
    assert cli.run(["classroom", "feedback", "--course", str(school.folder)]) == 0
    done = school.api().release_feedback(ID)
    assert done["success"], done
    (own,) = here.refreshed()
    assert own.feedback is not None
    page = own.feedback.read_text(encoding="utf-8")
    assert '<html lang="nl"' in page
    assert "Zeg welke rank wat bewaart." in page
    assert not re.search(r"<script|<img|https?://(?!www\.w3\.org)", page)
    out = school.folder / "marks.csv"
    assert cli.run(["classroom", "export", "--course", str(school.folder), "--out", str(out)]) == 0
    rows = [row for row in csv.reader(out.read_text(encoding="utf-8-sig").splitlines()) if ME in row]
    assert len(rows) == 1
    assert any(each in ("19", "19.0") for each in rows[0]), rows  # 16 by the checks, 3 by hand
    (result,) = batch.results(school.folder, student=ME)
    assert (result.student, result.digest, result.language) == (ME, receipt.digest, "nl")


def give_points(address: str, browser: Browser) -> None:
    """As a teacher does: the gradebook, the hand-in, three points and a comment."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT)
    outside: list[str] = []
    page.on("request", lambda each: None if "localhost" in each.url.split("/")[2] else outside.append(each.url))
    try:
        for _ in range(60):
            try:
                page.goto(address)
                break
            except Exception:
                page.wait_for_timeout(500)
        top = address.split("?")[0]
        expect(page.locator("h1", has_text="Manage Assignments")).to_be_visible()
        found: Any = page.request.get(f"{top}/api/submitted_notebooks/{ID}/{ID}").json()
        (own,) = [each for each in found if each["student"] == ME]
        page.goto(f"{top}/submissions/{own['id']}/")
        answer = page.locator(".nbgrader_cell", has=page.locator("#explain"))
        expect(answer.locator("math mfrac")).to_have_count(1)
        assert page.evaluate("window.taken") is None
        answer.locator("#explain").fill("3")
        answer.locator("#explain").press("Tab")
        answer.locator("#explain-comment").fill("Zeg welke rank wat bewaart.")
        answer.locator("#explain-comment").press("Tab")
        expect(answer.locator(".score-saved")).to_be_visible()
        expect(answer.locator(".comment-saved")).to_be_visible()
        assert outside == []
    finally:
        context.close()
