"""Generation's formulas: bounds that no published measurement beats, and what the story of 5x and 50x comes to."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cases.quantization import nearest
from labs.planner import inference
from labs.planner.hardware import accelerator
from labs.planner.inference import (
    Serving,
    bloom_table,
    cache_bytes,
    crossing_batch,
    improvements,
    latency_factor,
    seconds_per_token,
    step,
    tensor_step,
    throughput_factors,
    weight_bytes,
)
from labs.planner.models import model
from labs.planner.recomputed import facts


def plan(share: str = "tensor", *, precision: str = "bf16", gpus: int = 8) -> Serving:
    return Serving(model=model("bloom"), gpu=accelerator("a100-80"), gpus=gpus, precision=precision, share=share)


def test_no_published_cell_beats_its_bound() -> None:
    found = list(bloom_table())
    assert len(found) == 31
    for cell in found:
        assert 0.1 < cell.reached < 1, cell
    best = {
        stack: max(each.reached for each in found if each.stack == stack) for stack in ("accelerate", "ds_inference")
    }
    assert best["accelerate"] == pytest.approx(0.75, abs=0.01)
    assert best["ds_inference"] == pytest.approx(0.49, abs=0.01)


def test_what_the_zero_cells_cannot_be() -> None:
    """Taken as the text says, undivided, a rank would receive more than its links bring."""
    cell = next(each for each in bloom_table() if each.stack == "ds_zero")
    received = plan("zero").weights * 7 / 8
    assert received / cell.measured > accelerator("a100-80").link
    assert received / (8 * cell.measured) < accelerator("a100-80").link


def test_weights_and_where_they_fit() -> None:
    assert plan().weights == pytest.approx(352e9, rel=0.002)
    assert not plan(gpus=4).fits(sequences=1, positions=110)
    assert plan(gpus=4, precision="int8").fits(sequences=1, positions=110)
    assert plan().fits(sequences=128, positions=110)


def test_tensor_ranks_read_an_eighth_each_and_layers_all_of_it() -> None:
    tensor, layers = step(plan(), sequences=1, positions=60), step(plan("layers"), sequences=1, positions=60)
    assert layers.weights == pytest.approx(8 * tensor.weights)
    assert tensor.weights == pytest.approx(0.0216, rel=0.01)
    prompt = step(plan(), sequences=8, tokens=1000, positions=1000)
    assert prompt.arithmetic > 10 * prompt.weights, "a long prompt is arithmetic"
    assert tensor.weights > 100 * tensor.arithmetic, "one token is reading"


@settings(deadline=None)
@given(batch=st.integers(1, 512), share=st.sampled_from(["tensor", "layers", "zero"]))
def test_a_larger_batch_is_slower_and_cheaper(batch: int, share: str) -> None:
    one, two = (step(plan(share), sequences=n, positions=100).seconds for n in (batch, 2 * batch))
    assert one <= two <= 2 * one + 1e-12
    each = [seconds_per_token(plan(share), sequences=n, prompt=10, new=100) for n in (batch, 2 * batch)]
    assert each[1] <= each[0]


@settings(deadline=None)
@given(layers=st.integers(1, 9), heads=st.integers(1, 9), ranks=st.sampled_from([1, 2, 4]), sequences=st.integers(1, 9))
def test_parts_of_all_ranks_make_the_whole(layers: int, heads: int, ranks: int, sequences: int) -> None:
    hidden = 4 * heads
    sizes = {"layers": layers, "hidden": hidden, "precision": "fp32"}
    part = cache_bytes(**sizes, positions=7, sequences=sequences, tensor=ranks)
    assert ranks * part == cache_bytes(**sizes, positions=7, sequences=sequences) == 8 * layers * sequences * 7 * hidden
    own = weight_bytes(**sizes, vocabulary=256, tensor=ranks)
    copies = 4 * (6 * layers * hidden + 4 * hidden)
    assert ranks * own - (ranks - 1) * copies == weight_bytes(**sizes, vocabulary=256)
    assert (tensor_step(**sizes, sequences=sequences, tensor=ranks) == {}) == (ranks == 1)


def test_the_story_multiplies_up_to_its_claim() -> None:
    claim = facts("hf_bloom_optimization")["claim"]
    assert latency_factor() == pytest.approx(350 / 71)
    assert latency_factor() == pytest.approx(claim["latency"], rel=0.02)
    largest = max(improvements(), key=lambda each: each.factor)
    assert (largest.name, round(largest.factor, 1)) == ("tensor_parallel", 3.3)
    factors = throughput_factors()
    assert factors["requests_in_turn"] == pytest.approx(2.5 / 0.3)
    assert factors["requests_in_turn"] * factors["tensor_parallel"] * factors["after"] == pytest.approx(
        claim["throughput"]
    )


def test_the_texts_estimate_is_arithmetic_where_reading_is_what_takes_time() -> None:
    machine = Serving(model=model("bloom"), gpu=accelerator("a100-40"), gpus=16)
    bound = step(machine, sequences=1, positions=60)
    assert 0.014 < bound.weights < 0.0145
    assert bound.weights * 1000 > 4 * facts("hf_bloom_optimization")["estimate"]["ms_sixteen"]


@pytest.mark.parametrize(("precision", "of_bf16"), [("bf16", 1.0), ("int8", 0.5)])
def test_at_the_crossing_arithmetic_takes_as_long_as_reading(precision: str, of_bf16: float) -> None:
    server, gpu = plan(precision=precision), accelerator("a100-80")
    most = crossing_batch(peak=gpu.peak, bandwidth=gpu.bandwidth, precision=precision)
    assert most == pytest.approx(of_bf16 * 312_000 / 2039)
    for sequences, computes in ((int(most), False), (int(most) + 1, True)):
        one = step(server, sequences=sequences, positions=0)
        assert (one.arithmetic > one.weights) == computes


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_weights_are_those_of_the_cases(bits: int) -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    found = nearest(weight.half(), bits=bits, group=32)
    assert found.bytes == inference.quantized_bytes(parameters=weight.numel(), bits=bits, group=32)
    wide = nearest(weight, bits=bits)
    off = (wide.weight() - weight).abs().amax(1)
    most = torch.tensor([inference.largest_error(largest=float(each), bits=bits) for each in weight.abs().amax(1)])
    assert (off <= most * 1.0001).all()
