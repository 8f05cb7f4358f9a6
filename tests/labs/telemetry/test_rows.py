"""Rows arrive while they are written, keep every peak, and survive a rank that is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import record_function

from labs.telemetry import CATEGORIES, Bytes, Tracker
from labs.telemetry.events import tell
from labs.telemetry.rows import WINDOW, Reader, Row, Slot, Told, Traffic, Writer, path_of, read


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.tuples(st.sampled_from(CATEGORIES), st.integers(0, 400), st.booleans()), max_size=40))
def test_no_peak_is_lost_however_fast_it_passes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[str, int, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    kept: list[torch.Tensor] = []
    with Writer(path_of(folder, rank=0)) as writer, Tracker(writer=writer) as tracker:
        with record_function("forward"):
            for category, size, keep in sizes:
                with record_function(category):
                    made = torch.empty(size)
                    if keep:
                        kept.append(made)
                    del made
        peak, peak_total = tracker.peak, tracker.peak_total
    rows = read(folder)[0]
    for category in CATEGORIES:
        assert max((row.bytes.as_dict()[category] for row in rows), default=0) == peak.as_dict()[category]
    assert max((row.bytes.total for row in rows), default=0) == peak_total
    assert [row.seconds for row in rows] == sorted(row.seconds for row in rows)


def test_changes_are_coalesced(tmp_path: Path) -> None:
    with Writer(path_of(tmp_path, rank=0)) as writer, Tracker(writer=writer):
        started = time.monotonic()
        with record_function("backward"):
            for _ in range(3000):
                torch.empty(10)
        seconds = time.monotonic() - started
    assert len(read(tmp_path)[0]) <= 3 * (seconds / WINDOW + 2) + 4


def test_each_phase_has_its_rows(tmp_path: Path) -> None:
    with Writer(path_of(tmp_path, rank=2)) as writer, Tracker(writer=writer):
        for phase in ("forward", "backward", "optimizer"):
            with record_function(phase):
                pass
    assert [row.phase for row in read(tmp_path)[2]] == ["forward", "", "backward", "", "optimizer", "", ""]


def test_a_rank_of_a_run_finds_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDWISE_RUN", raising=False)
    assert Writer.for_run() is None
    monkeypatch.setenv("SHARDWISE_RUN", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    writer = Writer.for_run()
    assert writer is not None
    writer.mark("forward", [1] * 6, 6)
    writer.close()
    assert list(read(tmp_path)) == [3]


def test_a_reader_follows_ranks_that_begin_late(tmp_path: Path) -> None:
    seen: list[tuple[int, Row]] = []

    def see(rank: int, row: Told) -> None:
        assert isinstance(row, Row)
        seen.append((rank, row))

    with Reader(tmp_path, ranks=2, on_row=see, every=0.01):
        time.sleep(0.03)
        with Writer(path_of(tmp_path, rank=1)) as writer:
            writer.mark("forward", [1, 2, 3, 4, 5, 6], 21)
            deadline = time.monotonic() + 5
            while not seen and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(seen) == 1
            writer.mark("", [0] * 6, 0)
    assert [(rank, row.phase, row.bytes.total) for rank, row in seen] == [(1, "forward", 21), (1, "", 0)]
    assert 0 < seen[0][1].seconds < 5
    assert seen[0][1].bytes == Bytes(
        parameters=1, gradients=2, optimizer_states=3, activations=4, communication=5, temporary=6
    )


def test_a_rank_killed_in_the_middle_of_a_line_leaves_the_lines_before(tmp_path: Path) -> None:
    path_of(tmp_path, rank=0).write_text('[1.5,"forward",1,1,1,1,1,1]\nnot a row\n[1.7,"forward",1,1')
    assert [row.bytes.total for row in read(tmp_path)[0]] == [6]


def test_a_rank_that_was_started_again_goes_on_in_its_file(tmp_path: Path) -> None:
    path_of(tmp_path, rank=0).write_text('[1.5,"forward",1,1,1,1,1,1]\n[1.7,"forw')
    with Writer(path_of(tmp_path, rank=0)) as writer:
        writer.mark("backward", [2] * 6, 12)
    assert [row.phase for row in read(tmp_path)[0]] == ["forward", "backward"]


def test_slots_traffic_and_events_come_with_the_rows(tmp_path: Path) -> None:
    seen: list[Told] = []
    with Reader(tmp_path, ranks=1, on_row=lambda _, told: seen.append(told)):
        with Writer(path_of(tmp_path, rank=0)) as writer, Tracker(writer=writer):
            for name in ("F0@1", "Fused", "F0x"):
                with record_function(name):
                    pass
            writer.moved("tensor", 12)
        tell(tmp_path, "killed", rank=0)
    slots = [(told.name, told.begins) for told in seen if isinstance(told, Slot)]
    assert slots == [("F0@1", True), ("F0@1", False)]
    assert [(told.axis, told.bytes) for told in seen if isinstance(told, Traffic)] == [("tensor", 12)]
    assert all(0 <= told.seconds < 5 for told in seen)
    assert sum(not isinstance(told, Row) for told in seen) == 4
    assert all(isinstance(row, Row) for row in read(tmp_path)[0])


def test_an_error_of_the_listener_is_not_lost(tmp_path: Path) -> None:
    path_of(tmp_path, rank=0).write_text('[1.5,"forward",1,1,1,1,1,1]\n')

    def refuse(rank: int, _: Told) -> None:
        raise LookupError(rank)

    with pytest.raises(LookupError), Reader(tmp_path, ranks=1, on_row=refuse):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_ends_the_rows_not_the_training() -> None:
    with Writer(Path("/dev/full")) as writer, Tracker(writer=writer) as tracker:
        with record_function("forward"):
            kept = torch.empty(5)
        assert tracker.now == Bytes(activations=20)
        del kept
