"""The lab as people start it: its JSON, the same numbers under plain torchrun, what cannot run, and a model that
learns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from labs.catalogue import LabRun, formula, run_lab
from labs.data import corpus, global_batch, micro_batches
from labs.model import GPT, Shape
from labs.options.base import MOST_SEED
from labs.options.zero import ZeroOptions
from labs.telemetry import CATEGORIES
from translations import CourseError, translator

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "sequence": 16, "steps": 4}
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def small() -> LabRun:
    return run_lab("zero", ranks=2, stage=2, **SMALL)


def test_the_json_holds_what_is_promised(small: LabRun) -> None:
    data = json.loads(json.dumps(small.data))
    assert data["lab"] == "zero"
    assert data["layout"]["dp"] == 2
    assert len(data["reference_losses"]) == 4
    assert [report["rank"] for report in data["ranks"]] == [0, 1]
    for report in data["ranks"]:
        assert report["losses"] == data["ranks"][0]["losses"]
        assert report["losses"] == pytest.approx(data["reference_losses"], abs=2e-6)
        assert report["seconds"] > 0
        assert set(report["bytes"]) == {"rest", "peak"}
        for amounts in report["bytes"].values():
            assert set(amounts) == set(CATEGORIES)
        for count in report["collectives"].values():
            assert set(count) == {"count", "bytes"}
    expected = formula("zero", ranks=2, stage=2, **SMALL)
    assert small.model_states() == expected.model_states
    assert small.bytes("gradients") == expected.gradients
    assert set(small.rows) == {0, 1}
    assert all(rows for rows in small.rows.values())


def test_plain_torchrun_gives_the_same_numbers(small: LabRun) -> None:
    """One rank of torchrun prints what rank 0 holds; `shardwise lab run` shows the same."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "labs/zero.py"]
    words = ZeroOptions(stage=2, **SMALL).arguments()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*command, *words], cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120, text=True
    )
    told = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    ours = small.data["ranks"][0]
    assert told["losses"] == pytest.approx(ours["losses"], abs=2e-6)
    assert told["bytes"]["rest"] == ours["bytes"]["rest"]
    assert told["collectives"] == ours["collectives"]


def test_scalars_of_clipping_stand_apart() -> None:
    report = run_lab("zero", ranks=2, stage=1, clip=1.0, **SMALL).data["ranks"][0]
    assert report["clipping"] == {"count": 1, "bytes": 8}
    assert set(report["collectives"]) == {"all_gather", "reduce_scatter"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_by_default_model_states_are_most_of_stage_0(precision: str) -> None:
    run = run_lab("zero", ranks=4, stage=0, precision=precision, steps=3)
    assert run.model_states() >= 0.7 * run.peak_total()


def test_the_model_learns() -> None:
    run = run_lab("zero", ranks=2, stage=1, steps=40, hidden=64, layers=2)
    first, last = sum(run.losses[:3]) / 3, sum(run.losses[-3:]) / 3
    assert last < first - 1.5, run.losses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stage": 4}, "unknown-stage"),
        ({"precision": "fp8"}, "unknown-precision"),
        ({"steps": 1}, "option-at-least"),
        ({"hidden": 30}, "heads-do-not-divide"),
        ({"clip": 0.0}, "clip-not-positive"),
        ({"slow": -1.0}, "slow-out-of-range"),
        ({"ranks": 0}, "option-at-least"),
        ({"ranks": 400}, "too-many-ranks"),
        ({"hidden": 2**20}, "model-too-large"),
        ({"stge": 1}, "unknown-option"),
        ({"micro_batch": 0}, "option-at-least"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab("zero", **{"ranks": 2, **options})
    assert refused.value.id == f"labs.{message}"
    assert refused.value.in_language(translator("ar")) != str(refused.value)


def test_an_unknown_lab_names_the_nearest() -> None:
    with pytest.raises(CourseError, match="zero"):
        run_lab("zeros")


def test_options_survive_the_way_through_a_command_line() -> None:
    options = ZeroOptions(stage=3, precision="bf16", micro_batch=2, accumulate=3, clip=0.5, tied=True, seed=7, slow=0.1)
    assert ZeroOptions.parse(options.arguments()) == options


def test_ranks_share_out_the_batch_without_gap_or_repeat() -> None:
    batch = global_batch(3, size=12, sequence=8, seed=1)
    for ranks, accumulate in ((1, 1), (3, 2), (4, 3), (2, 6)):
        parts = [
            tokens
            for rank in range(ranks)
            for tokens, _ in micro_batches(batch, rank=rank, ranks=ranks, accumulate=accumulate)
        ]
        assert torch.equal(torch.cat(parts), batch[0])
    assert torch.equal(batch[0][:, 1:], batch[1][:, :-1])
    with pytest.raises(ValueError, match="does not divide"):
        micro_batches(batch, rank=0, ranks=5)


def test_every_step_has_another_batch_and_every_run_the_same() -> None:
    first, again, other = (global_batch(step, size=4, sequence=8)[0] for step in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(corpus()) > 20_000
    assert global_batch(0, size=1, sequence=8, seed=MOST_SEED)[0].shape == (1, 8)


def test_a_model_is_the_same_in_every_precision_up_to_rounding() -> None:
    single, double = (GPT(Shape(layers=1, hidden=16, heads=2), dtype=d) for d in (torch.float32, torch.float64))
    for a, b in zip(single.parameters(), double.parameters(), strict=True):
        assert torch.allclose(a.double(), b, atol=1e-7)
