"""A lesson's cells in a real kernel that nobody watches: all of them run, and errors speak the learner's language."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from labs.exercises import exercise
from labs.runner import processes, survivors
from quiz import rendering
from shardwise.record import Record
from translations import translator

SMALL = "ranks=2, steps=2, layers=1, hidden=16, heads=2, sequence=8"
SOLUTION = exercise("zero-1").code("solution")
OPEN = """
from labs.strategies import zero_1
from shardwise import notebook as course
course.open("04-zero-1", language="ar")
"""
CELLS = {
    "open": OPEN,
    "precheck": "course.precheck()",
    "predict": 'course.predict("states", unit="MB")',
    "formula": f'formula = course.formula("zero", stage=1, {SMALL})',
    "lab": f'run = course.lab("zero", stage=1, {SMALL})',
    "compare": 'course.compare("states", formula=formula.optimizer_states, measured=run.bytes("optimizer_states"))',
    "ranks": "%%ranks 2\nimport os\nprint('rank', os.environ['RANK'])",
    "table": 'course.table([[1, 2]], header=["a", "b"], units=["", "B"])',
    "source": "course.source(zero_1.Zero1)",
    "recall": 'course.recall(objective="zero-1-step")',
    "early-check": 'course.check("zero-1")',
    "stub": "%%exercise zero-1\ndef optimizer_step(units): return",
    "solution": f"%%exercise zero-1\n{SOLUTION}",
    "check": 'course.check("zero-1")',
    "undo": 'course.undo("zero-1")',
    "broken": "%%exercise zero-1\ndef (",
    "unknown": 'course.check("no-such")',
    "hint": 'course.hint("zero-1")',
    "hint-again": 'course.hint("zero-1")',
    "fold": 'course.solution("zero-1")',
    "diagnose": 'course.diagnose("zero-1")',
    "controls": 'course.controls("timetable", stages=2, micro_batches=3)',
    "refused": 'course.controls("memory", tp=5)',
    "no-controls": 'course.controls("weather")',
    "save": 'from lessons import figures\ncourse.save(figures.bytes_per_parameter(), "kept.svg")',
    "save-nowhere": 'course.save(figures.bytes_per_parameter(), "no/such/folder.svg")',
    "quiz": "course.quiz()",
    "certificate": "course.certificate()",
    "words": "course.words()",
    "home": "course.home()",
    "bug": "1 / 0",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outputs of each cell, after one run of all of them."""
    folder = tmp_path_factory.mktemp("lesson")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SHARDWISE_DATA", str(folder / "data"))
        environment.setenv("SHARDWISE_HOME", str(folder / "home"))
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS.items()]
        )
        client = NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
        record = Record.open()
    return {cell.id: cell.outputs for cell in notebook.cells} | {"record": record, "folder": folder}


def html(outputs: Any) -> str:
    return "".join(each.data.get("text/html", "") for each in outputs if each.output_type == "display_data")


def errors(outputs: Any) -> list[str]:
    return [each.ename for each in outputs if each.output_type == "error"]


def test_only_the_bug_is_an_error_with_a_traceback(ran: dict[str, Any]) -> None:
    assert {name: found for name in CELLS if (found := errors(ran[name]))} == {"bug": ["ZeroDivisionError"]}


def test_every_cell_shows_something_right_to_left(ran: dict[str, Any]) -> None:
    for name in set(CELLS) - {"precheck", "predict", "formula", "lab", "ranks", "recall", "quiz", "bug"}:
        assert 'dir="rtl" lang="ar"' in html(ran[name]), name
    for name in ("precheck", "predict", "recall", "quiz", "diagnose"):
        assert any("application/vnd.jupyter.widget-view+json" in each.get("data", {}) for each in ran[name]), name


def test_a_lab_leaves_a_picture_that_needs_no_kernel(ran: dict[str, Any]) -> None:
    assert "<svg" in html(ran["lab"])
    assert not any("widget-view" in str(each) for each in ran["lab"])
    assert translator("ar")("shardwise.exactly-the-formula") in html(ran["compare"])


def test_controls_leave_a_figure_beside_the_widget(ran: dict[str, Any]) -> None:
    assert '<div class="kept"><figure' in html(ran["controls"])
    assert html(ran["controls"]).count("<figure") == 1
    assert "<figure" not in html(ran["refused"])
    for name in ("controls", "refused"):
        assert any("application/vnd.jupyter.widget-view+json" in each.get("data", {}) for each in ran[name]), name
    assert "weather" in html(ran["no-controls"])


def test_a_figure_is_saved_where_one_says(ran: dict[str, Any]) -> None:
    assert (ran["folder"] / "kept.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "kept.svg" in html(ran["save"])
    assert "no/such/folder.svg" in html(ran["save-nowhere"])


def test_what_ranks_print_is_shown(ran: dict[str, Any]) -> None:
    printed = "".join(each.text for each in ran["ranks"] if each.output_type == "stream")
    assert "[0] rank 0" in printed
    assert "[1] rank 1" in printed


def test_an_exercise_goes_from_cell_to_file_to_verdict(ran: dict[str, Any]) -> None:
    text, record = translator("ar"), ran["record"]
    assert rendering.html(text("shardwise.exercise-not-kept", exercise="zero-1")) in html(ran["early-check"])
    assert text("shardwise.check-passed") in html(ran["check"])
    assert record.progress("04-zero-1").checks["zero-1"]
    assert "return" in html(ran["undo"])
    files = {each.name: each.read_text() for each in (Path(ran["folder"]) / "home" / "exercises").iterdir()}
    assert files["zero-1.py"] == "def (\n"
    assert "def optimizer_step(units): return" in files["zero-1.previous.py"]


def test_python_that_cannot_be_read_is_kept_and_told(ran: dict[str, Any]) -> None:
    assert "mood" not in html(ran["broken"])
    assert 'class="box bad"' in html(ran["broken"])
    assert "zero-1.py" in html(ran["broken"])


def test_somebody_elses_file_is_shown_with_what_its_check_finds_and_no_points(ran: dict[str, Any]) -> None:
    text = translator("ar")
    assert text("shardwise.diagnose-prints") in html(ran["diagnose"])
    assert text("labs.check-points", points=0, of=0).split(":")[0] not in html(ran["diagnose"])
    assert text("shardwise.check-failed") not in html(ran["diagnose"])


def test_hints_come_one_at_a_time(ran: dict[str, Any]) -> None:
    text = translator("ar")
    assert text("shardwise.hint-of", number=1, total=3) in html(ran["hint"])
    assert text("shardwise.hint-of", number=2, total=3) in html(ran["hint-again"])


def test_no_certificate_before_the_quiz(ran: dict[str, Any]) -> None:
    assert translator("ar")("shardwise.certificate-not-yet") in html(ran["certificate"])


def test_open_starts_what_the_first_lab_needs(tmp_path: Path) -> None:
    """Beside the cell, which shows nothing of it; it ends with the kernel."""
    owner = uuid.uuid4().hex
    source = f"""{OPEN}
import time
from labs.runner import client
until = time.monotonic() + 30
while not client._servers.pids and time.monotonic() < until:
    time.sleep(0.02)
print("server", *client._servers.pids)
"""
    environment = {**os.environ, "SHARDWISE_DATA": str(tmp_path), processes.OWNER: owner}
    told = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=90, check=True
    )
    assert told.stdout.splitlines()[-1].removeprefix("server ").isdigit()
    assert not told.stderr
    until = time.monotonic() + 10
    while survivors(owner) and time.monotonic() < until:
        time.sleep(0.05)
    assert not survivors(owner)
