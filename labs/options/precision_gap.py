"""The options of `lab run precision-gap`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionGapOptions(TrainingOptions):
    """A fine-tune in bf16 by DeepSpeed and by FSDP2, each with and without fp32 masters. The model first learns English
    for `warm_up` steps in fp32; `steps` of Dutch at `lr` follow.
    """

    precisions: ClassVar[tuple[str, ...]] = ("bf16",)

    precision: str = option("bf16", choices=("bf16",))
    layers: int = option(2)
    hidden: int = option(48)
    steps: int = option(100)
    warm_up: int = option(250)
    lr: float = option(3e-5)

    def checked(self, *, ranks: int) -> Self:
        super(PrecisionGapOptions, self).checked(ranks=ranks)
        self.at_least({"warm_up": 0})
        if not 0 < self.lr < math.inf:
            raise CourseError("labs.lr-not-positive", value=self.lr)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "precision": self.precision}
