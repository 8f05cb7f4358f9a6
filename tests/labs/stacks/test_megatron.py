"""Megatron Core itself beside ours: its layers in fp64, its GPT under its own 1F1B, and what its axes carry."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from labs.catalogue import checked, run_lab
from labs.model import GPT, Shape
from labs.stacks.megatron_here import PATCHES, by_head, counterpart
from translations import CourseError

FP64, FP32 = 1e-10, 2e-6


def moved(reports: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes on each axis, over all ranks."""
    axes: dict[str, int] = {}
    for report in reports:
        for axis, counts in report["axes"].items():
            axes[axis] = axes.get(axis, 0) + sum(count["bytes"] for count in counts.values())
    return axes


@pytest.mark.stacks
@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_its_layers_and_its_gpt_are_equal_to_ours_and_move_as_much(tp: int, pp: int) -> None:
    run = run_lab("megatron-gpt", tp=tp, pp=pp, hidden=32, sequence=8, steps=3)
    for report in run.data["ranks"]:
        for name, apart in report["layers"].items():
            assert max(apart.values()) < FP64, name
    own = next(each["losses"] for each in run.data["ours"] if each["losses"])
    for losses in (run.losses, own):
        assert max(abs(a - b) for a, b in zip(losses, run.data["reference_losses"], strict=True)) < FP32
    theirs, ours = moved(run.data["ranks"]), moved(run.data["ours"])
    if tp == 1:
        theirs.pop("tensor")  # Megatron also calls the collectives of an axis of one rank, where nothing moves
    assert theirs == ours
    for one, other in zip(run.data["ranks"], run.data["ours"], strict=True):
        assert one["bytes"]["rest"]["gradients"] == other["bytes"]["rest"]["gradients"]
    schedule = run.data["ranks"][0]["schedule"]
    assert schedule == f"forward_backward_{'pipelining_without_interleaving' if pp > 1 else 'no_pipelining'}"
    assert set(run.data["ranks"][0]["patches"]) == set(PATCHES), "nothing else stands between it and the CPU"


def test_a_cut_of_the_fused_matrix_gives_whole_heads() -> None:
    """Four heads of one feature: q0 k0 v0 q1 k1 v1 ..., so that two ranks have two heads each."""
    weight = torch.arange(12.0).view(12, 1)
    assert by_head(weight, 4).flatten().tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


def test_every_parameter_of_ours_has_its_place_and_the_bias_that_ours_has_not_is_told() -> None:
    whole = GPT(Shape(layers=2, hidden=8, heads=2, sequence=4))
    assert counterpart("decoder.layers.0.self_attention.linear_qkv.bias", whole, first_layer=1) is None
    found = counterpart("decoder.layers.0.mlp.linear_fc1.bias", whole, first_layer=1)
    assert found is whole.get_parameter("blocks.1.up.bias")
    assert counterpart("output_layer.weight", whole, first_layer=0) is whole.head.linear.weight


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 3}, "heads"),
        ({"pp": 2, "tp": 1, "layers": 3}, "3 layers do not divide by 2 stages"),
        ({"precision": "fp64"}, "fp64"),
        ({"accumulate": 2}, "accumulate"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        checked("megatron-gpt", options, ranks=options.get("tp", 2) * options.get("pp", 2))
