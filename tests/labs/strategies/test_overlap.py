"""Overlapped training is bit for bit that without overlap, in the same collectives, with the buffers of the formula."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.runner import run

SCRIPT = Path(__file__).with_name("overlapped.py")
BOUND = {"fp64": 1e-10, "fp32": 2e-6, "bf16": 0.01}
CASES: dict[int, list[dict[str, Any]]] = {
    2: [
        *({"stage": stage, "precision": "fp64"} for stage in (0, 1, 2, 3)),
        *({"stage": stage, "precision": "bf16", "accumulate": 3} for stage in (0, 1, 2, 3)),
        {"stage": 0, "precision": "fp64", "bucket": 140_000},
        {"stage": 0, "precision": "fp32", "bucket": 10**9, "accumulate": 2, "tied": True},
        {"stage": 2, "precision": "fp32", "buckets": 1},
        {"stage": 3, "precision": "fp32", "ahead": 0, "buckets": 1},
    ],
    3: [
        *(
            {"stage": stage, "precision": "fp64", "accumulate": 2, "clip": 0.5, "tied": True, "frozen": True}
            for stage in (0, 1, 2, 3)
        ),
        {"stage": 3, "precision": "fp32", "ahead": 2, "buckets": 3},
        {"stage": 3, "precision": "fp32", "ahead": 3, "buckets": 1, "tied": True},
    ],
}


@pytest.mark.parametrize("ranks", sorted(CASES))
def test_overlapped_is_bitwise_the_same(ranks: int) -> None:
    for rank in run(SCRIPT, ranks=ranks, arguments=[json.dumps(CASES[ranks])], timeout=120).ranks:
        assert f"rank {rank.rank}: use 1 of the model's pieces is another" in rank.value["refused"]
        for result in rank.value["cases"]:
            case = result["case"]
            assert result["same"], case
            assert result["parameters"] < BOUND[case["precision"]], result
            plain, overlapped = result["collectives"]
            if case["stage"] == 0:
                reduced = result["reduced"]
                assert overlapped["all_reduce"] == {"count": len(reduced), "bytes": 2 * sum(reduced)}, case
                assert overlapped["all_reduce"]["bytes"] == plain["all_reduce"]["bytes"], case
                assert (len(reduced) < plain["all_reduce"]["count"]) == ("bucket" in case), case
            else:
                assert overlapped == plain, case
            assert result["communication"] == result["predicted"], case
