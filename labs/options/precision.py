"""The options of `lab run precision`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

PRECISIONS = ("fp32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOptions(TrainingOptions):
    """Data parallelism in one precision, beside the same in fp32.

    `loss_scale` is dynamic, none or a number; not given, it is dynamic for fp16 and none for the others. With
    `no_masters` the optimizer works on the parameters themselves.
    """

    precisions: ClassVar[tuple[str, ...]] = PRECISIONS

    precision: str = option("fp16", choices=PRECISIONS)
    loss_scale: str | None = option(None)
    growth_interval: int = option(10)
    no_masters: bool = option(False)
    lr: float = option(1e-3)
    clip: float | None = option(None)
    steps: int = option(40)
    hidden: int = option(64)

    def checked(self, *, ranks: int) -> Self:
        super(PrecisionOptions, self).checked(ranks=ranks)
        self.at_least({"growth_interval": 1})
        if self.fixed_scale is not None and not 0 < self.fixed_scale < math.inf:
            raise CourseError("labs.loss-scale-unknown", value=self.loss_scale)
        if not 0 < self.lr < math.inf:
            raise CourseError("labs.lr-not-positive", value=self.lr)
        if self.clip is not None and not self.clip > 0:
            raise CourseError("labs.clip-not-positive", value=self.clip)
        return self

    @property
    def dynamic(self) -> bool:
        return self.loss_scale == "dynamic" or (self.loss_scale is None and self.precision == "fp16")

    @property
    def fixed_scale(self) -> float | None:
        """None where the scale is dynamic, NaN where it is no number."""
        if self.dynamic:
            return None
        try:
            return 1.0 if self.loss_scale in (None, "none") else float(self.loss_scale)
        except ValueError:
            return math.nan

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "precision": self.precision}
