"""The parts of a rank's side that a run on a machine without GPUs does not reach, and the heart that every rank has."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from labs.runner import heartbeat, rank


class Accelerators:
    """What torch would say on a machine with so many GPUs."""

    def __init__(self, patch: pytest.MonkeyPatch, *, kind: str, count: int) -> None:
        patch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device(kind))
        patch.setattr(torch.accelerator, "device_count", lambda: count)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {"RANK": "6", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SHARDWISE_RUN", raising=False)
    return monkeypatch


def test_each_rank_of_a_machine_has_its_own_gpu(environment: pytest.MonkeyPatch) -> None:
    Accelerators(environment, kind="cuda", count=4)
    assert rank.device() == torch.device("cuda", 2)


@pytest.mark.parametrize(("kind", "count"), [("cuda", 3), ("cuda", 1), ("mps", 8)])
def test_ranks_that_would_share_a_gpu_take_the_cpu(kind: str, count: int, environment: pytest.MonkeyPatch) -> None:
    Accelerators(environment, kind=kind, count=count)
    assert rank.device() == torch.device("cpu")


def test_sharing_is_told_once_a_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("SHARDWISE_LANG", "nl")
    Accelerators(monkeypatch, kind="cuda", count=1)
    with rank.group() as group:
        assert (group.size(), dist.get_backend(group)) == (1, "gloo")
    assert "GPU's op deze machine: 1; ranks: 4." in capsys.readouterr().out
    monkeypatch.setenv("LOCAL_RANK", "1")
    with rank.group():
        pass
    assert capsys.readouterr().out == ""


def test_a_group_of_one_can_be_had_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), rank.group():
        raise ZeroDivisionError
    assert not dist.is_initialized()
    with rank.group():
        dist.barrier()


def test_a_value_that_is_not_finite_becomes_strict_json() -> None:
    value = {"a": [float("nan"), float("inf"), {"b": -float("inf")}], "c": 1.5, "d": None}
    assert rank.finite(value) == {"a": ["NaN", "Infinity", {"b": "-Infinity"}], "c": 1.5, "d": None}


def test_the_runner_reads_what_a_rank_writes(tmp_path: Path) -> None:
    heartbeat.create(tmp_path, 3)
    hearts = heartbeat.Hearts(tmp_path, 3)
    assert hearts.now(1) == heartbeat.Now(state=heartbeat.NOT_STARTED, since=0.0, step=-1, operation="")
    heart = heartbeat.Heart(tmp_path, 1)
    assert hearts.now(1).step == -1
    heart.step(7)
    heart.call(b"0", b"all_reduce SUM float32 [4]", b"all_reduce SUM float32 [4]")
    now = hearts.now(1)
    assert (now.state, now.step, now.operation) == (heartbeat.WAITING, 7, "all_reduce SUM float32 [4]")
    heart.go_on()
    assert hearts.now(1).state == heartbeat.COMPUTING
    assert hearts.now(1).since >= now.since
    heart.wait("é".encode() * 200)
    assert hearts.now(1).operation == "é" * (heartbeat.TEXT // 2)
    heart.lost()
    assert hearts.now(1).state == heartbeat.RAISED
    heart.end()
    assert hearts.now(1).state == heartbeat.ENDED
    assert hearts.now(0) == hearts.now(2) == heartbeat.Now(state=0, since=0.0, step=-1, operation="")
    hearts.close()


def test_each_call_is_read_once_and_a_reader_that_comes_late_gets_the_latest(tmp_path: Path) -> None:
    heartbeat.create(tmp_path, 1)
    heart, hearts = heartbeat.Heart(tmp_path, 0), heartbeat.Hearts(tmp_path, 1)
    for _ in range(3):
        heart.call(b"world", b"barrier", b"barrier")
    heart.call(b"pair", b"send to 1 float32 [2]", b"float32 [2]")
    calls = list(hearts.calls(0))
    assert [each.number for each in calls] == [0, 1, 2, 0]
    assert [each.content for each in calls] == ["barrier"] * 3 + ["float32 [2]"]
    assert len({each.history for each in calls}) == 4
    assert list(hearts.calls(0)) == []
    for _ in range(1000):
        heart.call(b"world", b"barrier", b"barrier")
    late = [each.number for each in hearts.calls(0)]
    assert late[-1] == 1002
    assert late == list(range(late[0], 1003))
    assert heartbeat.RING - 2 <= len(late) <= heartbeat.RING
    hearts.close()
