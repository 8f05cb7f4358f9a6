"""Accelerate and the Trainer beside DDP and our ZeRO-2: the same losses, and what silently did not happen is found."""

from __future__ import annotations

from typing import Any

import pytest

from labs.cases.rows import rows_of
from labs.catalogue import checked, run_lab
from labs.options.accelerated import WAYS
from labs.stacks.what_ran import what_ran
from shardwise import stacks_shown
from translations import CourseError, translator

FP32 = 2e-6
SMALL: dict[str, Any] = {"hidden": 32, "sequence": 8, "steps": 4, "budget": 0.9, "most": 32, "reduce_bucket": 10_000}


def left(*, optimizer: int, moved: int) -> dict[str, Any]:
    return {"kept": {"optimizer_states": optimizer}, "collectives": {"all_reduce": {"bytes": moved}} if moved else {}}


@pytest.mark.parametrize(
    ("asked", "optimizer", "moved", "ran"),
    [
        ("ddp", 800, 100, "as-asked"),
        ("zero-2", 400, 100, "as-asked"),
        ("trainer-zero-2", 650, 100, "as-asked"),
        ("accelerate-fsdp2", 812, 100, "replicated"),
        ("accelerate-cpu-zero-2", 800, 100, "replicated"),
        ("accelerate", 800, 0, "alone"),
        ("accelerate-fsdp2", 400, 0, "alone"),
    ],
)
def test_bytes_and_messages_tell_what_ran(asked: str, optimizer: int, moved: int, ran: str) -> None:
    assert what_ran(asked, left(optimizer=optimizer, moved=moved), parameters=100, ranks=2) == ran


def test_one_rank_has_nothing_to_share() -> None:
    assert what_ran("zero-2", left(optimizer=800, moved=0), parameters=100, ranks=1) == "as-asked"


@pytest.mark.stacks
def test_every_way_has_one_process_s_losses_or_is_found_out() -> None:
    data = run_lab("accelerated", ranks=2, **SMALL).data
    ways = data["ways"]
    assert list(ways) == list(WAYS)
    ran = {name: each["ran"] for name, each in ways.items()}
    assert ran == dict.fromkeys(WAYS, "as-asked") | {
        "accelerate-alone": "alone",
        "accelerate-fsdp2": "replicated",
        "accelerate-cpu-zero-2": "replicated",
    }
    for name, each in ways.items():
        apart = max(abs(a - b) for a, b in zip(each["losses"], data["reference_losses"], strict=True))
        assert (apart > 1e-3) if name == "accelerate-alone" else (apart < FP32), (name, apart)
    assert ways["accelerate-zero-2"]["wrapped"] == ways["trainer-zero-2"]["wrapped"] == "DeepSpeedEngine"
    assert ways["accelerate-fsdp2"]["wrapped"] == "DistributedDataParallel"
    batches = {name: each["micro_batch"] for name, each in ways.items()}
    assert 0 < batches["ddp"] == batches["accelerate"] == batches["accelerate-cpu-zero-2"]
    assert batches["ddp"] < batches["accelerate-zero-2"] <= batches["zero-2"]
    assert data["launched"] == {"asked": 2, "started": 1}
    assert {row.value for row in rows_of(data) if row.name == "accelerated-batch"} == set(batches.values())
    shown = list(stacks_shown.accelerated(data, translator("en")))
    assert sum(isinstance(each, str) and "Accelerate" in each for each in shown) == 3


@pytest.mark.parametrize(
    ("options", "ranks", "said"),
    [
        ({"budget": 0.0}, 2, "above zero"),
        ({"most": 0}, 2, "most"),
        ({"way": "zero-4"}, 2, "zero-4"),
        ({"accumulate": 2}, 2, "accumulate 2"),
        ({}, 1, "ranks"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], ranks: int, said: str) -> None:
    with pytest.raises(CourseError, match=said):
        checked("accelerated", options, ranks=ranks)
