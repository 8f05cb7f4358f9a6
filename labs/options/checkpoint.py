"""The options of `lab run checkpoint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import option
from labs.options.zero import ZeroOptions
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions(ZeroOptions):
    """Save on some ranks, load on others. With `resume` the script loads what it finds in the folder `checkpoints`."""

    load_ranks: int = option(2)
    load_stage: int | None = option(None, choices=(0, 1, 2, 3))
    save_after: int | None = option(None)
    checkpoints: str | None = option(None)
    resume: bool = option(False)

    @property
    def saves_after(self) -> int:
        """The steps after which the checkpoint is saved."""
        return self.steps // 2 if self.save_after is None else self.save_after

    def checked(self, *, ranks: int) -> Self:
        super(CheckpointOptions, self).checked(ranks=ranks)
        self.at_least({"load_ranks": 1, "save_after": 1})
        if self.load_stage is not None and self.load_stage not in (0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.load_stage)
        if self.saves_after >= self.steps:
            raise CourseError("labs.checkpoint-nothing-left", steps=self.steps, value=self.saves_after)
        return self.keeps_batch(ranks=ranks, others=self.load_ranks)

    def keeps_batch(self, *, ranks: int, others: int) -> Self:
        """CourseError where the global batch of so many ranks does not divide by others."""
        batch = self.global_batch(ranks)
        if batch % (others * self.accumulate):
            raise CourseError("labs.checkpoint-batch", batch=batch, ranks=others, accumulate=self.accumulate)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return super(CheckpointOptions, self).layout(ranks) | {"load_dp": self.load_ranks}
