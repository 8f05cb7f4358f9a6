"""Recomputation changes nothing but the memory: gradients equal bit by bit, alone and inside every parallelism; its
bytes and operations equal the formula; and what cannot be recomputed is refused with a reason.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

from labs import recompute as lab
from labs.catalogue import run_lab
from labs.data import global_batch
from labs.model import GPT, VOCABULARY, Shape
from labs.options.recompute import RecomputeOptions
from labs.planner.activations import Model
from labs.runner import run
from labs.strategies.recompute import RecomputedOtherwise, recompute
from labs.telemetry import Tracker
from translations import CourseError

MODES = ("none", "full", "selective", "every")
DROPPING = Shape(layers=3, hidden=24, heads=3, sequence=12, dropout=0.2, fused=False)


def gradients(model: GPT, shape: Shape) -> list[Tensor]:
    torch.manual_seed(5)
    model(*global_batch(0, size=2, sequence=shape.sequence)).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [DROPPING, Shape(layers=3, hidden=24, heads=3, sequence=12)], ids=["steps", "fused"])
def test_gradients_are_equal_bit_by_bit_and_equal_torchs_own(shape: Shape, dtype: torch.dtype) -> None:
    expected = gradients(GPT(shape, dtype=dtype), shape)
    for mode in MODES:
        model = GPT(shape, dtype=dtype)
        recompute(model, mode=mode, every=2)
        assert equal(gradients(model, shape), expected), mode
    model = GPT(shape, dtype=dtype)
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    assert equal(gradients(model, shape), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_are_equal_bit_by_bit_on_an_accelerator() -> None:
    """Its own random numbers are kept and set back, too."""
    batch = [each.cuda() for each in global_batch(0, size=2, sequence=12)]
    found = []
    for mode in MODES:
        model = GPT(DROPPING).cuda()
        recompute(model, mode=mode, every=2)
        torch.manual_seed(5)
        model(*batch).backward()
        # The embedding adds up its rows in any order on a GPU.
        found.append([*(p.grad for p in model.blocks.parameters()), torch.rand(3, device="cuda")])
    assert all(equal(own, found[0]) for own in found)


def test_random_numbers_after_backward_are_as_if_nothing_had_run_again() -> None:
    drawn = []
    for mode in ("none", "full"):
        model = GPT(DROPPING)
        recompute(model, mode=mode)
        gradients(model, DROPPING)
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


def test_gradients_reach_a_model_whose_input_needs_none() -> None:
    """torch's older, reentrant way drops them."""
    block = GPT(DROPPING).blocks[0]
    holder = nn.ModuleList([block])
    recompute(holder, mode="full")
    block(torch.randn(2, 12, 24)).sum().backward()
    assert all(p.grad is not None for p in block.parameters())


def test_a_copy_of_a_recomputed_model_runs_its_own_blocks_again() -> None:
    model = GPT(DROPPING)
    recompute(model, mode="full")
    twin = copy.deepcopy(model)
    gradients(twin, DROPPING)
    assert all(p.grad is not None for p in twin.parameters())
    assert all(p.grad is None for p in model.parameters())


def test_backward_twice_through_a_kept_graph() -> None:
    model = GPT(DROPPING)
    recompute(model, mode="full")
    torch.manual_seed(5)
    loss = model(*global_batch(0, size=2, sequence=12))
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    loss.backward()
    assert equal([p.grad / 2 for p in model.parameters() if p.grad is not None], first)


def test_nothing_is_kept_where_no_gradient_is_asked_for() -> None:
    model = GPT(DROPPING).eval()
    recompute(model, mode="full")
    with torch.no_grad():
        loss = model(*global_batch(0, size=2, sequence=12))
    assert not loss.requires_grad


