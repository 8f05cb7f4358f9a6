"""Events outlive the rank that told them, are in the order of time, and follow a run while it goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from labs.telemetry.events import Follower, event, path_of, read, tell


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWISE_RUN", str(tmp_path))
    monkeypatch.setenv("RANK", "2")
    return tmp_path


def test_a_rank_and_its_leader_tell_in_the_order_of_time(rank: Path) -> None:
    tell(rank, "started")
    event("saved", step=3)
    tell(rank, "killed", rank=1, signal=9)
    found = read(rank)
    assert [(each.name, each.rank, dict(each.values)) for each in found] == [
        ("started", None, {}),
        ("saved", 2, {"step": 3}),
        ("killed", 1, {"signal": 9}),
    ]
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    assert found[0].seconds == 0
    assert found[1].as_dict() == {
        "seconds": found[1].seconds, "event": "saved", "rank": 2, "attempt": 0, "step": 3
    }  # fmt: skip


def test_a_rank_that_was_started_again_goes_on_after_its_half_line(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event("saved", step=3)
    with path_of(rank, rank=2).open("ab") as file:
        file.write(b'[12.5, 0, 2, "sav')
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    event("resumed", step=3)
    assert [(each.name, each.attempt) for each in read(rank)] == [("saved", 0), ("resumed", 1)]


def test_a_follower_tells_each_event_once(rank: Path) -> None:
    follower = Follower(rank, ranks=4)
    assert follower.new(origin=0.0) == []
    before = time.monotonic()
    event("step", number=0)
    tell(rank, "killed", rank=2)
    first = follower.new(origin=before)
    assert [each.name for each in first] == ["step", "killed"]
    assert 0 <= first[0].seconds < 5
    event("step", number=1)
    assert [each.values["number"] for each in follower.new(origin=before)] == [1]
    assert follower.new(origin=before) == []
    follower.close()


def test_without_a_runs_folder_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDWISE_RUN", raising=False)
    monkeypatch.chdir(tmp_path)
    event("step", number=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_ends_no_training(rank: Path) -> None:
    path_of(rank, rank=2).symlink_to("/dev/full")
    event("step", number=0)
