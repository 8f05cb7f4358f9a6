"""The options of `lab run expert`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertOptions(TrainingOptions):
    """A mixture of `experts` experts in each block, spread over the ranks; each token goes to `top` of them."""

    hidden: int = option(64)
    experts: int = option(8)
    top: int = option(1)
    capacity: float = option(1.25)
    balance: float = option(0.01)

    def checked(self, *, ranks: int) -> Self:
        super(ExpertOptions, self).checked(ranks=ranks)
        self.at_least({"experts": 1, "top": 1})
        if self.experts % ranks:
            raise CourseError("labs.experts-do-not-divide", experts=self.experts, ranks=ranks)
        if self.top > self.experts:
            raise CourseError("labs.top-above-experts", top=self.top, experts=self.experts)
        if not 0 < self.capacity <= self.experts:  # NaN is no factor either
            raise CourseError("labs.capacity-out-of-range", value=self.capacity, most=self.experts)
        if not 0 <= self.balance <= 1:
            raise CourseError("labs.balance-out-of-range", value=self.balance)
        return self

    def tokens(self, ranks: int) -> int:
        """What a rank brings in one micro-batch."""
        return self.sequences_at_once(ranks) * self.sequence

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "ep": ranks, "experts": self.experts, "top": self.top, "precision": self.precision}
