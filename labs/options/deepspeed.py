"""The options of `lab run deepspeed-zero`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

OFFLOADS = ("none", "optimizer", "all")
KEPT = 1_000_000_000
"""DeepSpeed's own `stage3_max_live_parameters` and `stage3_max_reuse_distance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedOptions(TrainingOptions):
    """DeepSpeed's stages of ZeRO beside ours; all of them, one after the other, where no `stage` is given.

    `reduce_bucket` is its `reduce_bucket_size` in elements, for which DeepSpeed itself takes 500 million;
    `live_parameters` how many stage 3 may keep gathered; `offload` what rests in host memory.
    """

    precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16")

    layers: int = option(2)
    hidden: int = option(64)
    steps: int = option(5)
    stage: int | None = option(None, choices=(0, 1, 2, 3))
    clip: float | None = option(None)
    offload: str = option("none", choices=OFFLOADS)
    reduce_bucket: int = option(1_000_000)
    live_parameters: int = option(KEPT)

    def checked(self, *, ranks: int) -> Self:
        super(DeepSpeedOptions, self).checked(ranks=ranks)
        if self.stage not in (None, 0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.stage)
        if self.clip is not None and not self.clip > 0:  # NaN is no norm either
            raise CourseError("labs.clip-not-positive", value=self.clip)
        self.one_of("offload", OFFLOADS)
        self.at_least({"reduce_bucket": 1, "live_parameters": 0})
        least = {"none": 0, "optimizer": 1, "all": 3}[self.offload]
        if self.stage is not None and self.stage < least:
            raise CourseError("labs.deepspeed-offload-stage", value=self.offload, stage=self.stage, least=least)
        return self

    def stages(self) -> tuple[int, ...]:
        """The stages to run."""
        least = {"none": 0, "optimizer": 1, "all": 3}[self.offload]
        return tuple(range(least, 4)) if self.stage is None else (self.stage,)

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "zero": self.stage, "precision": self.precision, "offload": self.offload}
