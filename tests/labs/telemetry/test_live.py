"""The live plot in a kernel without a page, and its traffic as a page would see it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from labs.telemetry import Bytes
from labs.telemetry.events import Event
from labs.telemetry.live import VIEWS, MemoryPlot, live
from labs.telemetry.rows import Row, Slot, Told, Traffic
from translations import CourseError

ROW = Row(seconds=1.0, phase="forward", bytes=Bytes(parameters=4_000_000))


def test_without_a_notebook_it_only_collects() -> None:
    live = MemoryPlot(2, Bytes(parameters=4_000_000), "nl")
    live.show()
    feeders = [
        threading.Thread(target=lambda rank=rank: [live.feed(rank, ROW) for _ in range(100)]) for rank in range(2)
    ]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    figure = live.finish()
    assert [len(rows) for rows in live.rows.values()] == [100, 100]
    assert "rank 1" in figure.markup


def test_a_run_that_told_nothing_still_leaves_a_figure() -> None:
    assert "have not told anything" in MemoryPlot(1, None, "en").finish().alt


def test_the_ranks_start_until_a_phase_has_begun_and_numbers_come_now_and_then() -> None:
    live = MemoryPlot(1, None, "en")

    def told(row: Row) -> str | None:
        live.feed(0, row)
        return live._status({0: row}, {0: row.bytes.total}, (0.0, row.seconds))

    assert told(replace(ROW, phase="")) is None
    assert "rank 0 holds 4 MB" in (told(ROW) or "").replace("4.00", "4").replace("\u202f", " ")
    assert told(ROW) is None


@pytest.mark.parametrize(("view", "language"), [("memory", "en"), ("timetable", "ar")])
def test_in_a_notebook_it_becomes_an_ordinary_output(view: str, language: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    code = f"""
import sys, time
sys.path.insert(0, {str(root)!r})
from labs.telemetry import Bytes
from labs.telemetry.live import live as make
from labs.telemetry.rows import Row, Slot
live = make({view!r}, ranks=2, formula=Bytes(parameters=4_000_000), language={language!r})
live.show()
started = time.process_time()
for index in range(60):
    phase = ("forward", "backward", "optimizer")[index // 20]
    live.feed(index % 2, Row(seconds=index / 60, phase=phase, bytes=Bytes(parameters=4_000_000, activations=index)))
    live.feed(index % 2, Slot(seconds=index / 60, name=f"F{{index}}", begins=True))
    time.sleep(0.01)
figure = live.finish()
print("seconds of work:", time.process_time() - started)
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=90, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = notebook.cells[0].outputs
    pictures = [output for output in outputs if "data" in output]
    assert [sorted(output.data) for output in pictures] == [["image/svg+xml", "text/html", "text/plain"]]
    assert pictures[0].data["text/html"].startswith("<figure role=")
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    assert float(said.rsplit(":", 1)[1]) < 2.0


SLOTS = [
    Slot(seconds=1.0 + step + at / 10, name=name, begins=begins)
    for step in range(2)
    for name, at, begins in (("F0", 0, True), ("F0", 1, False), ("B0", 2, True), ("B0", 4, False))
]


REWARDS = {"reward": 1.5, "right": 0.5, "any": 1.0}


def test_each_view_draws_what_it_is_for() -> None:
    told: list[Told] = [
        *SLOTS,
        Traffic(seconds=1.0, axis="tensor", bytes=1_000_000),
        Event(seconds=1.0, name="step", rank=0, values={"step": 0}),
        Event(seconds=2.0, name="killed", rank=0),
        *(Event(seconds=2.0, name="rewarded", rank=0, values={**REWARDS, "step": n}) for n in (0, 1)),
        ROW,
    ]
    said = {"memory": "4.00 MB", "timetable": "idle for 25%", "traffic": "1.00 MB", "timeline": "Rank 0 was killed"}
    said["reward"] = "2 steps"
    assert set(said) == set(VIEWS)
    for view, words in said.items():
        shown = live(view, ranks=1, formula=None, language="en")
        for each in told:
            shown.feed(0, each)
        assert words in shown.finish().alt.replace("\u202f", " ")
    with pytest.raises(CourseError, match=r"There is no view named clock\. There are: memory, timetable"):
        live("clock", ranks=1, formula=None, language="en")


def test_at_the_end_the_labs_own_numbers_stand_beside_what_was_seen() -> None:
    shown = live("timetable", ranks=1, formula=None, language="en")
    for each in SLOTS:
        shown.feed(0, each)
    assert "the schedule says 20%" in shown.finish({"bubble": 0.2}).alt
    shown = live("traffic", ranks=2, formula=None, language="en")
    axes = {"tensor": {"all_reduce": {"count": 4, "bytes": 900}}, "data": {"all_reduce": {"count": 1, "bytes": 100}}}
    figure = shown.finish({"ranks": [{"rank": rank, "axes": axes} for rank in range(2)]})
    assert "90% of a step's bytes move on the tensor axis" in figure.alt
    assert "0–1" in figure.html, "the ranks that did the same share a row"


def test_pictures_are_drawn_only_when_there_is_something_new_and_not_too_often() -> None:
    shown = live("timetable", ranks=1, formula=None, language="en")
    shown.widget = widget = SimpleNamespace(picture="", status="")
    shown.send()
    assert widget.picture == "", "nobody has told anything"
    shown.feed(0, SLOTS[0])
    shown.send()
    first = widget.picture
    assert "<svg" in first
    assert widget.status == "Rank 0 runs F0, in step 0."
    shown.feed(0, SLOTS[1])
    shown.send()
    assert widget.picture == first, "a tenth of the time at most goes into drawing"
    shown._next = 0.0  # type: ignore[attr-defined]
    shown.send()
    second = widget.picture
    assert second != first
    shown._next = 0.0  # type: ignore[attr-defined]
    shown.send()
    assert widget.picture is second, "no slot runs, so that nothing has changed"
