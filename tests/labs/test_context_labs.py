"""The labs of context and expert parallelism as people start them: equal to one process and to their formulas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labs.catalogue import LabRun, formula, run_lab

SMALL: dict[str, Any] = {"layers": 2, "hidden": 16, "heads": 2, "steps": 3}


def check(run: LabRun, axis: str) -> None:
    """What both labs promise."""
    data = json.loads(json.dumps(run.data))
    assert data["lab"] == axis
    for report in data["ranks"]:
        assert report["losses"] == pytest.approx(data["reference_losses"], abs=2e-6)
        assert report["axes"] == {axis: report["collectives"]}
        assert report["collectives"] == data["predicted"]["collectives"]
        for category, amount in data["predicted"]["states"].items():
            assert report["bytes"]["rest"][category] == amount
            assert report["bytes"]["peak"][category] == amount
    assert run.model_states() == sum(data["predicted"]["states"].values())


def test_context_tells_who_waits() -> None:
    options: dict[str, Any] = {"ranks": 3, "sequence": 10, "order": "naive", **SMALL}
    run = run_lab("context", **options)
    check(run, "context")
    assert run.model_states() == formula("context", **options).model_states
    assert run.data["global_batch"] == 12
    assert run.data["layout"] == {"dp": 1, "cp": 3, "order": "naive", "precision": "fp32"}
    assert run.data["work"] == [[10, 0, 0], [10, 16, 0], [10, 16, 16]]
    assert run.data["waits"] == pytest.approx([32 / 42, 16 / 42, 0])
    assert run.data["idle"] == pytest.approx(run.data["predicted"]["idle"]) == pytest.approx(48 / 126)


def test_experts_tell_who_wanted_them_and_who_was_dropped() -> None:
    options: dict[str, Any] = {"ranks": 2, "experts": 4, "capacity": 0.5, "sequence": 8, "accumulate": 2, **SMALL}
    run = run_lab("expert", **options)
    check(run, "expert")
    assert run.model_states() == formula("expert", **options).model_states
    assert run.data["places"] == 3
    assert [sum(layer) for layer in run.data["tokens"]] == [12 * 8] * 2
    # 2 ranks x 2 micro-batches x 4 experts x 3 places are at most 48 of 96 tokens.
    assert all(48 <= dropped < 96 for dropped in run.data["dropped"])
