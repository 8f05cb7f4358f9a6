"""Mixed precision equals torch's GradScaler in every decision, ranks skip steps together, and each format is what the
table says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from labs.catalogue import run_lab
from labs.data import global_batch
from labs.model import GPT
from labs.runner import run
from labs.strategies.precision import LossScaler, dequantize, eight_bits, quantize, through
from labs.strategies.units import Recipe
from tests.labs.strategies.precision_cases import DTYPES, SHAPE, STEPS
from translations import CourseError

SCRIPT = Path(__file__).with_name("precision_cases.py")
OVERFLOWING: dict[str, Any] = {"scale": 2.0**22, "interval": 3}
CASES: list[dict[str, Any]] = [
    {"precision": "fp16", "scaler": OVERFLOWING},
    {"precision": "fp16", "scaler": OVERFLOWING, "clip": 0.1},
    {"precision": "fp32", "accumulate": 2},
    {"precision": "fp32", "accumulate": 2, "plain": True},
    {"precision": "bf16", "scaler": {"scale": 1024.0, "dynamic": False}},
    {"precision": "bf16", "plain": True},
]


def torchs_own(case: dict[str, Any]) -> dict[str, Any]:
    """One process with torch's own scaler over fp32 master weights."""
    model = GPT(SHAPE, seed=1, dtype=DTYPES[case["precision"]])
    masters = [p.detach().float().requires_grad_() for p in model.parameters()]
    adam = torch.optim.Adam(masters, lr=Recipe().lr, eps=Recipe().eps)
    own = case["scaler"]
    scaler = torch.amp.GradScaler("cpu", init_scale=own["scale"], growth_interval=own["interval"])
    losses, scales, skipped = [], [], []
    for step in range(STEPS):
        scales.append(scaler.get_scale())
        model.zero_grad()
        loss = model(*global_batch(step, size=8, sequence=SHAPE.sequence))
        scaler.scale(loss).backward()
        for p, master in zip(model.parameters(), masters, strict=True):
            assert p.grad is not None
            master.grad = p.grad.float()
        scaler.unscale_(adam)
        if "clip" in case:
            torch.nn.utils.clip_grad_norm_(masters, case["clip"])
        scaler.step(adam)
        scaler.update()
        skipped += [step] if scaler.get_scale() < scales[-1] else []
        for p, master in zip(model.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
        losses.append(loss.item())
    return {"losses": losses, "scales": scales, "skipped": skipped}


def test_every_step_equals_that_of_torchs_scaler() -> None:
    outcome = run(SCRIPT, ranks=1, arguments=[json.dumps(CASES[:2])], timeout=60)
    for ours, case in zip(outcome.ranks[0].value["cases"], CASES[:2], strict=True):
        theirs = torchs_own(case)
        assert ours["skipped"] == theirs["skipped"]
        assert ours["scales"] == theirs["scales"]
        assert len(set(ours["scales"])) > 3
        # A last digit of Adam's in fp32 can decide to which fp16 number a parameter is rounded.
        assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-4)


def test_ranks_skip_the_same_steps_and_a_scale_changes_nothing_but_what_overflows() -> None:
    outcome = run(SCRIPT, ranks=2, arguments=[json.dumps(CASES)], timeout=100)
    ranks = [result.value["cases"] for result in outcome.ranks]
    assert ranks[0] == ranks[1]
    fp16, clipped, fp32, fp32_plain, bf16, bf16_plain = ranks[0]
    assert 0 < len(fp16["skipped"]) < STEPS
    assert clipped["parameters"] != fp16["parameters"]
    assert fp32 == fp32_plain
    assert bf16["parameters"] == bf16_plain["parameters"]  # a scale that is a power of two rounds nothing

    for rank, result in enumerate(outcome.ranks):
        told = result.value["shards"]
        assert [overflow for overflow, *_ in told] == [False, True, False, False]
        assert [scale for _, scale, _ in told] == [4.0, 2.0, 2.0, 4.0]
        if rank == 0:
            assert [value for *_, value in told] == [2.0, 2.0, 4.0, 4.0]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(overflows=st.lists(st.booleans(), max_size=30), interval=st.integers(1, 5))
def test_the_scale_follows_torchs_rule(overflows: list[bool], interval: int) -> None:
    ours = LossScaler(scale=64.0, interval=interval)
    theirs = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=interval)
    weight = torch.zeros(1, requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=1.0)
    theirs.scale(torch.zeros(1))
    for overflow in overflows:
        weight.grad = torch.tensor([torch.nan if overflow else 1.0])
        mine = weight.grad.clone()
        found = ours.unscale([mine])
        theirs.unscale_(sgd)
        assert overflow or torch.equal(mine, weight.grad)
        theirs.step(sgd)
        theirs.update()
        ours.update(overflow=found)
        assert found == overflow
        assert ours.scale == theirs.get_scale()


