"""The labs of offload and overlap as people start them: their JSON, their formulas, and what cannot run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from labs import offload
from labs.catalogue import LabRun, formula, run_lab
from labs.options.offload import OffloadOptions
from labs.telemetry.trace import Lanes
from translations import CourseError, translator

SMALL: dict[str, Any] = {"ranks": 2, "layers": 2, "hidden": 32, "sequence": 16, "steps": 3}


def test_a_cap_without_an_accelerator_is_said_and_not_claimed() -> None:
    lines: list[str] = []
    run = run_lab("offload", cap=24.0, to="device", on_output=lambda _, line: lines.append(line), **SMALL)
    if torch.accelerator.is_available():
        assert run.data["ranks"][0]["offloaded"]["cap"] == 24
    else:
        assert any("cannot" in line and "24" in line for line in lines)
        assert run.data["ranks"][0]["offloaded"]["cap"] is None


def test_a_cap_is_a_share_of_the_accelerators_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, torch.device]] = []

    class Module:
        @staticmethod
        def set_per_process_memory_fraction(share: float, device: torch.device) -> None:
            asked.append((share, device))

    there = torch.device("cuda:0")
    monkeypatch.setattr("labs.runner.rank.device", lambda: there)
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda _: (0, 96 * 10**9))
    monkeypatch.setattr(torch, "get_device_module", lambda _: Module)
    assert offload.capped(OffloadOptions(cap=24.0))
    assert offload.capped(OffloadOptions(cap=200.0))
    assert not offload.capped(OffloadOptions())
    assert asked == [(0.25, there), (1.0, there)]


@pytest.mark.gpu
def test_what_a_workstation_holds_only_with_states_in_host_memory() -> None:
    """Ren et al. 2021: 16 bytes a parameter do not fit under the cap; without Adam's 12 they do."""
    case: dict[str, Any] = {"ranks": 1, "layers": 12, "hidden": 1024, "sequence": 64, "steps": 3, "precision": "bf16"}
    states = formula("offload", to="device", **case).model_states
    cap = 0.7 * states / 1e9
    with pytest.raises(CourseError, match="memory"):
        run_lab("offload", to="device", cap=cap, **case)
    run = run_lab("offload", to="memory", cap=cap, **case)
    assert run.data["ranks"][0]["offloaded"]["cap"] == cap
    assert run.losses == pytest.approx(run.data["reference_losses"], abs=2e-2)


@pytest.fixture(scope="module")
def in_a_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[LabRun, Path]:
    folder = tmp_path_factory.mktemp("disk")
    return run_lab("offload", to="file", stage=1, precision="bf16", block=1024, folder=str(folder), **SMALL), folder


def test_states_in_a_file(in_a_file: tuple[LabRun, Path]) -> None:
    run, folder = in_a_file
    data = json.loads(json.dumps(run.data))
    assert data["layout"] == {"dp": 2, "zero": 1, "precision": "bf16", "offload": "file"}
    assert list(folder.iterdir()) == []
    for report in data["ranks"]:
        away, predicted = report["offloaded"], report["predicted"]
        assert away["to"] == "file"
        assert away["bytes"] == away["on_disk"] == predicted["offloaded"]
        assert away["moved"] == predicted["moved"]
        assert not away["same_memory"]
        assert report["bytes"]["rest"]["optimizer_states"] == predicted["states"]["optimizer_states"] == 4 * 4
        assert report["bytes"]["peak"]["communication"] == predicted["communication"]
        assert len(report["resident"]["steps"]) == 3
        assert set(report["resident"]["steps"][0]) == {"anonymous", "mapped", "mapped_peak"}
        assert report["losses"] == pytest.approx(data["reference_losses"], abs=0.02)
    expected = formula("offload", to="file", stage=1, precision="bf16", **SMALL)
    assert run.model_states() == expected.model_states
    # 12 bytes a parameter, shared by two ranks; in bf16 4 bytes cross, of this rank's half.
    assert run.data["ranks"][0]["offloaded"]["bytes"] == pytest.approx(6 * run.parameters, rel=0.001)
    assert run.data["ranks"][0]["offloaded"]["moved"] == pytest.approx(2 * run.parameters, rel=0.001)


