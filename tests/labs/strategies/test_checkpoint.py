"""What some ranks save, others load: the same states to the last bit, and a run that goes on as if nothing had been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.runner import run

SCRIPT = Path(__file__).parent / "checkpointing.py"
BOUND = 2e-6
BF16 = 0.01

# (who saves on 4 ranks, who loads, on how many): other numbers of ranks, other stages, other kinds of parallelism.
SAVED: dict[str, dict[str, Any]] = {
    "zero-0": {"kind": "zero", "stage": 0},
    "zero-1-bf16": {"kind": "zero", "stage": 1, "precision": "bf16"},
    "zero-2-frozen": {"kind": "zero", "stage": 2, "frozen": True},
    "zero-3": {"kind": "zero", "stage": 3, "tied": True},
    "zero-3-bf16": {"kind": "zero", "stage": 3, "precision": "bf16"},
    "zero-3-dropout": {"kind": "zero", "stage": 3, "dropout": True},
    "tensor": {"kind": "tensor"},
    "mesh": {"kind": "layout", "layout": {"dp": 2, "pp": 1, "tp": 2, "zero": 1}},
    "pipeline": {"kind": "layout", "layout": {"pp": 2, "tp": 2, "dp": 1}, "tied": True},
}
LOADED: dict[int, list[tuple[str, dict[str, Any]]]] = {
    4: [(name, {}) for name in SAVED],
    3: [
        ("zero-0", {"stage": 3}),
        ("zero-1-bf16", {"stage": 2}),
        ("zero-2-frozen", {}),
        ("zero-3", {}),
        ("zero-3-bf16", {}),
        ("mesh", {"kind": "tensor"}),
    ],
    2: [
        ("zero-3", {"stage": 1}),
        ("zero-3-bf16", {"stage": 0}),
        ("tensor", {"kind": "zero", "stage": 3}),
        ("mesh", {"kind": "layout", "layout": {"pp": 2}}),
        ("pipeline", {"kind": "layout", "layout": {"dp": 2, "zero": 1}}),
    ],
    1: [("zero-3", {"stage": 0}), ("tensor", {})],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The folder with a checkpoint of each kind, and what was in memory when it was saved."""
    folder = tmp_path_factory.mktemp("checkpoints")
    cases = [{"folder": name, **case} for name, case in SAVED.items()]
    outcome = run(SCRIPT, ranks=4, arguments=["save", str(folder), json.dumps(cases)], timeout=120)
    return folder, dict(zip(SAVED, outcome.ranks[0].value, strict=True))


@pytest.mark.parametrize("ranks", LOADED)
def test_states_are_the_same_to_the_bit_and_the_run_goes_on(
    saved: tuple[Path, dict[str, dict[str, Any]]], ranks: int
) -> None:
    folder, before = saved
    cases = [{"folder": name, **SAVED[name], **other} for name, other in LOADED[ranks]]
    outcome = run(SCRIPT, ranks=ranks, arguments=["load", str(folder), json.dumps(cases)], timeout=120)
    for case, found in zip(cases, outcome.ranks[0].value, strict=True):
        there = before[case["folder"]]
        assert found["saved"] == there["saved"], case
        if ranks == 4:
            assert found["end"] == there["end"], case
        assert found["worst"] <= (BF16 if case.get("precision") == "bf16" else BOUND), case


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of 2 ranks was told."""
    folder = tmp_path_factory.mktemp("faults")
    outcome = run(SCRIPT.with_name("checkpoint_faults.py"), ranks=2, arguments=[str(folder)], timeout=120)
    return [each.value for each in outcome.ranks]


@pytest.mark.parametrize(
    ("fault", "problem", "named", "words"),
    [
        ("nothing there", "none", None, "no checkpoint of step None"),
        ("over the latest", "exists", None, "roll back first"),
        ("larger", "no-tensor", None, "no model.blocks.2"),
        ("smaller", "left-over", None, "no rank asks for model.blocks.1"),
        (
            "wider",
            "other-shape",
            None,
            "model.embedding.token.weight is [256, 24] in the checkpoint and [256, 32] here",
        ),
        ("disk full", "not-saved", 1, "rank 1 could not write the checkpoint of step 4"),
        ("one bit", "damaged", "__1_0.distcp", "is not what was written. Whole ones: [3]"),
        ("cut off", "damaged", "__1_0.distcp", "step 5"),
        ("missing", "no-file", "__1_0.distcp", "__1_0.distcp is missing. Whole ones: [3]"),
        ("roll back to none", "none", None, "no checkpoint of step 4"),
        ("no sums", "damaged", "SHA256SUMS", "SHA256SUMS"),
        ("torn marker", "none", None, "no checkpoint of step None"),
    ],
)
def test_what_is_wrong_is_said_on_every_rank_and_the_last_good_checkpoint_is_kept(
    found: list[dict[str, Any]], fault: str, problem: str, named: str | int | None, words: str
) -> None:
    for rank in found:
        told, message, which, *good = rank["faults"][fault]
        assert (told, which if named is not None else None) == (problem, named)
        assert words in message
        assert good[:1] in ([], [True])


def test_an_interrupted_save_leaves_nothing_and_is_in_nobodys_way(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert rank["faults"]["disk full"][4] == ["latest", "step-3"]
        assert rank["faults"]["interrupted"][3]
        files = ["SHA256SUMS", "SHA256SUMS", "__0_0.distcp", "__0_0.distcp", "__1_0.distcp", "__1_0.distcp"]
        assert rank["faults"]["after it"][0] == sorted([".metadata"] * 2 + files + ["latest", "step-3", "step-5"])
        assert rank["faults"]["rolled back"] == [3, [3], True]


def test_torch_loads_what_we_save_and_we_load_what_torch_saves(found: list[dict[str, Any]]) -> None:
    states = found[0]["torch"]
    assert len(states["ours"]) == 4 * 27
    assert states["ours"] == states["theirs"] == states["back"] == states["whole"]
    assert states["boxes"] > len(states["ours"])
