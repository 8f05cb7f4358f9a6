"""Offloaded states change nothing but where they are: bit for bit the same training, and every byte accounted for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from labs.runner import run
from labs.strategies.offload import FileRoom, HostRoom, NoRoom, Offloaded, offload, reserve
from labs.telemetry.resident import resident

SCRIPT = Path(__file__).with_name("offloaded.py")
LOSS = {"fp64": 1e-10, "fp32": 2e-6, "bf16": 0.02}
PARAMETER = {"fp64": 1e-10, "fp32": 2e-6, "bf16": 0.01}


OF_STAGES = [
    *({"stage": stage, "precision": "fp64", "to": "file", "block": 2000} for stage in (0, 1, 2, 3)),
    {"stage": 1, "precision": "fp32", "to": "memory", "block": 2000},
    *({"stage": stage, "precision": "bf16", "to": "file", "block": 2000} for stage in (0, 3)),
]
OF_KINDS = [
    {"stage": 1, "precision": "fp32", "to": "file", "block": 1 << 20},
    {"stage": 3, "precision": "bf16", "to": "file", "block": 208},
    {"stage": 2, "precision": "fp64", "to": "file", "block": 4096, "clip": 0.5, "accumulate": 2},
    {"stage": 3, "precision": "fp32", "to": "memory", "block": 4096, "tied": True, "frozen": True},
    {"stage": 1, "precision": "bf16", "to": "file", "block": 2000, "late": 2},
]


@pytest.mark.parametrize(("ranks", "cases"), [(2, OF_STAGES), (3, OF_KINDS)], ids=["stages", "kinds"])
def test_offloaded_is_bitwise_the_same(ranks: int, cases: list[dict[str, Any]]) -> None:
    """Blocks of 2,000 and of 208 numbers divide no unit; one of 2^20 holds any."""
    outcome = run(SCRIPT, ranks=ranks, arguments=[json.dumps(cases)], timeout=120)
    for rank in outcome.ranks:
        assert rank.value["left"] == []
        assert all(rank.value["composed"].values()), rank.value["composed"]
        for result in rank.value["cases"]:
            case, predicted = result["case"], result["predicted"]
            assert result["same"], case
            assert result["loss"] < LOSS[case["precision"]], result
            assert result["parameters"] < PARAMETER[case["precision"]], result
            for when in ("rest", "peak"):
                held = result["measured"][when]
                states = [held["parameters"], held["gradients"], held["optimizer_states"]]
                assert states == predicted["states"], (case, when)
            assert result["measured"]["rest"]["communication"] == predicted["buffers"], case
            highest = predicted["communication"] + predicted["buffers"]
            assert result["measured"]["peak"]["communication"] == highest, case
            assert result["offloaded"] == predicted["offloaded"], case
            assert result["on_disk"] == (predicted["offloaded"] if case["to"] == "file" else 0), case
            assert result["moved"] == predicted["moved"], case
            assert result["collectives"] == predicted["collectives"], case


class Alone:
    """A strategy of one unit on no ranks, for what needs none: only what `offload` looks at."""

    def __init__(self, size: int) -> None:
        self.model = nn.Identity()
        self.trainable = True
        self.units: Any = [self]
        self.values = torch.ones(size)
        self.gradients = torch.full((size,), 0.5)
        self.master = self.values.clone().requires_grad_()
        self.adam = torch.optim.Adam([self.master], fused=True)

    def train_step(self, _: Any) -> Any:
        raise NotImplementedError


def offloaded(alone: Alone, make: Any, block: int) -> list[Offloaded]:
    return offload(alone, make, block=block)


@pytest.mark.serial
@pytest.mark.skipif(resident().mapped is None, reason="this system does not tell mapped memory apart")
def test_only_a_block_of_the_file_is_in_memory(tmp_path: Path) -> None:
    elements, block = 3_000_000, 65536
    alone, highest = Alone(elements), 0
    [own] = offloaded(alone, lambda n, dtype: FileRoom(n, dtype, folder=tmp_path), block)
    own.update(alone.gradients)  # the code itself is read from a mapped file, too
    let_go = own.room.let_go
    before = resident().mapped or 0

    def watched(window: slice) -> None:
        nonlocal highest
        highest = max(highest, (resident().mapped or 0) - before)
        let_go(window)

    own.room.let_go = watched  # type: ignore[method-assign]
    own.update(alone.gradients)
    assert own.room.on_disk == 3 * 4 * elements
    # A block of three states, and what the system maps around a page that is touched.
    assert 3 * 4 * block <= highest < 3 * 4 * block + (4 << 20)
    assert (resident().mapped or 0) - before < 4 << 20
    assert torch.equal(alone.values, alone.master.detach())


def test_a_full_disk_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    alone, made = Alone(100), []
    alone.units = [alone, Alone(200)]
    adam, master = alone.adam, alone.master

    def make(elements: int, dtype: torch.dtype) -> FileRoom:
        made.append(FileRoom(elements if not made else 10**16, dtype, folder=tmp_path))
        return made[-1]

    with pytest.raises(NoRoom, match=r"bytes of optimizer states do not fit; \d+ are free") as refused:
        offloaded(alone, make, 16)
    assert refused.value.needed == 12 * 10**16
    assert alone.adam is adam
    assert alone.master is master
    assert "update" not in vars(alone)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_while_the_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(NoRoom, match="do not fit"):
        FileRoom(100, torch.float32, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_files_cannot_be_reserved_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with (tmp_path / "states").open("wb") as file:
        reserve(file.fileno(), (1 << 20) + 12, folder=tmp_path)
    assert (tmp_path / "states").stat().st_size == (1 << 20) + 12


@pytest.mark.parametrize("block", [0, 8, 100, -16])
def test_a_block_that_would_round_otherwise_is_refused(block: int) -> None:
    with pytest.raises(ValueError, match="a multiple of 16"):
        offloaded(Alone(10), lambda n, dtype: HostRoom(n, dtype, pinned=False), block)


def test_a_model_without_trained_units_has_nothing_to_move() -> None:
    alone = Alone(10)
    alone.trainable = False
    assert offloaded(alone, lambda n, dtype: HostRoom(n, dtype, pinned=False), 16) == []