def test_states_in_memory_say_that_host_and_device_are_one() -> None:
    said: list[str] = []
    run = run_lab("offload", to="memory", stage=3, on_output=lambda rank, line: said.append(line), **SMALL)
    report = run.data["ranks"][0]
    assert report["offloaded"]["same_memory"] == (not torch.accelerator.is_available())
    assert report["offloaded"]["on_disk"] == 0
    assert run.losses == pytest.approx(run.data["reference_losses"], abs=2e-6)
    if not torch.accelerator.is_available():
        assert any("host and device are one memory" in line for line in said)


def test_states_on_the_device_are_the_comparison() -> None:
    run = run_lab("offload", to="device", **SMALL)
    report = run.data["ranks"][0]
    assert report["offloaded"]["bytes"] == report["offloaded"]["moved"] == 0
    assert run.model_states() == formula("offload", to="device", **SMALL).model_states
    assert run.bytes("optimizer_states") == formula("zero", **SMALL).optimizer_states


def test_a_full_disk_is_told_with_rank_and_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Strategy:
        model = nn.Identity()
        trainable = True
        master = torch.zeros(1000)

        def __init__(self) -> None:
            self.units: Any = [self]

        def train_step(self, _: Any) -> Any:
            raise NotImplementedError

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=11_999))
    options = OffloadOptions(to="file", folder=str(tmp_path))
    with pytest.raises(CourseError) as refused:
        offload.moved_away(Strategy(), options, offload.Memory())
    assert refused.value.id == "labs.offload-no-room"
    assert "Rank 0 cannot keep 12000 bytes" in str(refused.value)
    assert refused.value.in_language(translator("nl")) != str(refused.value)


@pytest.mark.parametrize(
    ("lab", "options", "message"),
    [
        ("offload", {"block": 100}, "offload-block"),
        ("offload", {"block": 0}, "offload-block"),
        ("offload", {"to": "disk"}, "unknown-choice"),
        ("offload", {"folder": "/no/such/folder"}, "offload-no-folder"),
        ("offload", {"cap": 0.0}, "offload-cap"),
        ("offload", {"stage": 4}, "unknown-stage"),
        ("overlap", {"bandwidth": 0.0}, "bandwidth-not-positive"),
        ("overlap", {"ahead": -1}, "option-at-least"),
        ("overlap", {"buckets": 0}, "option-at-least"),
        ("overlap", {"straggle": -0.1}, "option-at-least"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(lab: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab(lab, **{"ranks": 2, **options})
    assert refused.value.id == f"labs.{message}"
    assert refused.value.in_language(translator("ar")) != str(refused.value)


@pytest.mark.serial
@pytest.mark.parametrize("stage", [0, 3])
def test_overlap_hides_what_blocking_shows(stage: int) -> None:
    runs = {
        blocking: run_lab("overlap", stage=stage, blocking=blocking, bandwidth=20.0, **{**SMALL, "hidden": 64})
        for blocking in (False, True)
    }
    for blocking, run in runs.items():
        assert run.data["layout"]["overlap"] is not blocking
        for report in run.data["ranks"]:
            lanes = Lanes.of(report["trace"])
            assert lanes.hidden == report["hidden"]
            assert {block.name for block in lanes.compute} <= {"forward", "backward", "optimizer"}
            assert {block.name for block in lanes.communication} == set(report["collectives"])
            assert report["step_seconds"] > 0
            assert report["bytes"]["peak"]["communication"] == report["predicted"]["communication"]
        assert run.losses == pytest.approx(run.data["reference_losses"], abs=2e-6)
    overlapped, blocked = (runs[blocking] for blocking in (False, True))
    assert overlapped.losses == blocked.losses
    assert overlapped.collectives() == blocked.collectives()
    # Where nothing overlaps, what is counted is the moment between a call and its wait: long if the rank has no core.
    assert overlapped.data["hidden"] > blocked.data["hidden"]
    assert blocked.data["hidden"] < 0.4


def test_a_straggler_waits_for_nobody_and_all_others_for_it() -> None:
    """A collective lasts until the last rank has joined: long on all ranks but the slow one."""
    run = run_lab("overlap", blocking=True, straggle=0.3, **SMALL)
    first = [Lanes.of(report["trace"]).communication[0] for report in run.data["ranks"]]
    waited, slow = (block.end - block.start for block in first)
    assert waited > 0.2
    assert waited > 2 * slow
