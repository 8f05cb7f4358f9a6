"""What moves in a lesson beside the plot of memory, in Chromium: the views of running labs, and the planner's controls.

One JupyterLab serves both languages, each with a notebook of its own.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from lessons.controls.planner import TOPICS
from tests.browser.driver import WAIT, Course, Lesson, violations
from translations import Language, language, translator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SMALL = "ranks=2, layers=2, hidden=16, sequence=8, heads=2, slow=0.1"
LABS = {
    "timetable": ("pipeline", f"{SMALL}, micro_batches=4, steps=2"),
    "traffic": ("tensor", f"{SMALL}, steps=3"),
    "timeline": ("checkpoint", f"{SMALL}, steps=4"),
    "reward": ("grpo", "ranks=2, layers=1, hidden=16, heads=2, warm_up=2, steps=6, slow=0.1"),
}
CODES = ("en", "ar")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    with Course("en", tmp_path_factory.mktemp("views") / "learner") as started:
        for code in CODES:
            file = started.home / code / "views.ipynb"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(notebook(language(code)), ensure_ascii=False))
        yield started
        ended = started.stop()
    assert (ended, started.left()) == (0, []), "".join(started.said)


def notebook(chosen: Language) -> dict[str, object]:
    """A cell for each view and each of the controls."""
    cells = {"open": f'from shardwise import notebook as course\ncourse.open("04-zero-1", language="{chosen.code}")'}
    cells |= {view: f'run = course.lab("{lab}", {options})' for view, (lab, options) in LABS.items()}
    cells |= {f"controls-{topic}": f'course.controls("{topic}")' for topic in TOPICS}
    shown: list[dict[str, object]] = [
        {"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for id, source in cells.items()
    ]
    kernel = {"name": "shardwise", "display_name": "Shardwise", "language": "python"}
    metadata = {"kernelspec": kernel, "course": {"lang": chosen.code, "dir": chosen.direction}}
    return {"cells": shown, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def opened(course: Course, page: Page, code: str) -> Lesson:
    path = f"{code}/views.ipynb"
    page.goto(course.at(path))
    lesson = Lesson(page, path)
    lesson.run("open")
    return lesson


@pytest.mark.parametrize("code", CODES)
def test_the_views_of_running_labs(course: Course, page: Page, code: str) -> None:
    lesson, chosen = opened(course, page, code), language(code)
    for view in LABS:
        output = lesson.start(view)
        live = output.locator(".shardwise-live")
        expect(live).to_be_visible(timeout=WAIT)
        assert live.get_attribute("dir") == chosen.direction
        page.wait_for_function("Number(document.querySelector('.shardwise-live')?.dataset.pictures) > 0")
        assert live.locator("[role=status]").inner_text().strip()
        assert violations(page, ".shardwise-live") == []
        lesson.wait(view, seconds=120)
        assert not lesson.failed(view), output.inner_text()
        expect(output.locator("figure[role=img] svg")).to_be_visible()
        expect(live).to_have_count(0)
        assert output.locator("figure").get_attribute("dir") == chosen.direction
        has_a_folded_table(output)
        assert violations(page, f"[data-cell='{view}'] .jp-OutputArea") == []
    lesson.save()
    saved = kept(course, code)
    for view, rows in (("timetable", 2), ("traffic", 1), ("timeline", 2), ("reward", 2)):
        [figure] = [output for output in saved[view] if "image/svg+xml" in output.get("data", {})]
        assert "<svg" in "".join(figure["data"]["text/html"])
        assert "".join(figure["data"]["text/html"]).count("<tr>") > rows, view
        assert not any("widget-view" in kind for kind in figure["data"])
    lesson.shut_down()


def has_a_folded_table(output: Locator) -> None:
    """The numbers are there, but folded, until someone asks for them."""
    folded = output.locator("details").last
    table = folded.locator("table").first
    expect(table).to_be_hidden()
    folded.locator("summary").focus()
    output.page.keyboard.press("Enter")
    expect(table).to_be_visible()
    assert table.locator("tbody tr").count() >= 1


def kept(course: Course, code: str) -> dict[str, list[dict[str, dict[str, list[str]]]]]:
    """The outputs of the saved notebook by cell, once it is written."""
    file = course.home / code / "views.ipynb"
    end = time.monotonic() + WAIT / 1000
    while True:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        found = {cell["id"]: cell["outputs"] for cell in cells}
        if any(found.values()) or time.monotonic() > end:
            return found
        time.sleep(0.2)


@pytest.mark.parametrize("code", CODES)
def test_the_planners_controls(course: Course, page: Page, code: str, tmp_path: Path) -> None:
    lesson, chosen, text = opened(course, page, code), language(code), translator(code)
    for topic in TOPICS:
        output = lesson.run(f"controls-{topic}")
        root = output.locator(".shardwise-controls")
        expect(root.locator("figure[role=img] svg").first).to_be_visible()
        assert root.get_attribute("dir") == chosen.direction
        expect(output.locator(".kept")).to_be_hidden()
        assert violations(page, f"[data-cell='controls-{topic}'] .shardwise-controls") == []
        wide = root.evaluate("each => each.scrollWidth <= each.clientWidth")
        assert wide, topic
    change_by_keyboard(page, lesson, text("lessons.control-undo"))
    refuse(lesson)
    save_both(page, lesson, tmp_path)
    lesson.save()
    lesson.shut_down()


def change_by_keyboard(page: Page, lesson: Lesson, undo: str) -> None:
    """The arrow keys move a slider; the figure follows, and goes back."""
    output = lesson.show("controls-memory")
    root, figure = output.locator(".shardwise-controls"), output.locator(".shardwise-controls figure")
    before = figure.get_attribute("aria-label")
    root.locator(".field:has([name=dp]) input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(root.locator("[name=dp]")).to_have_value("7")
    expect(root.locator(".refused")).to_contain_text("2048")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(root.locator("[name=dp]")).to_have_value("4")
    expect(figure).not_to_have_attribute("aria-label", str(before))
    expect(root.locator(".told")).not_to_be_empty()
    changed = str(figure.get_attribute("aria-label"))
    expect(output.locator(".kept figure")).to_have_attribute("aria-label", changed)
    for _ in range(4):
        root.get_by_role("button", name=undo).press("Enter")
    expect(root.locator("[name=dp]")).to_have_value("8")
    expect(figure).to_have_attribute("aria-label", str(before))


def refuse(lesson: Lesson) -> None:
    """What cannot run shows the planner's sentence in the figure's place; the field keeps what was typed."""
    root = lesson.show("controls-memory").locator(".shardwise-controls")
    root.locator("[name=tp]").fill("5")
    expect(root.locator(".refused")).to_contain_text("112")
    expect(root.locator("figure")).to_be_hidden()
    expect(root.locator("[name=tp]")).to_have_value("5")
    assert violations(lesson.page, "[data-cell='controls-memory'] .shardwise-controls") == []
    root.locator("[name=tp]").fill("4")
    expect(root.locator("figure")).to_be_visible()
    expect(root.locator(".refused")).to_be_empty()


def save_both(page: Page, lesson: Lesson, folder: Path) -> None:
    """Both files say what the figure says, and need nothing of the page."""
    root = lesson.show("controls-memory").locator(".shardwise-controls")
    expect(root.locator(".shardwise-saving")).to_have_count(1)
    for number, kind in enumerate(("svg", "png")):
        with page.expect_download() as download:
            root.locator(".shardwise-saving button").nth(number).press("Enter")
        assert download.value.suggested_filename == f"{root.locator('figure').get_attribute('data-name')}.{kind}"
        download.value.save_as(folder / f"figure.{kind}")
    drawn = ElementTree.parse(folder / "figure.svg").getroot()
    assert drawn.get("aria-label") == root.locator("figure").get_attribute("aria-label")
    assert not re.search(r"https?://(?!www\.w3\.org)", (folder / "figure.svg").read_text(encoding="utf-8"))
    picture = (folder / "figure.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") == 2 * float(str(drawn.get("width")))
    assert len(picture) > 20_000
