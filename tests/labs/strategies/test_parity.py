"""Every strategy equals one process: losses, gradients and parameters; its bytes and its traffic equal the formula,
to the byte.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from labs.runner import run

SCRIPT = Path(__file__).parent / "cases.py"
BOUND = {"fp64": 1e-10, "fp32": 2e-6}
# bf16 keeps 8 bits: ranks that add in another order part by roundings of the gradient, about 2^-8 of it, which Adam
# turns into differences of the order of the learning rate; over 10 steps of 1e-3 a parameter moves at most 0.01.
BF16_LOSS, BF16_PARAMETER = 0.02, 0.01


def results(cases: list[dict[str, Any]], *, ranks: int) -> list[list[dict[str, Any]]]:
    """For each case, what each rank reports."""
    outcome = run(SCRIPT, ranks=ranks, arguments=[json.dumps(cases)], timeout=120)
    return [list(group) for group in zip(*(result.value for result in outcome.ranks), strict=True)]


def check_bytes(result: dict[str, Any]) -> None:
    predicted, case = result["predicted"], result["case"]
    for when in ("rest", "peak"):
        measured = result["measured"][when]
        states = [measured["parameters"], measured["gradients"], measured["optimizer_states"]]
        assert states == predicted["states"], (case, when)
    assert result["measured"]["peak"]["communication"] == predicted["communication"], case
    collectives = dict(result["collectives"])
    clipping = collectives.pop("clipping", None)
    assert collectives == predicted["collectives"], case
    assert (clipping is not None) == ("clip" in case and case["stage"] != 0), case


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_fp64_equals_one_process(ranks: int) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"tied": True, "frozen": True},
        {"accumulate": 12 // ranks, "clip": 0.5, "steps": 5},
        {"accumulate": 2 if ranks == 3 else 3, "tied": True, "steps": 5},
    ]
    cases = [{"stage": stage, "precision": "fp64", **kind} for stage, kind in itertools.product((0, 1, 2, 3), kinds)]
    cases.append({"stage": "naive", "precision": "fp64"})
    for reports in results(cases, ranks=ranks):
        for result in reports:
            assert result["loss"] < BOUND["fp64"], result["case"]
            assert result["parameters"] < BOUND["fp64"], result["case"]
            if result["gradients"] is not None:
                assert result["gradients"] < BOUND["fp64"], result["case"]
            if result["predicted"] is not None:
                check_bytes(result)
        assert all(result["losses"] == reports[0]["losses"] for result in reports)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_fp32_and_bf16_equal_one_process_within_rounding(ranks: int) -> None:
    cases = [{"stage": stage, "precision": precision} for stage in range(4) for precision in ("fp32", "bf16")]
    cases.append({"stage": "naive", "precision": "fp32"})
    for reports in results(cases, ranks=ranks):
        for result in reports:
            exact = result["case"]["precision"] == "fp32"
            assert result["loss"] < (BOUND["fp32"] if exact else BF16_LOSS), result
            assert result["parameters"] < (BOUND["fp32"] if exact else BF16_PARAMETER), result
            if result["predicted"] is not None:
                check_bytes(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_equals_torchs_own(ranks: int) -> None:
    cases = [
        {"stage": 1, "precision": "fp32", "torch": "zero_redundancy_optimizer"},
        {"stage": 2, "precision": "fp32", "torch": "fsdp2"},
        {"stage": 3, "precision": "fp32", "torch": "fsdp2"},
    ]
    for reports in results(cases, ranks=ranks):
        for result in reports:
            assert result["loss"] < BOUND["fp32"], result
            assert result["parameters"] < BOUND["fp32"], result


def test_a_branch_that_one_rank_does_not_use_counts_as_zero_there() -> None:
    """Ranks finish their units in different orders then; their collectives still meet."""
    for result in run(SCRIPT.with_name("unused.py"), ranks=3, timeout=60).ranks:
        assert all(worst < BOUND["fp64"] for worst in result.value), result.value
