"""The course in a browser, as a learner has it: `shardwise learn` in folders of its own, and the lessons it opens.

`Course` is the server. `Lesson` is an open notebook: its cells are known by their ids, which come from the lesson's
source. Every wait is bounded.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from shardwise import doctor

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARK = "SHARDWISE_BROWSER_TEST"
"""Every process of a course carries this in its environment, with a value of its own."""
START_SECONDS = 60
WAIT = 45_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium with a profile of its own."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=doctor.chromium(), args=FLAGS)
        try:
            yield started
        finally:
            started.close()


class Course:
    """`shardwise learn`, headless, whose record, workspace and Jupyter live in `folder`."""

    def __init__(self, code: str, folder: Path) -> None:
        self.code, self.folder = code, folder
        self.home, self.data = folder / "home", folder / "data"
        self.mark = uuid.uuid4().hex
        self.said: list[str] = []
        self._told = threading.Event()
        self._address = ""
        user = folder / "user"
        user.mkdir(parents=True)
        self._expose_app()
        foreign = ("JUPYTER", "IPYTHON", "SHARDWISE", "XDG_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        own = {
            "SHARDWISE_HOME": str(self.home),
            "SHARDWISE_DATA": str(self.data),
            "HOME": str(user),
            "PYTHONUNBUFFERED": "1",
            MARK: self.mark,
        }
        self.environment = {**kept, **own}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shardwise.cli", "learn", "--lang", code, "--no-browser", "--port", str(_port())],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        if not self._told.wait(START_SECONDS):
            self.stop()
            raise AssertionError("".join(self.said))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _expose_app(self) -> None:
        """The one setting beyond a learner's: the page shows the test its application."""
        config = self.data / "jupyter" / "config" / "jupyter_lab_config.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"LabApp": {"expose_app_in_browser": True}}))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if found := re.search(r"http://localhost:\d+/lab/\S*token=\w+", line):
                self._address = found.group()
                self._told.set()
        self._told.set()

    @property
    def address(self) -> str:
        """What the command prints: the home page with its token."""
        assert self._address, "".join(self.said)
        return self._address

    def at(self, path: str, *, kind: str = "lab/tree") -> str:
        """The address of a file of the workspace."""
        parts = urllib.parse.urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}/{kind}/{urllib.parse.quote(path)}?{parts.query}"

    def processes(self) -> list[psutil.Process]:
        """All that this course started and that still runs: server, kernels, ranks."""
        found = []
        for each in psutil.process_iter():
            try:
                if each.environ().get(MARK) == self.mark and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
            except psutil.Error:
                continue
        return found

    def stop(self) -> int:
        """Ends it as Ctrl-C does, and gives its exit code."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)
        try:
            return self._process.wait(30)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._reader.join(10)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def left(self, *, seconds: float = 10) -> list[str]:
        """The processes that are still there after a grace, in words; each is ended."""
        end = time.monotonic() + seconds
        while (still := self.processes()) and time.monotonic() < end:
            time.sleep(0.2)
        names = []
        for each in still:
            try:
                names.append(" ".join(each.cmdline())[:120])
                each.kill()
            except psutil.Error:
                continue
        return names


def _port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


_CELL = """
    const panel = window.jupyterapp.shell.currentWidget;
    const index = panel.content.widgets.findIndex((each) => each.model.id === id);
    if (index < 0) throw new Error(`no cell ${id}`);
    const cell = panel.content.widgets[index];
"""


class Lesson:
    """The notebook that a page shows. Opening it waits for its kernel, if it is to have one."""

    def __init__(self, page: Page, path: str, *, kernel: bool = True) -> None:
        self.page, self.root = page, page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        page.wait_for_function(
            """([path, kernel]) => {
                const panel = window.jupyterapp?.shell?.currentWidget;
                if (panel?.context?.path !== path || !panel.context.isReady) return false;
                if (!kernel) return true;
                return panel.sessionContext.isReady && panel.sessionContext.session?.kernel?.status === "idle";
            }""",
            arg=[path, kernel],
            timeout=WAIT,
        )

    def show(self, id: str) -> Locator:
        """The cell, brought into view as a whole."""
        self.page.evaluate(
            f"""async (id) => {{ {_CELL}
                panel.content.activeCellIndex = index;
                await panel.content.scrollToItem(index, "start");
                await cell.ready;
                cell.node.dataset.cell = id;
            }}""",
            id,
        )
        found = self.root.locator(f"[data-cell='{id}']")
        found.wait_for(timeout=WAIT)
        return found

    def write(self, id: str, source: str) -> None:
        """Put other code into a cell, as pasting does."""
        self.show(id).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)

    def source(self, id: str) -> str:
        return str(self.page.evaluate(f"(id) => {{ {_CELL} return cell.model.sharedModel.getSource(); }}", id))

    def start(self, id: str) -> Locator:
        """Run the cell with the keyboard, without waiting for its end; gives the place of its output."""
        cell = self.show(id)
        self.page.evaluate(f"(id) => {{ {_CELL} panel.content.mode = 'command'; panel.content.activate(); }}", id)
        self.page.keyboard.press("Control+Enter")
        return cell.locator(".jp-Cell-outputArea")

    def is_busy(self, id: str) -> bool:
        return bool(self.page.evaluate(f"(id) => {{ {_CELL} return cell.model.executionState !== 'idle'; }}", id))

    def wait(self, id: str, *, seconds: float = WAIT / 1000) -> None:
        """Until the cell has been run."""
        self.page.wait_for_function(
            f"(id) => {{ {_CELL} return cell.model.executionState === 'idle' && cell.model.executionCount !== null; }}",
            arg=id,
            timeout=seconds * 1000,
        )

    def run(self, id: str) -> Locator:
        """Run the cell to its end; gives the place of its output."""
        output = self.start(id)
        self.wait(id)
        assert not self.failed(id), output.inner_text()
        return output

    def failed(self, id: str) -> bool:
        """Whether the cell ended with an error."""
        asked = f"(id) => {{ {_CELL} return cell.model.sharedModel.outputs.some((o) => o.output_type === 'error'); }}"
        return bool(self.page.evaluate(asked, id))

    def save(self) -> None:
        self.page.evaluate("window.jupyterapp.shell.currentWidget.context.save()")

    def shut_down(self) -> None:
        """End the kernel, as the menu does."""
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def tab_to(page: Page, selector: str, *, most: int = 60) -> None:
    """Press Tab, or Shift and Tab, until what has the focus fits the selector."""
    there = """(selector) => {
        const here = document.activeElement;
        if (here.matches(selector)) return "";
        const target = document.querySelector(selector);
        if (target === null) throw new Error(`nothing is ${selector}`);
        return here.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING ? "Tab" : "Shift+Tab";
    }"""
    for _ in range(most):
        key = page.evaluate(there, selector)
        if not key:
            return
        page.keyboard.press(key)
    raise AssertionError(f"Tab does not reach {selector}")


def violations(page: Page, *roots: str) -> list[tuple[Any, ...]]:
    """What axe-core finds wrong inside these roots: rule, selector, reason."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    here = [root for root in roots if page.locator(root).count()]
    assert here, f"nothing of {roots} is on the page"
    found = Axe().run(page, context={"include": [[root] for root in here]}).response["violations"]
    return [(rule["id"], node["target"], node["failureSummary"]) for rule in found for node in rule["nodes"]]
