"""DDP, ZeroRedundancyOptimizer and FSDP2 on two ranks, as torch's own tracker counts them and their formulas say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.runner import run

SCRIPT = Path(__file__).with_name("torchs_own.py")
NAMES = ("ddp", "zero", "fsdp")


@pytest.fixture(scope="module")
def reports() -> tuple[dict[str, Any], ...]:
    done = run(SCRIPT, ranks=2, arguments=NAMES, timeout=120)
    return tuple(result.value for result in done.ranks)


@pytest.mark.parametrize("name", ["ddp", "zero"])
def test_totals_and_peaks_equal_torchs_own_tracker(reports: tuple[dict[str, Any], ...], name: str) -> None:
    for report in reports:
        ours, theirs = report[name]["ours"], report[name]["theirs"]
        assert ours["totals"] == theirs["totals"]
        assert ours["peak_total"] == theirs["peak_total"]


def test_totals_of_fsdp_equal_torchs_own_tracker(reports: tuple[dict[str, Any], ...]) -> None:
    """FSDP2's reduce-scatter buffers go when gloo's thread lets them go, now or a moment later."""
    for report in reports:
        ours, theirs = report["fsdp"]["ours"], report["fsdp"]["theirs"]
        assert min(ours["totals"]) == min(theirs["totals"])
        largest_unit = 4 * (24 * 48 + 48)
        assert abs(ours["peak_total"] - theirs["peak_total"]) <= 2 * largest_unit


def test_each_strategy_holds_what_its_formula_says(reports: tuple[dict[str, Any], ...]) -> None:
    for report in reports:
        p, scalars = report["ddp"]["ours"]["parameters"], 4 * report["ddp"]["ours"]["tensors"]
        rest = {name: report[name]["ours"]["rest"] for name in NAMES}
        states = ("parameters", "gradients", "optimizer_states")
        assert [rest["ddp"][name] for name in states] == [p, p, 2 * p + scalars]
        assert rest["ddp"]["communication"] == p  # DDP's bucket stays
        assert [rest["fsdp"][name] for name in states] == [p // 2, p // 2, p + scalars]
    shards = [report["zero"]["ours"]["rest"]["optimizer_states"] for report in reports]
    assert sum(shards) == 2 * p + scalars


def test_ddp_sends_each_gradient_in_one_all_reduce(reports: tuple[dict[str, Any], ...]) -> None:
    for report in reports:
        ours = report["ddp"]["ours"]
        assert ours["collectives"] == {"all_reduce": {"count": 1, "bytes": 2 * ours["parameters"]}}
