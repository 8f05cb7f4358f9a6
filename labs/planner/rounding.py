"""What a format of numbers can hold: its range, its spacing, and so which gradients it has no number for, and which
updates a weight in few bits can take at all (Higham 2002, section 2.1; Kalamkar et al. 2019 for bf16; Micikevicius et
al. 2022, table 1, for FP8).

Between two powers of two the values of a format lie evenly. A sum is rounded to the nearest of them: an update smaller
than half their spacing leaves the weight as it was, however often it comes.
"""

from __future__ import annotations

import math

FRACTION = {"fp32": 23, "bf16": 7, "fp16": 10, "fp8-e4m3": 3, "fp8-e5m2": 2}
"""Stored bits behind the point; the 1 before it makes 8 significant bits of bf16's."""

EXPONENT = {"fp32": 8, "bf16": 8, "fp16": 5, "fp8-e4m3": 4, "fp8-e5m2": 5}
"""Bits of the power of two. With the fraction and one bit for the sign they are all bits of the format."""


def largest(precision: str) -> float:
    """The largest number. The highest exponent is kept for infinity and NaN; E4M3 uses it for numbers too, and has NaN
    only at its last place, and no infinity.
    """
    exponent, fraction = EXPONENT[precision], FRACTION[precision]
    if precision == "fp8-e4m3":
        return math.ldexp(2 - 2 * 2.0**-fraction, 1 << (exponent - 1))
    return math.ldexp(2 - 2.0**-fraction, (1 << (exponent - 1)) - 1)


def smallest_normal(precision: str) -> float:
    """The smallest number with all bits of its fraction. Below it the spacing shrinks no further: subnormal numbers."""
    return math.ldexp(1.0, 2 - (1 << (EXPONENT[precision] - 1)))


def smallest(precision: str) -> float:
    """The smallest number above zero. Half of it, and less, is rounded to zero."""
    return smallest_normal(precision) * 2.0 ** -FRACTION[precision]


def smallest_scale(value: float, precision: str = "fp16") -> float:
    """The smallest power of two by which `value` may be multiplied so that it is not rounded to zero."""
    return 2.0 ** (math.floor(math.log2(smallest(precision) / 2 / abs(value))) + 1)


def largest_scale(value: float, precision: str = "fp16") -> float:
    """The largest power of two by which `value` may be multiplied so that it does not overflow."""
    return 2.0 ** math.floor(math.log2(largest(precision) / abs(value)))


def skipped(*, interval: int) -> float:
    """The share of steps that dynamic loss scaling loses when gradients stay as large as they are: after `interval`
    good steps the scale is doubled, the next step overflows, and the scale is halved again.
    """
    return 1 / (interval + 1)


def spacing(value: float, precision: str = "bf16") -> float:
    """From |value| to the next larger one of the format: one unit in the last place. Raises ValueError for zero, next
    to which lie the smallest values of the format, and for what is not finite.
    """
    if not value or not math.isfinite(value):
        raise ValueError(f"{value} has no power of two below it")
    return 2.0 ** (math.frexp(abs(value))[1] - 1 - FRACTION[precision])


def least_update(value: float, precision: str = "bf16") -> float:
    """Half the spacing: what is smaller never moves `value` away from zero."""
    return spacing(value, precision) / 2


def first_unmoved(update: float, precision: str = "bf16") -> float:
    """The smallest power of two that an update of this size leaves as it was, as it does every larger weight."""
    return 2.0 ** (math.floor(math.log2(update)) + 2 + FRACTION[precision])
