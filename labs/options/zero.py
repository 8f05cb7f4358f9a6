"""The options of `lab run zero`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOptions(TrainingOptions):
    """Data parallelism (stage 0) or a stage of ZeRO."""

    stage: int = option(0, choices=(0, 1, 2, 3))
    clip: float | None = option(None)
    tied: bool = option(False)

    def checked(self, *, ranks: int) -> Self:
        super(ZeroOptions, self).checked(ranks=ranks)
        if self.stage not in (0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.stage)
        if self.clip is not None and not self.clip > 0:  # NaN is no norm either
            raise CourseError("labs.clip-not-positive", value=self.clip)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "zero": self.stage, "precision": self.precision}
