"""The options of `lab run megatron-gpt`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import TrainingOptions, option
from labs.options.layout import LayoutOptions
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronOptions(TrainingOptions):
    """Megatron Core's GPT on a tensor and a pipeline axis, beside ours. How many ranks there are follows from them."""

    precisions: ClassVar[tuple[str, ...]] = ("fp32",)

    tp: int = option(2)
    pp: int = option(2)
    micro_batches: int = option(4)
    layers: int = option(2)
    hidden: int = option(32)
    sequence: int = option(16)
    steps: int = option(4)

    def checked(self, *, ranks: int) -> Self:
        super(MegatronOptions, self).checked(ranks=ranks)
        if self.accumulate != 1:
            raise CourseError("labs.pipeline-accumulates", value=self.accumulate)
        self.ours().checked(ranks=ranks)
        if self.layers % self.pp:  # Megatron shares layers out evenly; ours also as evenly as can be
            raise CourseError("labs.megatron-layers", layers=self.layers, pp=self.pp)
        return self

    def ours(self) -> LayoutOptions:
        """The same training with our own strategies."""
        return LayoutOptions(
            dp=1,
            tp=self.tp,
            pp=self.pp,
            micro_batches=self.micro_batches,
            precision=self.precision,
            steps=self.steps,
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            sequence=self.sequence,
            micro_batch=self.sequences_at_once(self.ranks()),
            seed=self.seed,
        )

    def ranks(self) -> int:
        return self.tp * self.pp

    def replicas(self, ranks: int) -> int:
        return 1

    def sequences_at_once(self, ranks: int) -> int:
        return self.micro_batch or 2

    def global_batch(self, ranks: int) -> int:
        return self.micro_batches * self.sequences_at_once(ranks)

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": 1, "pp": self.pp, "tp": self.tp, "micro_batches": self.micro_batches, "precision": self.precision}
