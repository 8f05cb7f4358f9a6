"""A bare page that hosts the quiz as a notebook's front end does: state comes from Python, messages go back to it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quiz.notebook import FOLDER, Quiz

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>quiz</title><style>%s</style></head>
<body><main><h1>Quiz</h1><div id="here"></div></main><script type="module">%s
const listeners = [];
let state = await window.initial();
window.update = (next) => { state = next; listeners.forEach((each) => each()); };
window.keys = [];
document.addEventListener("keydown", (event) => window.keys.push(event.key));
quiz.render({
  model: {
    get: () => state,
    send: (content) => window.receive(content),
    on: (_, each) => listeners.push(each),
    off: () => {},
  },
  el: document.getElementById("here"),
});
document.body.dataset.ready = "yes";
</script></body></html>"""


@contextlib.contextmanager
def browser_page() -> Iterator[Any]:
    """A page of Chromium with a profile of its own; skips where there is no Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed, so the quiz is not looked at in a browser")
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, headless=True, args=FLAGS, viewport={"width": 900, "height": 900}
        )
        context.set_default_timeout(10_000)
        try:
            yield context.pages[0]
        finally:
            context.close()


def show(page: Any, quiz: Quiz) -> list[str]:
    """Load the quiz into the page; the list fills with errors of the page."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def receive(content: Any) -> None:
        quiz._received(quiz, content, [])
        page.evaluate("state => setTimeout(() => window.update(state))", quiz.state)

    page.expose_function("initial", lambda: quiz.state)
    page.expose_function("receive", receive)
    script = (FOLDER / "notebook.js").read_text(encoding="utf-8").replace("export default", "const quiz =")
    style = (FOLDER / "notebook.css").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quiz.html"
        path.write_text(PAGE % (style, script), encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
    return errors
