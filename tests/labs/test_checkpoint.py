"""The labs of checkpoints and of failures as people start them, and the order of the data that both rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs import elastic
from labs.catalogue import run_lab
from labs.data import corpus, examples, examples_in, order
from labs.planner.goodput import checkpoint_bytes
from labs.runner import processes
from labs.telemetry.events import Event
from translations import CourseError, translator

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "sequence": 16}


def test_what_4_ranks_save_3_load_at_another_stage() -> None:
    told: list[tuple[int, object]] = []
    run = run_lab(
        "checkpoint",
        ranks=4,
        load_ranks=3,
        stage=3,
        load_stage=1,
        precision="bf16",
        steps=6,
        on_row=lambda rank, row: told.append((rank, row)),
        **SMALL,
    )
    data = json.loads(json.dumps(run.data))
    saved, resumed = data["checkpoint"], data["resumed"]
    assert resumed["same_states"]
    assert resumed["states"] == 27 * 5  # parameter, master, two moments, counter
    assert saved["step"] == resumed["step"] == 3
    assert len(resumed["losses"]) == 3
    assert resumed["largest_difference"] < 0.02
    assert resumed["layout"]["zero"] == 1
    assert saved["bytes"] == saved["predicted"]
    assert saved["bytes"] == checkpoint_bytes(parameters=run.parameters, precision="bf16", tensors=27, generators=4)
    assert set(saved["files"]) == {".metadata", "SHA256SUMS", *(f"__{rank}_0.distcp" for rank in range(4))}
    assert sum(saved["files"].values()) > saved["bytes"]
    assert {box["file"] for box in saved["boxes"]} == {f"__{rank}_0.distcp" for rank in range(4)}
    assert 0 < saved["seconds"]["waited"] < saved["seconds"]["safe"]
    assert [each["losses"] for each in data["ranks"]] == [run.losses] * 4
    assert run.losses == pytest.approx(data["reference_losses"], abs=0.02)
    names = [each["event"] for each in data["events"]]
    assert names.count("saved") == 4
    assert names.count("resumed") == 3
    assert [each["seconds"] for each in data["events"]] == sorted(each["seconds"] for each in data["events"])
    assert sum(isinstance(row, Event) for _, row in told) == len(data["events"])


def test_the_same_ranks_go_on_as_if_nothing_had_been(tmp_path: Any) -> None:
    options = {"stage": 2, "steps": 4, "checkpoints": str(tmp_path), **SMALL}
    run = run_lab("checkpoint", ranks=2, load_ranks=2, **options)
    assert run.data["resumed"]["largest_difference"] == 0
    assert run.losses == pytest.approx(run.data["reference_losses"], abs=2e-6)
    again = run_lab("checkpoint", ranks=1, resume=True, **options)
    assert again.data["ranks"][0]["first"] == 2
    assert again.losses == pytest.approx(run.losses[2:], abs=2e-6)
    with pytest.raises(CourseError) as refused:
        run_lab("checkpoint", ranks=1, resume=True, **options | {"hidden": 48})
    assert "[256, 32]" in str(refused.value)
    assert "[256, 48]" in str(refused.value)


def test_a_run_whose_ranks_are_killed_ends_like_one_that_nothing_happened_to() -> None:
    run = run_lab("elastic", ranks=2, stage=3, timeout=150, **SMALL)
    data = json.loads(json.dumps(run.data))
    assert [attempt["ranks"] for attempt in data["attempts"]] == [2, 2, 1, 2]
    assert len(run.losses) == 32
    assert run.losses == pytest.approx(data["reference_losses"], abs=2e-6)
    assert data["examples"] == {"consumed": 384, "missing": 0, "repeated": 0, "in_order": True}
    done = sum(len(attempt["losses"]) for attempt in data["attempts"])
    assert data["lost_steps"] == done - 32 > 0
    for before, after in zip(data["attempts"], data["attempts"][1:], strict=False):
        assert after["first"] % 4 == 0
        assert after["first"] <= before["first"] + len(before["losses"])
    names = [each["event"] for each in data["events"]]
    assert names.count("killed") == 2
    assert names.count("restarting") == 3
    assert names.count("finished") == 2
    assert not any(processes.there(each["pid"]) for each in data["events"] if each["event"] == "started")


@pytest.mark.parametrize(
    ("lab", "options", "message"),
    [
        ("checkpoint", {"load_ranks": 5}, "checkpoint-batch"),
        ("checkpoint", {"load_ranks": 0}, "option-at-least"),
        ("checkpoint", {"load_stage": 4}, "unknown-stage"),
        ("checkpoint", {"save_after": 10}, "checkpoint-nothing-left"),
        ("elastic", {"ranks": 3}, "elastic-ranks"),
        ("elastic", {"steps": 19}, "elastic-too-short"),
        ("elastic", {"pace": float("nan")}, "pace-out-of-range"),
        ("elastic", {"ranks": 2, "timeout": 0.1}, "elastic-too-long"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(lab: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab(lab, **{"ranks": 4, **options})
    assert refused.value.id == f"labs.{message}"
    assert refused.value.in_language(translator("ar")) != str(refused.value)


# --- the order of the data


@given(
    pieces=st.lists(st.integers(0, 700), min_size=1, max_size=5),
    seed=st.integers(0, 9),
    sequence=st.sampled_from([32, 64]),
)
def test_a_run_in_pieces_takes_what_a_whole_one_takes(pieces: list[int], seed: int, sequence: int) -> None:
    taken, consumed = [], 0
    for count in pieces:
        taken += order(consumed, count, sequence=sequence, seed=seed)
        consumed += count
    assert taken == order(0, consumed, sequence=sequence, seed=seed)


def test_an_epoch_has_every_example_once_in_an_order_of_its_own() -> None:
    size = examples_in(32)
    first, second = (order(epoch * size, size, sequence=32) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(size))
    assert first != second
    assert order(size - 2, 4, sequence=32) == [*first[-2:], *second[:2]]


def test_examples_are_stretches_of_the_text_with_the_next_byte_as_target() -> None:
    tokens, targets = examples([3, 0], sequence=32)
    assert torch.equal(tokens[0], corpus()[96:128].long())
    assert torch.equal(targets[1], corpus()[1:33].long())


def test_a_rank_whose_machine_came_too_late_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"losses": []}', encoding="utf-8")
    assert elastic.reported(tmp_path, 0) == {"losses": []}
    with pytest.raises(CourseError) as early:
        elastic.reported(tmp_path, 1)
    assert early.value.id == "labs.elastic-too-quick"
    assert "rank 1" in str(early.value)
