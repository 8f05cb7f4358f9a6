"""The options of `lab run recompute`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

MODES = ("none", "full", "selective", "every")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeOptions(TrainingOptions):
    """Data parallelism in which blocks, or their attention, run again in backward. Attention is written out, step by
    step, unless it is `fused`.
    """

    recompute: str = option("none", choices=MODES)
    every: int = option(2)
    dropout: float = option(0.0)
    fused: bool = option(False)
    sequence: int = option(128)

    def checked(self, *, ranks: int) -> Self:
        super(RecomputeOptions, self).checked(ranks=ranks)
        self.one_of("recompute", MODES)
        self.at_least({"every": 1})
        if not 0 <= self.dropout < 1:
            raise CourseError("labs.dropout-out-of-range", value=self.dropout)
        if self.dropout and self.fused:
            raise CourseError("labs.dropout-needs-weights")
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "recompute": self.recompute, "precision": self.precision}
