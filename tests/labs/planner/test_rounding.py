"""The spacing of a format's values is torch's own, and what is smaller than half of it is lost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.formats import number_format
from labs.planner.rounding import (
    EXPONENT,
    FRACTION,
    first_unmoved,
    largest,
    largest_scale,
    least_update,
    skipped,
    smallest,
    smallest_normal,
    smallest_scale,
    spacing,
)
from labs.strategies.precision import LossScaler

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
VALUES = st.floats(1e-3, 1e3)


def rounded(value: float, precision: str) -> float:
    return torch.tensor(value, dtype=torch.float64).to(DTYPES[precision]).item()


@given(value=VALUES, precision=st.sampled_from(list(DTYPES)), away=st.floats(0.01, 0.99))
def test_an_update_of_less_than_half_a_unit_is_lost_and_of_more_is_not(
    value: float, precision: str, away: float
) -> None:
    weight = rounded(value, precision)
    half = least_update(weight, precision)
    assert rounded(weight + half * away, precision) == weight
    assert rounded(weight + half * (1 + away), precision) == weight + spacing(weight, precision)


@given(update=st.floats(1e-7, 1e-2))
def test_the_first_weight_that_an_update_leaves(update: float) -> None:
    first = first_unmoved(update)
    assert least_update(first) > update >= least_update(first / 2)


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_what_has_no_power_of_two_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="power of two"):
        spacing(value)


@pytest.mark.parametrize("precision", FRACTION)
def test_range_and_bits_are_those_of_torch(precision: str) -> None:
    stored = number_format(precision)
    found = torch.finfo(getattr(torch, stored.torch))
    assert largest(precision) == found.max
    assert smallest_normal(precision) == found.smallest_normal
    assert 2.0 ** -FRACTION[precision] == found.eps
    assert 1 + EXPONENT[precision] + FRACTION[precision] == stored.bits


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8-e4m3", "fp8-e5m2"])
def test_half_of_the_smallest_number_becomes_zero_and_more_does_not(precision: str) -> None:
    dtype = getattr(torch, number_format(precision).torch)
    half = torch.tensor(smallest(precision) / 2, dtype=torch.float32)
    assert half.to(dtype).float() == 0
    assert (half * 1.01).to(dtype).float() == smallest(precision)


@given(value=st.floats(1e-9, 1e3))
def test_between_the_two_scales_a_gradient_is_neither_zero_nor_infinite(value: float) -> None:
    low, high = smallest_scale(value), largest_scale(value)
    assert value * low / 2 <= smallest("fp16") / 2 < value * low
    assert value * high <= largest("fp16") < value * high * 2


def test_the_skipped_share_is_that_of_a_scaler_at_its_ceiling() -> None:
    scaler, lost = LossScaler(scale=2.0**10, interval=4), 0
    for _ in range(500):
        overflow = scaler.scale > 2.0**10
        lost += overflow
        scaler.update(overflow=overflow)
    assert lost / 500 == pytest.approx(skipped(interval=4), abs=0.01)