# --- bytes and operations


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    width=st.sampled_from([4, 8, 40]),
    sequence=st.sampled_from([2, 5, 16, 64]),
    batch=st.integers(1, 3),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]),
    kind=st.sampled_from(["fused", "steps", "dropout"]),
    mode=st.sampled_from(MODES),
    every=st.integers(1, 3),
)
def test_bytes_equal_the_formula(
    layers: int, heads: int, width: int, sequence: int, batch: int, dtype: torch.dtype, kind: str, mode: str, every: int
) -> None:
    dropout, fused, hidden = 0.1 if kind == "dropout" else 0.0, kind == "fused", heads * width
    shape = Shape(layers=layers, hidden=hidden, heads=heads, sequence=sequence, dropout=dropout, fused=fused)
    model = GPT(shape, dtype=dtype)
    recompute(model, mode=mode, every=every)
    tokens, targets = global_batch(0, size=batch, sequence=sequence)
    with Tracker() as tracker:
        tracker.adopt(model.parameters(), "parameters")
        with record_function("forward"):
            loss = model(tokens, targets)
        kept = tracker.now.activations
        with record_function("backward"):
            loss.backward()
        peak = tracker.peak.activations
    formula = Model(
        layers=layers,
        hidden=hidden,
        heads=heads,
        sequence=sequence,
        batch=batch,
        value=dtype.itemsize,
        vocabulary=VOCABULARY,
        dropout=dropout > 0,
        fused=fused,
    )
    assert kept == formula.kept(mode, every)
    assert peak == formula.peak(mode, every)


def test_operations_equal_the_formula() -> None:
    for number in range(8):
        chance = random.Random(number)
        options = RecomputeOptions(
            recompute=MODES[number % 4],
            every=chance.randint(1, 3),
            layers=chance.randint(1, 5),
            hidden=4 * chance.randint(2, 9),
            sequence=chance.randint(2, 40),
            dropout=chance.choice([0.0, 0.1]),
            micro_batch=chance.randint(1, 4),
        )
        counted, formula = lab.flops(options, ranks=2), lab.sizes_of(options, ranks=2)
        assert counted["forward"] == formula.forward_flops, options
        assert counted["recomputed"] == formula.recomputed_flops(options.recompute, options.every), options


