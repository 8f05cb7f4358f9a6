"""DeepSpeed itself beside our ZeRO: the same losses, the bytes that its source says, and what it does otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from labs.catalogue import checked, run_lab
from labs.planner.deepspeed import predict_deepspeed
from translations import CourseError

FP32, BF16 = 2e-6, 5e-3
"""By how much losses may differ from one process: in bf16 the ranks' gradients are rounded before they are added."""
SCALARS = 64
"""Bytes of collectives for the norm and for overflow, which no formula counts."""
MODEL = {"layers": 2, "hidden": 32, "sequence": 8, "steps": 4}


def same_bytes(each: dict[str, Any]) -> None:
    found = each["deepspeed"]
    for category, size in found["predicted"]["states"].items():
        assert found["rest"][category] == size, (each["stage"], category)
    moved = sum(count["bytes"] for count in found["predicted"]["collectives"].values())
    assert 0 <= found["traffic"] - moved < SCALARS, each["stage"]


def apart(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, others, strict=True))


@pytest.mark.stacks
@pytest.mark.parametrize(("ranks", "clip"), [(1, None), (2, 0.5), (4, None)])
def test_every_stage_has_the_losses_of_one_process_and_the_bytes_of_the_formula(ranks: int, clip: float | None) -> None:
    run = run_lab("deepspeed-zero", ranks=ranks, clip=clip, **MODEL)
    assert [each["stage"] for each in run.data["stages"]] == [0, 1, 2, 3]
    for each in run.data["stages"]:
        for who in ("ours", "deepspeed"):
            assert apart(each[who]["losses"], run.data["reference_losses"]) < FP32, (each["stage"], who)
        same_bytes(each)


@pytest.mark.stacks
def test_in_bf16_stage_0_counts_an_empty_step_and_the_others_do_not() -> None:
    run = run_lab("deepspeed-zero", ranks=2, precision="bf16", **MODEL)
    for each in run.data["stages"]:
        same_bytes(each)
        off = apart(each["deepspeed"]["losses"], run.data["reference_losses"])
        if each["stage"] == 0:
            assert each["deepspeed"]["adam_steps"] == MODEL["steps"] + 1
            assert off > 2 * BF16
        else:
            assert each["deepspeed"]["adam_steps"] == MODEL["steps"]
            assert off < BF16, each["stage"]


@pytest.mark.stacks
def test_offload_keeps_the_losses_and_its_bytes_are_told_apart() -> None:
    for options in ({"offload": "optimizer", "stage": 2}, {"offload": "all", "stage": 3}):
        run = run_lab("deepspeed-zero", ranks=2, **MODEL, **options)
        (each,) = run.data["stages"]
        assert apart(each["deepspeed"]["losses"], run.data["reference_losses"]) < FP32
        same_bytes(each)
        assert each["deepspeed"]["offloaded"] > 0


@pytest.mark.stacks
def test_stage_3_gathers_twice_only_when_it_may_keep_nothing() -> None:
    def gathered(**options: int) -> int:
        run = run_lab("deepspeed-zero", ranks=2, stage=3, accumulate=2, **MODEL, **options)
        (each,) = run.data["stages"]
        same_bytes(each)
        return int(each["deepspeed"]["collectives"]["all_gather"]["bytes"])

    assert gathered(live_parameters=0) == 2 * gathered()


@pytest.mark.stacks
def test_the_bucket_has_its_whole_size_however_small_the_model_is() -> None:
    def peaks(bucket: int) -> set[int]:
        data = run_lab("deepspeed-zero", ranks=2, stage=2, reduce_bucket=bucket, **MODEL).data
        return {int(each["peak_total"]) for each in data["ranks"]}

    small, large = peaks(100_000), peaks(1_100_000)
    for _ in range(6):  # gloo's thread holds a message's buffer a moment longer in one run, and in another it does not
        if any(more - less == 4 * 1_000_000 for more in large for less in small):
            return
        small, large = small | peaks(100_000), large | peaks(1_100_000)
    pytest.fail(f"no two runs whose peaks differ by the bucket alone: {sorted(small)}, {sorted(large)}")


def test_the_formula_by_hand() -> None:
    """Two tensors of 6 and 4 elements on two ranks: a part of 6 (10, padded to 12) ends inside no tensor of rank 0."""
    found = predict_deepspeed([6, 4], stage=2, ranks=2, precision="bf16", bucket=100)
    assert found.states.parameters == 2 * 12
    assert found.states.optimizer_states == 12 * 6 + 4
    assert found.states.gradients == 2 * 6
    assert predict_deepspeed([6, 4], stage=2, ranks=2, rank=1).states.gradients == 4 * 4
    assert predict_deepspeed([5, 5], stage=1, ranks=2).states.gradients == 4 * 10, "both hold what crosses the border"
    assert found.bucket == 200
    assert found.collectives == {"all_reduce": 2 * 2 * 10, "all_gather": 2 * 12}
    third = predict_deepspeed([5, 3], stage=3, ranks=2)
    assert third.states.parameters == 4 * (3 + 2), "each tensor is padded by itself"
    assert third.collectives == {"all_gather": 4 * 10, "reduce_scatter": 4 * 10}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"offload": "all", "stage": 2}, "offloads all from stage 3 on, and this is stage 2"),
        ({"offload": "disk"}, "none, optimizer, all"),
        ({"stage": 4}, "4 is none of them"),
        ({"precision": "fp64"}, "fp64"),
        ({"reduce_bucket": 0}, "reduce-bucket"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        checked("deepspeed-zero", options, ranks=2)
