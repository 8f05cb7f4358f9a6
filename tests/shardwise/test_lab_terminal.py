"""What the terminal shows of a lab: memory, a timetable that fits the window, traffic by axis, and what happened."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from labs.telemetry.categories import CATEGORIES, Bytes
from labs.telemetry.drawing.legend import Words
from labs.telemetry.events import Event
from labs.telemetry.rows import Row, Slot, Traffic
from shardwise import lab_terminal
from translations import languages, translator

ROW = Row(seconds=0.1, phase="forward", bytes=Bytes(parameters=2_000_000, activations=500_000))
PLANNED: list[list[str | None]] = [["F0", "F1", None, "B0", "B0"], [None, "F0", "B0", "B0", None]]


def watched(view: str, *told: Any, ranks: int = 2, width: int = 80, language: str = "en") -> str:
    """What stands in the window after the ranks have told this."""
    console = Console(file=io.StringIO(), width=width, record=True)
    watch = lab_terminal.Watch(ranks=ranks, view=view, text=translator(language), console=console)
    for rank, each in told:
        watch.take(rank, each)
    console.print(watch)
    return console.export_text().replace("\u202f", " ")


def reported(data: dict[str, Any], capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    lab_terminal.report(data, translator("en"), **options)
    return capsys.readouterr().out.replace("\u202f", " ")


def test_memory_is_shown_by_category_and_rank_as_it_is_now() -> None:
    lower = Row(seconds=0.2, phase="", bytes=Bytes(parameters=1_000_000))
    shown = watched("memory", (0, ROW), (0, lower))
    assert [line for line in shown.splitlines() if "parameters" in line and "1.00 MB" in line and "·" in line]
    assert [line for line in shown.splitlines() if "Highest" in line and "2.50 MB" in line]
    assert "starting" in shown, "rank 1 has told nothing"


@pytest.mark.parametrize("width", [30, 60, 200])
def test_ranks_for_which_the_window_is_too_narrow_are_counted(width: int) -> None:
    shown = watched("memory", *((rank, ROW) for rank in range(9)), ranks=9, width=width)
    columns = next(line for line in shown.splitlines() if "Rank" in line)
    there = [rank for rank in range(9) if f" {rank} " in columns]
    assert there
    assert ("more rank" in shown) == (len(there) < 9)
    if len(there) < 9:
        assert f"and {9 - len(there)} more rank" in shown
    assert max(map(len, shown.splitlines())) <= max(width, 31), "at least one rank is shown"


def test_a_timetable_fills_to_the_scale_of_time() -> None:
    slots = [(0, Slot(seconds=at, name=name, begins=begins)) for name, at, begins in (
        ("F0", 0.0, True), ("F0", 0.25, False), ("B0@1", 0.5, True), ("B0@1", 1.0, False)
    )]  # fmt: skip
    shown = watched("timetable", *slots, width=48)
    row = next(line for line in shown.splitlines() if line.startswith("rank 0"))
    assert row == "rank 0  " + "F0" + "─" * 8 + "·" * 10 + "B0@1" + "─" * 16
    assert next(line for line in shown.splitlines() if line.startswith("rank 1")).strip() == "rank 1"
    assert "not begun" in watched("timetable")


def test_traffic_grows_by_axis_in_the_order_of_the_mesh() -> None:
    told = [(0, Traffic(seconds=0.1, axis=axis, bytes=size)) for axis, size in (("tensor", 900), ("data", 20_000))]
    lines = watched("traffic", *told, (1, told[0][1])).splitlines()
    data, tensor = (next(at for at, line in enumerate(lines) if f"{axis} axis" in line) for axis in ("data", "tensor"))
    assert data < tensor
    assert "20.0 kB" in lines[data]
    assert lines[tensor].count("900 B") == 2


def test_what_happens_is_a_line_each() -> None:
    told = [(0, Event(seconds=at, name=name, rank=0, values={"step": 0}))
            for at, name in ((1.0, "step"), (1.5, "killed"), (2.0, "resumed"))]  # fmt: skip
    lines = watched("timeline", *told, ranks=1).splitlines()
    assert lines[0].startswith("Rank 0 was killed, and the run went on after 500 ms")
    assert [line.split(maxsplit=2) for line in lines[1:3]] == [
        ["500", "ms", "Rank 0 was killed"],
        ["1.0", "s", "Rank 0 resumed at step 0"],
    ]


@given(width=st.integers(20, 120))
def test_a_timetable_loses_no_slot_however_narrow_the_window_is(width: int) -> None:
    lines = [line.plain for line in lab_terminal.timetable(PLANNED, Words.of("en"), width=width)]
    assert max(map(len, lines)) <= width
    for rank, row in enumerate(PLANNED):
        cells = "".join(line[8:] for line in lines if line.startswith(f"rank {rank}"))
        assert len(cells) == 2 * len(row), "a slot is two letters wide"
        assert cells.count("·") == row.count(None)
        for name in {slot for slot in row if slot}:
            assert name in cells


def test_chunks_and_long_names_have_room() -> None:
    (line, _) = lab_terminal.timetable([["F10@1", "B10@1", "B10@1", None]], Words.of("en"), width=80)
    assert line.plain == "rank 0  F10@1B10@1─────·    "


def test_a_report_for_people_says_all_that_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    held = dict.fromkeys(CATEGORIES, 0) | {"parameters": 2_000_000}
    axes = {"pipeline": {"send": {"count": 2, "bytes": 64_000}}}
    ranks = [
        {"rank": rank, "losses": [5.0, 4.0] if rank else [], "bytes": {"rest": held, "peak": held}, "axes": axes}
        for rank in range(2)
    ]
    data = {"timetable": PLANNED, "bubble": 0.3, "ranks": ranks, "reference_losses": [5.0, 4.0]}
    shown = reported(data, capsys, measured=0.31)
    assert "rank 0  F0F1· B0──" in shown
    assert "idle for 31% of the step; the schedule says 30%." in shown
    assert "slow motion" not in shown
    assert "2.00 MB" in shown
    assert "Loss 5.0000 → 4.0000; one process on the whole batch ends at 4.0000." in shown
    assert [line for line in shown.splitlines() if "send" in line and "0–1" in line and "64.0 kB" in line]
    assert "slow motion" in reported(data, capsys, measured=0.6)
    assert "In this schedule the ranks are idle for 30% of a step." in reported(data, capsys)


def test_a_report_of_a_run_that_failed_and_went_on(capsys: pytest.CaptureFixture[str]) -> None:
    events = [Event(seconds=1.5, name="killed", rank=0), Event(seconds=2.0, name="resumed", rank=0, values={"step": 0})]
    data = {"events": [each.as_dict() for each in events], "ranks": [{"rank": 0, "losses": []}]}
    shown = reported(data, capsys)
    assert shown.splitlines()[0] == "Rank 0 was killed, and the run went on after 500 ms; no step was done again."
    assert "Memory" not in shown


@pytest.mark.parametrize("language", [each.code for each in languages() if each.released])
@pytest.mark.parametrize("view", ["memory", "timetable", "traffic", "timeline"])
def test_every_view_says_something_before_the_ranks_do(view: str, language: str) -> None:
    assert watched(view, language=language).strip()
