"""Every schedule equals one process and torch's own executor, on stages of unequal size and with a shared weight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.runner import run
from labs.strategies.pipeline import PipelineParallel
from labs.strategies.schedules import SCHEDULES
from labs.strategies.units import Recipe

SCRIPT = Path(__file__).parent / "pipeline_cases.py"
BOUND = {"fp64": 1e-10, "fp32": 2e-6}
# As for data parallelism: roundings of a bf16 gradient, which Adam turns into differences of the order of the learning
# rate, 0.003 in three steps; and one rounding of a parameter near 1.
BF16_LOSS, BF16_PARAMETER = 0.02, 0.003 + 2**-8


def case_of(schedule: str, *, ranks: int, **more: Any) -> dict[str, Any]:
    chunks = {"chunks": 2, "layers": 2 * ranks} if schedule == "interleaved" else {"layers": ranks + 1}
    return {"schedule": schedule, "micro_batches": 4 if ranks < 4 else 8, "precision": "fp64", **chunks, **more}


def results(cases: list[dict[str, Any]], *, ranks: int) -> list[list[dict[str, Any]]]:
    """For each case, what each rank reports."""
    outcome = run(SCRIPT, ranks=ranks, arguments=[json.dumps(cases)], timeout=120)
    return [list(group) for group in zip(*(result.value for result in outcome.ranks), strict=True)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_equals_one_process(ranks: int) -> None:
    schedules = [schedule for schedule in SCHEDULES if ranks > 1 or schedule != "interleaved"]
    cases = [case_of(schedule, ranks=ranks) for schedule in schedules]
    cases += [case_of(schedule, ranks=ranks, tied=True) for schedule in schedules]
    cases += [case_of(schedule, ranks=ranks, recompute=True) for schedule in schedules[1:]]
    cases += [case_of(schedule, ranks=ranks, precision="fp32") for schedule in schedules]
    cases += [case_of(schedule, ranks=ranks, precision="bf16", tied=True) for schedule in schedules[-2:]]
    for reports in results(cases, ranks=ranks):
        for rank, result in enumerate(reports):
            case, precision = result["case"], result["case"]["precision"]
            assert result["steps_with_a_loss"] == (3 if rank == ranks - 1 else 0), case
            assert result["loss"] < BOUND.get(precision, BF16_LOSS), case
            assert result["parameters"] < BOUND.get(precision, BF16_PARAMETER), case
            assert result["left_over"] == 0, case
            if precision != "bf16":
                assert result["gradients"] < BOUND[precision], case
        if reports[0]["case"].get("tied"):
            copies = [digest for result in reports for digest in result["shared"]]
            assert len(copies) == (1 if ranks == 1 else 2)
            assert len(set(copies)) == 1, "the copies of the shared weight are not the same, bit by bit"


def test_clipping_is_refused() -> None:
    with pytest.raises(ValueError, match="train without clip"):
        PipelineParallel([], orders=[], hidden=1, loss=max, group=None, recipe=Recipe(clip=1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("ranks", [2, 4])
def test_equals_torchs_own(ranks: int) -> None:
    cases = [case_of(schedule, ranks=ranks, torch=True) for schedule in SCHEDULES]
    for reports in results(cases, ranks=ranks):
        for rank, result in enumerate(reports):
            assert result["gradients"] < BOUND["fp64"], result
            assert (result["loss"] is not None) == (rank == ranks - 1)
            assert result["loss"] is None or result["loss"] < BOUND["fp64"]
            if result["case"]["schedule"] in ("interleaved", "zero-bubble"):
                assert result["same_order"] == [True] * ranks, result
