"""Which updates a weight in few bits can take at all (Higham 2002, section 2.1; Kalamkar et al. 2019 for bf16).

Between two powers of two the values of a format lie evenly. A sum is rounded to the nearest of them: an update smaller
than half their spacing leaves the weight as it was, however often it comes.
"""

from __future__ import annotations

import math

FRACTION = {"bf16": 7, "fp16": 10, "fp32": 23}
"""Stored bits behind the point; the 1 before it makes 8 significant bits of bf16's."""


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