def test_the_lab_tells_what_is_kept_and_equals_the_ranks_work_on_one_process() -> None:
    sizes: dict[str, Any] = {"ranks": 2, "layers": 2, "hidden": 16, "heads": 2, "sequence": 16, "dropout": 0.2}
    found = {mode: run_lab("recompute", recompute=mode, steps=3, accumulate=2, **sizes) for mode in ("none", "full")}
    assert found["none"].losses == found["full"].losses
    for run_ in found.values():
        assert run_.losses == pytest.approx(run_.data["reference_losses"], abs=2e-6)
        for told in (*run_.data["activations"].values(), run_.data["forward_flops"], run_.data["recomputed_flops"]):
            # The loss of the first micro-batch is still there in the second, 4 bytes.
            assert told["measured"] == pytest.approx(told["formula"], abs=4)


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"recompute": "some"}, "unknown-choice"),
        ({"every": 0}, "option-at-least"),
        ({"dropout": 1.0}, "dropout-out-of-range"),
        ({"dropout": 0.1, "fused": True}, "dropout-needs-weights"),
    ],
)
def test_the_lab_refuses_what_cannot_run(options: dict[str, Any], id: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab("recompute", ranks=2, **options)
    assert refused.value.id == f"labs.{id}"


# --- inside every parallelism


def test_nothing_changes_inside_any_parallelism() -> None:
    """Only what talks inside a block talks again: two all-reduces for tensor parallelism, a ring for context."""
    outcome = run(Path(__file__).with_name("recompute_cases.py"), ranks=2, timeout=150)
    for told in (ranks.value for ranks in outcome.ranks):
        for kind, modes in told.items():
            for mode, found in modes.items():
                if mode != "none":
                    assert found["equal"], (kind, mode)
        for kind in ("data", "zero-1", "zero-2", "zero-3", "1f1b", "interleaved", "zero-bubble"):
            plain, *others = told[kind].values()
            assert all(found["moved"] == plain for found in others), kind
        blocks, micro_batches = 4, 4
        times, _ = told["tensor"]["none"]["all_reduce"]
        again, _ = told["tensor"]["full"]["moved"]["all_reduce"]
        assert again - times == 2 * blocks * micro_batches
        assert told["tensor"]["selective"]["moved"] == told["tensor"]["none"]
        times, _ = told["context"]["none"]["send"]
        again, _ = told["context"]["selective"]["moved"]["send"]
        assert again - times == blocks * micro_batches


# --- what cannot be recomputed


class Router(nn.Module):
    """Half of the rows take a second layer; which, `chooses` says anew each time."""

    def __init__(self, chooses: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attention = nn.Identity()
        self.chooses, self.expert = chooses, nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.chooses(x)
        return x.index_add(0, chosen, self.expert(x[chosen]).tanh())


def routed(chooses: Callable[[Tensor], Tensor]) -> Tensor:
    model = nn.ModuleList([Router(chooses)])
    recompute(model, mode="full")
    loss: Tensor = model[0](torch.randn(16, 8, requires_grad=True)).sum()
    return loss


def test_a_router_that_chooses_at_random_is_recomputed_from_the_same_random_numbers() -> None:
    routed(lambda x: torch.nonzero(torch.rand(len(x)) < 0.5).flatten()).backward()


def test_a_router_with_random_numbers_of_its_own_is_refused() -> None:
    own = random.Random(1)
    loss = routed(lambda x: torch.tensor(sorted(own.sample(range(len(x)), own.randint(1, len(x))))))
    with pytest.raises(RecomputedOtherwise, match=r"recomputing 0: forward saved .* running it again saved .* router"):
        loss.backward()


def test_another_precision_in_the_second_run_is_refused() -> None:
    model = GPT(Shape(layers=1, hidden=8, heads=1, sequence=4))
    recompute(model, mode="full")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(*global_batch(0, size=1, sequence=4))
    with pytest.raises(RecomputedOtherwise, match=r"blocks\.0: forward saved bfloat16 .* float32 .*autocast"):
        loss.backward()


def test_a_way_that_saves_less_the_second_time_is_refused() -> None:
    calls: list[int] = []

    def chooses(x: Tensor) -> Tensor:
        calls.append(len(x))
        return torch.arange(4 if len(calls) == 1 else 0)

    model = nn.ModuleList([Router(chooses)])
    model[0].forward = lambda x: x.exp().exp() if not calls and not calls.append(1) else x  # type: ignore[func-returns-value]
    recompute(model, mode="full")
    loss = model[0](torch.randn(3, 8, requires_grad=True)).sum()
    with pytest.raises(RecomputedOtherwise, match="running it again saved nothing"):
        loss.backward()


def test_an_input_changed_in_place_is_refused() -> None:
    model = GPT(DROPPING)
    recompute(model, mode="full")
    x = torch.randn(1, 12, 24)
    loss = model.blocks[0](x).sum()
    x += 1
    with pytest.raises(RecomputedOtherwise, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "all"}, "all is none of them"),
        ({"mode": "every", "every": 0}, "every 0"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recompute(GPT(DROPPING), **arguments)


def test_a_model_without_blocks_and_one_that_is_recomputed_already_are_refused() -> None:
    with pytest.raises(ValueError, match="no block"):
        recompute(nn.Linear(2, 2), mode="full")
    model = GPT(DROPPING)
    recompute(model, mode="full")
    with pytest.raises(ValueError, match=r"blocks\.0 is recomputed already"):
        recompute(model, mode="full")


def test_a_model_refuses_a_dropout_that_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="fused=False"):
        Shape(dropout=0.1)
    with pytest.raises(ValueError, match="share"):
        Shape(dropout=1.0, fused=False)
