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
