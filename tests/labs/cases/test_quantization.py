"""Weights in fewer bits: bounds that rounding keeps, bytes, outliers, and what calibration data is good for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labs.cases.bloom import Bloom, BloomShape
from labs.cases.quantization import (
    QuantizedLinear,
    awq,
    error,
    gptq,
    held,
    nearest,
    product,
    quantize,
    with_outliers,
)


def drawn(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def correlated(tokens: int, features: int, *, seed: int) -> torch.Tensor:
    """Inputs of which a few directions hold most, as those of a trained layer."""
    return drawn(tokens, 6, seed=seed) @ drawn(6, features, seed=1) + 0.1 * drawn(tokens, features, seed=seed + 1)


@settings(deadline=None)
@given(
    out=st.integers(1, 9),
    groups=st.integers(1, 4),
    group=st.integers(1, 8),
    bits=st.sampled_from([8, 4]),
    seed=st.integers(0, 2**31),
)
def test_no_weight_is_off_by_more_than_half_a_step(out: int, groups: int, group: int, bits: int, seed: int) -> None:
    weight = drawn(out, groups * group, seed=seed).double()
    found = nearest(weight, bits=bits, group=group)
    half = found.scale_FDG.repeat_interleave(group, dim=1) / 2
    assert ((found.weight() - weight).abs() <= half * (1 + 1e-9)).all()
    assert found.steps_FD.abs().max() <= 2 ** (bits - 1) - 1
    assert found.bytes == out * groups * group * bits // 8 + 8 * out * groups


def test_zeros_stay_zeros() -> None:
    assert nearest(torch.zeros(2, 4), bits=8).weight().eq(0).all()


def test_a_model_in_eight_bits_keeps_a_byte_a_weight() -> None:
    model = Bloom(BloomShape(layers=2, hidden=16, heads=2))
    tokens = torch.tensor([[1, 2, 3]])
    before, whole = model.scores(tokens), held(model)
    quantize(model)
    matrices, channels = 2 * 12 * 16 * 16, 2 * (3 + 1 + 4 + 1) * 16
    assert held(model) == whole - 4 * matrices + matrices + 4 * channels
    assert 0 < (model.scores(tokens) - before).abs().max() < 0.05


def test_a_quantized_linear_computes_with_what_its_numbers_stand_for() -> None:
    linear = nn.Linear(8, 3)
    small = QuantizedLinear(linear)
    x = drawn(5, 8)
    torch.testing.assert_close(small(x), x @ nearest(linear.weight, bits=8).weight().T + linear.bias)


@torch.no_grad()
def test_outliers_leave_the_function_as_it_is_and_spoil_only_rounded_activations() -> None:
    norm, linear = nn.LayerNorm(64), nn.Linear(64, 32)
    x = drawn(40, 64)
    before = linear(norm(x))
    with_outliers(norm, linear, features=[3, 11], factor=40)
    inside, weight = norm(x), linear.weight.detach()
    torch.testing.assert_close(linear(inside), before, atol=1e-5, rtol=1e-4)
    right = inside @ weight.T
    both, apart = (float((product(inside, weight, threshold=t) - right).norm() / right.norm()) for t in (None, 6.0))
    assert both > 5 * apart
    assert error(weight, nearest(weight, bits=8).weight(), inside) < both


@pytest.mark.parametrize("bits", [4, 8])
def test_gptq_is_better_than_the_nearest_on_other_data_than_it_has_seen(bits: int) -> None:
    weight, seen, unseen = drawn(48, 64), correlated(200, 64, seed=5), correlated(200, 64, seed=9)
    plain = error(weight, nearest(weight, bits=bits, group=32).weight(), unseen)
    assert error(weight, gptq(weight, seen, bits=bits).weight(), unseen) < plain / 2


def test_gptq_without_any_correlation_is_the_nearest() -> None:
    weight = drawn(6, 8)
    found = gptq(weight, torch.eye(8), group=8)
    assert torch.equal(found.steps_FD, nearest(weight, bits=4).steps_FD)


def test_awq_gives_large_inputs_finer_steps() -> None:
    weight, x = drawn(48, 64), drawn(200, 64, seed=4)
    x[:, :2] *= 30
    found, s = awq(weight, x)
    assert error(weight, found.weight() / s, x) < 0.7 * error(weight, nearest(weight, bits=4, group=32).weight(), x)
    assert s[:2].min() > s[2:].max()
