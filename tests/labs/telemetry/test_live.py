"""The live plot in a kernel without a page, and its traffic as a page would see it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from labs.telemetry import Bytes
from labs.telemetry.live import MemoryPlot
from labs.telemetry.rows import Row

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


@pytest.mark.parametrize("language", ["en", "ar"])
def test_in_a_notebook_it_becomes_an_ordinary_output(language: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    code = f"""
import sys, time
sys.path.insert(0, {str(root)!r})
from labs.telemetry import Bytes
from labs.telemetry.live import MemoryPlot
from labs.telemetry.rows import Row
live = MemoryPlot(2, Bytes(parameters=4_000_000), {language!r})
live.show()
started = time.process_time()
for index in range(60):
    phase = ("forward", "backward", "optimizer")[index // 20]
    live.feed(index % 2, Row(seconds=index / 60, phase=phase, bytes=Bytes(parameters=4_000_000, activations=index)))
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
