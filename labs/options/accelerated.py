"""The options of `lab run accelerated`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

WAYS = (
    "ddp",
    "accelerate-alone",
    "accelerate",
    "accelerate-fsdp2",
    "accelerate-cpu-zero-2",
    "accelerate-zero-2",
    "trainer-zero-2",
    "zero-2",
)
"""Plain DDP; Accelerate without `cpu=True`; with it; with it and the plugin for FSDP2; with it and the plugin for
DeepSpeed; that plugin as the Trainer uses it; the Trainer; our own ZeRO-2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratedOptions(TrainingOptions):
    """A model of Transformers trained in each of WAYS, or in one `way`, and the largest micro-batch that each fits into
    `budget` MB; `most` is where the search ends. `reduce_bucket` is DeepSpeed's, in elements.
    """

    precisions: ClassVar[tuple[str, ...]] = ("fp32",)

    layers: int = option(2)
    hidden: int = option(128)
    sequence: int = option(16)
    steps: int = option(6)
    budget: float = option(9.6)
    most: int = option(128)
    reduce_bucket: int = option(50_000)
    way: str | None = option(None, choices=WAYS)

    def checked(self, *, ranks: int) -> Self:
        super(AcceleratedOptions, self).checked(ranks=ranks)
        if ranks < 2:
            raise CourseError("labs.option-at-least", name="ranks", least=2, value=ranks)
        if self.way is not None:
            self.one_of("way", WAYS)
        self.at_least({"most": 1, "reduce_bucket": 1})
        if not 0 < self.budget < 1e6:  # NaN is no budget either
            raise CourseError("labs.budget-out-of-range", value=self.budget)
        if self.accumulate != 1:
            raise CourseError("labs.accelerated-accumulate", value=self.accumulate)
        return self

    def ways(self) -> tuple[str, ...]:
        """The ways to train."""
        return WAYS if self.way is None else (self.way,)

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "ways": list(self.ways()), "budget": self.budget}
