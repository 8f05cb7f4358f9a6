"""The spacing of a format's values is torch's own, and what is smaller than half of it is lost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.rounding import FRACTION, first_unmoved, least_update, spacing

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
VALUES = st.floats(1e-3, 1e3)


def rounded(value: float, precision: str) -> float:
    return torch.tensor(value, dtype=torch.float64).to(DTYPES[precision]).item()


@given(value=VALUES, precision=st.sampled_from(list(FRACTION)), away=st.floats(0.01, 0.99))
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
