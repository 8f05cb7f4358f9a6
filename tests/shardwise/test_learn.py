"""JupyterLab as the learner gets it: its settings, its folders, and, in Chromium, a lesson read from right to left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import translations
from shardwise import doctor, learn, workspace
from tests.browser.driver import Course
from translations import CourseError

ARABIC = translations.language("ar")
DUTCH = translations.language("nl")
TEXT = """<div dir="rtl" lang="ar">

# المرحلة الأولى من ZeRO

تُقسِّم هذه المرحلة حالات المُحسِّن على الرُّتَب. الدالة \u2066`f()`\u2069 تنفِّذ الخطوة.

> تنبيه قصير.

- بند مع \u2066`all_gather`\u2069

| الفئة | البايتات |
|---|---|
| المُعامِلات | 2P |

</div>

```python
x = 1
```

<div dir="rtl" lang="ar">

فقرة أخيرة.

</div>"""


def notebook(text: str, *, course: dict[str, str]) -> str:
    kernel = {"name": learn.KERNEL, "display_name": "Shardwise", "language": "python"}
    cells = [
        {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text},
        {"cell_type": "code", "id": "code", "metadata": {}, "source": "6 * 7", "outputs": [], "execution_count": None},
    ]
    metadata = {"course": course, "kernelspec": kernel}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of one page in Arabic and in Dutch."""
    folder = tmp_path_factory.mktemp("lessons")
    for code, text, direction in (("ar", TEXT, "rtl"), ("nl", "# Begin\n\nEen `f()`.", "ltr")):
        folder.joinpath(code).mkdir()
        page = notebook(text, course={"lang": code, "dir": direction})
        folder.joinpath(code, learn.HOME).write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def chosen(lessons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> workspace.Workspace:
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    return workspace.prepare(ARABIC, course=lessons)


def test_the_interface_is_dutch_in_dutch_and_english_in_arabic() -> None:
    assert learn.interface(DUTCH) == "nl_NL"
    assert learn.interface(ARABIC) == "en"
    assert learn.settings(DUTCH)["@jupyterlab/translation-extension:plugin"] == {"locale": "nl_NL"}
    assert learn.settings(ARABIC)["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_jupyter_keeps_everything_in_the_courses_own_folders(chosen: workspace.Workspace, tmp_path: Path) -> None:
    environ = learn.environment(chosen)
    folders = [
        value for key, value in environ.items() if key.startswith(("JUPYTER_", "IPYTHON")) and key.endswith("DIR")
    ]
    assert len(folders) == 4
    assert all(Path(each).is_relative_to(tmp_path / "data") for each in folders)
    settings = Path(environ["JUPYTER_CONFIG_PATH"]) / "labconfig" / "default_setting_overrides.json"
    assert json.loads(settings.read_text()) == learn.settings(ARABIC)
    assert environ["SHARDWISE_LANG"] == "ar"
    assert Path(environ["JUPYTER_PATH"], "kernels", learn.KERNEL, "kernel.json").exists()


def test_what_only_a_teacher_needs_is_not_served_to_who_learns_alone(tmp_path: Path) -> None:
    """nbgrader lies in the same environment, and would add its menus and its formgrader to every JupyterLab."""
    with Course("en", tmp_path / "learner") as course:
        for path in ("formgrader", "assignments"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(course.at("", kind=path), timeout=30)
            with refused.value as answer:
                assert answer.code == 404
        with urllib.request.urlopen(course.at("", kind="lab"), timeout=30) as answer:
            told = re.search(r'"disabledExtensions": ?(\[[^\]]*\])', answer.read().decode())
    assert told is not None
    assert set(learn.TEACHERS_PAGES) <= set(json.loads(told.group(1)))


def test_a_data_folder_that_cant_be_made_is_told(chosen: workspace.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = chosen.folder / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("SHARDWISE_DATA", str(in_the_way))
    with pytest.raises(CourseError, match="SHARDWISE_DATA"):
        learn.environment(chosen)


@pytest.mark.usefixtures("chosen")
def test_a_busy_port_is_told_and_else_a_free_one_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CourseError, match=f"Port {port} is in use"):
            learn.learn(ARABIC, port=port, browser=False)
        assert learn.free_port() != port


@pytest.mark.parametrize(
    ("environ", "platform", "screen"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", True),
        ({"BROWSER": "lynx"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "darwin", False),
    ],
)
def test_a_browser_is_opened_where_there_is_a_screen(environ: dict[str, str], platform: str, screen: bool) -> None:
    assert learn.has_screen(environ, platform) is screen


def test_the_exported_page_reads_from_right_to_left_and_asks_no_network(lessons: Path) -> None:
    import nbformat
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="shardwise", extra_template_basedirs=[str(learn.JUPYTER / "nbconvert" / "templates")]
    )
    pages = {}
    for code in ("ar", "nl"):
        read = nbformat.read(lessons / code / learn.HOME, as_version=4)
        pages[code], _ = exporter.from_notebook_node(read)
        assert not re.search(r"<script[^>]+src=|cdnjs|unpkg|jsdelivr", pages[code])
    assert '<body class="jp-Notebook shardwise-rtl"' in pages["ar"]
    assert '<body class="jp-Notebook"' in pages["nl"]
    assert ".shardwise-rtl .jp-MarkdownOutput blockquote" in pages["ar"]


def test_lab_and_exported_pages_follow_the_same_rules() -> None:
    lab = learn.JUPYTER / "labextensions" / doctor.EXTENSION
    page = learn.JUPYTER / "nbconvert" / "templates" / learn.KERNEL
    assert (lab / "static" / "direction.css").read_bytes() == (page / "static" / "direction.css").read_bytes()
    package = json.loads((lab / "package.json").read_text())
    assert (lab / package["jupyterlab"]["_build"]["load"]).exists()
    assert package["name"] == doctor.EXTENSION


# --- in a browser


class Server:
    """The course started as its command starts it, with the pages of the test."""

    def __init__(self, code: str, lessons: Path, folder: Path) -> None:
        start = (
            "import pathlib, sys, translations; from shardwise import learn, workspace\n"
            "workspace.prepare.__kwdefaults__['course'] = pathlib.Path(sys.argv[2])\n"
            "sys.exit(learn.learn(translations.language(sys.argv[1]), browser=False))"
        )
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "IPYTHON"))}
        own = {
            "SHARDWISE_HOME": str(folder / "home"),
            "SHARDWISE_DATA": str(folder / "data"),
            "HOME": str(folder / "user"),
        }
        self.user = folder / "user"
        self.user.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, code, str(lessons)],
            env={**kept, **own, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._told = threading.Event()
        self.address = ""
        self._reader.start()
        assert self._told.wait(90), self.said

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"http://localhost:\d+/lab/\S+token=\w+", line):
                self.address = found.group()
                self._told.set()

    def stop(self) -> int:
        """Ends it as Ctrl-C does."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGINT)
        try:
            code = self.process.wait(30)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self._reader.join(10)
            assert self.process.stdout is not None
            self.process.stdout.close()
        return code


@pytest.mark.browser
def test_an_arabic_lesson_reads_from_right_to_left_in_jupyterlab(lessons: Path, tmp_path: Path, browser: Any) -> None:
    server = Server("ar", lessons, tmp_path)
    outside: list[str] = []
    try:
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.on("request", lambda request: outside.append(request.url) if "//localhost" not in request.url else None)
        page.goto(server.address)
        page.wait_for_selector(".jp-NotebookPanel.shardwise-rtl .jp-MarkdownOutput h1", timeout=90_000)
        style = "element => { const s = getComputedStyle(element); return [s.direction, s.textAlign, s.unicodeBidi] }"

        def styled(selector: str) -> list[str]:
            return list(page.locator(f".jp-MarkdownOutput {selector}").first.evaluate(style))

        assert styled("p")[:2] == ["rtl", "start"]
        assert styled("li")[0] == "rtl"
        assert styled("p code") == ["ltr", "start", "isolate"]
        assert styled("pre")[:2] == ["ltr", "left"]
        bars = "element => [getComputedStyle(element).borderLeftWidth, getComputedStyle(element).borderRightWidth]"
        assert page.locator("blockquote").first.evaluate(bars) == ["0px", "5px"]
        heading = page.locator(".jp-MarkdownOutput h1").bounding_box()
        row = page.locator(".jp-MarkdownOutput th")
        assert row.nth(0).bounding_box()["x"] > row.nth(1).bounding_box()["x"]
        assert heading is not None
        page.get_by_role("menuitem", name="Kernel", exact=True).wait_for()
        page.wait_for_function(
            "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')", timeout=60_000
        )
        page.locator(".jp-CodeCell .cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_selector(".jp-OutputArea-output >> text=42", timeout=60_000)
        page.close()
    finally:
        code = server.stop()
    said = "".join(server.said)
    assert code == 0, said
    assert "افتح هذا العنوان" in said
    assert [url for url in outside if not url.startswith(("data:", "blob:"))] == []
    assert sorted(path.name for path in server.user.rglob("*") if "jupyter" in path.name.lower()) == []
    assert not (server.user / ".ipython").exists()


@pytest.mark.browser
def test_the_menus_are_dutch_in_the_dutch_course(lessons: Path, tmp_path: Path, browser: Any) -> None:
    server = Server("nl", lessons, tmp_path)
    try:
        page = browser.new_page()
        page.goto(server.address)
        page.wait_for_selector(".jp-MarkdownOutput h1", timeout=90_000)
        assert page.locator(".lm-MenuBar-itemLabel").first.inner_text() == "Bestand"
        assert page.locator(".jp-NotebookPanel.shardwise-rtl").count() == 0
        page.close()
    finally:
        assert server.stop() == 0, server.said
