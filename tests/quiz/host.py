"""A bare page that hosts the quiz as a notebook's front end does: state comes from Python, messages go back to it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from quiz.notebook import FOLDER, Quiz

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
