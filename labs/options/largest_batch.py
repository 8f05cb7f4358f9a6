"""The options of `lab run largest-batch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

STRATEGIES = ("ddp", "zero-1", "zero-2", "zero-3", "fsdp2")


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatchOptions(TrainingOptions):
    """The largest micro-batch that each strategy trains within `budget` MB; all of them where no `strategy` is given.

    `most` is where the search ends.
    """

    precisions: ClassVar[tuple[str, ...]] = ("fp32",)

    hidden: int = option(128)
    steps: int = option(2)
    budget: float = option(18.0)
    most: int = option(256)
    strategy: str | None = option(None, choices=STRATEGIES)

    def checked(self, *, ranks: int) -> Self:
        super(LargestBatchOptions, self).checked(ranks=ranks)
        if self.strategy is not None:
            self.one_of("strategy", STRATEGIES)
        self.at_least({"most": 1})
        if not 0 < self.budget < 1e6:  # NaN is no budget either
            raise CourseError("labs.budget-out-of-range", value=self.budget)
        return self

    def strategies(self) -> tuple[str, ...]:
        """The strategies to try."""
        return STRATEGIES if self.strategy is None else (self.strategy,)

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "strategies": list(self.strategies()), "budget": self.budget}