def test_the_formats_are_what_the_table_says() -> None:
    assert torch.finfo(torch.float16).max == 65504
    assert torch.tensor(6.0e-8).half() != 0
    assert torch.tensor(2.9e-8).half() == 0
    assert torch.tensor(1 + 2.0**-10).half() == 1 + 2.0**-10
    assert torch.tensor(1 + 2.0**-8).bfloat16() == 1
    assert torch.finfo(torch.float8_e4m3fn).max == 448
    assert torch.finfo(torch.float8_e5m2).max == 57344


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32, allow_subnormal=False), min_size=1, max_size=20),
    dtype=st.sampled_from([torch.float8_e4m3fn, torch.float8_e5m2]),
)
@example(values=[1.1754943508222875e-38], dtype=torch.float8_e4m3fn)
@example(values=[-1.3e-38, 0.0], dtype=torch.float8_e5m2)
def test_eight_bits_keep_the_largest_and_are_off_by_half_a_step_at_most(
    values: list[float], dtype: torch.dtype
) -> None:
    x = torch.tensor(values)
    back = dequantize(*quantize(x, dtype), torch.float32)
    fraction, smallest = {torch.float8_e4m3fn: (3, 2.0**-9), torch.float8_e5m2: (2, 2.0**-16)}[dtype]
    step = x.abs() * 2.0 ** -(fraction + 1) + smallest * x.abs().max() / torch.finfo(dtype).max
    assert bool(((back - x).abs() <= step * 1.001).all())
    assert back.abs().max() == pytest.approx(float(x.abs().max()), rel=1e-5, abs=1e-33)


def test_an_outlier_costs_its_own_block_alone() -> None:
    values = torch.full((8,), 0.01)
    values[1] = 1e6
    assert through(values, torch.float8_e4m3fn, block=8).count_nonzero() == 1
    back = through(values, torch.float8_e4m3fn, block=4)
    assert back[:4].tolist() == [0, pytest.approx(1e6), 0, 0]
    assert back[4:].tolist() == pytest.approx([0.01] * 4)


def test_linear_layers_in_eight_bits_are_close_and_keep_one_byte_a_value() -> None:
    batch = global_batch(0, size=2, sequence=SHAPE.sequence)
    plain, eight = GPT(SHAPE, seed=1), GPT(SHAPE, seed=1)
    eight_bits(eight)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):  # type: ignore[func-returns-value]
        loss = eight(*batch)
    loss.backward()
    plain_loss = plain(*batch)
    plain_loss.backward()
    assert loss.item() != plain_loss.item()
    assert loss.item() == pytest.approx(plain_loss.item(), abs=0.01)
    assert sum(x.dtype == torch.float8_e4m3fn for x in saved) == 2 * 4 * SHAPE.layers
    for a, b in zip(eight.parameters(), plain.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert torch.nn.functional.cosine_similarity(a.grad.flatten(), b.grad.flatten(), dim=0) > 0.95


def test_an_underflow_is_shown_and_cured() -> None:
    sizes: dict[str, Any] = {"ranks": 2, "layers": 2, "hidden": 32, "steps": 12, "sequence": 16}
    lost = run_lab("precision", precision="fp16", loss_scale="0.00002", **sizes)
    cured = run_lab("precision", precision="fp16", **sizes)
    assert lost.data["underflow"]["zero"] > 0.5
    assert cured.data["underflow"]["zero"] < 0.001
    assert lost.losses[-1] > cured.losses[-1] + 0.2
    assert cured.losses == pytest.approx(cured.data["reference_losses"], abs=0.02)
    for run_ in (lost, cured):
        report, predicted = run_.data["ranks"][0], run_.data["ranks"][0]["predicted"]
        assert {name: report["bytes"]["rest"][name] for name in predicted["states"]} == predicted["states"]
        assert report["collectives"] == predicted["collectives"]


def test_bf16_without_master_weights_stalls() -> None:
    sizes: dict[str, Any] = {"ranks": 2, "layers": 2, "hidden": 32, "steps": 6, "lr": 1e-5, "sequence": 16}
    with_masters = run_lab("precision", precision="bf16", **sizes)
    without = run_lab("precision", precision="bf16", no_masters=True, **sizes)
    assert without.data["moved"] < with_masters.data["moved"] / 2
    assert without.losses[-1] > with_masters.losses[-1]
    predicted = without.data["ranks"][0]["predicted"]["states"]
    assert without.bytes("optimizer_states") == predicted["optimizer_states"]
    assert predicted["optimizer_states"] < with_masters.bytes("optimizer_states") / 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"scale": 0.0}, "above zero"), ({"growth": 1.0}, "growth above 1"), ({"interval": 0}, "interval at least 1")],
)
def test_a_scale_that_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LossScaler(**arguments)


def test_gradients_of_16_bits_are_not_unscaled() -> None:
    with pytest.raises(ValueError, match="in fp32, not in"):
        LossScaler().unscale([torch.ones(2, dtype=torch.float16)])


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"loss_scale": "large"}, "loss-scale-unknown"),
        ({"loss_scale": "-1"}, "loss-scale-unknown"),
        ({"lr": 0.0}, "lr-not-positive"),
        ({"clip": 0.0}, "clip-not-positive"),
        ({"precision": "fp64"}, "unknown-precision"),
        ({"growth_interval": 0}, "option-at-least"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(options: dict[str, Any], id: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab("precision", ranks=2, **options)
    assert refused.value.id == f"labs.{id}"
