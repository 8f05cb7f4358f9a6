"""The options of `lab run tensor` and `lab run sequence`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOptions(TrainingOptions):
    """Tensor parallelism: every rank works on the same sequences, with its own heads, features and tokens."""

    clip: float | None = option(None)
    tied: bool = option(False)

    def checked(self, *, ranks: int) -> Self:
        super(TensorOptions, self).checked(ranks=ranks)
        if self.heads % ranks:
            raise CourseError("labs.tensor-heads", heads=self.heads, ranks=ranks)
        if self.clip is not None and not self.clip > 0:  # NaN is no norm either
            raise CourseError("labs.clip-not-positive", value=self.clip)
        return self

    def replicas(self, ranks: int) -> int:
        return 1

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": 1, "tp": ranks, "sequence_parallel": False, "precision": self.precision}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions(TensorOptions):
    """The same with sequence parallelism: between the split products, every rank has its own positions."""

    def checked(self, *, ranks: int) -> Self:
        super(SequenceOptions, self).checked(ranks=ranks)
        if self.sequence % ranks:
            nearest = self.sequence + -self.sequence % ranks
            raise CourseError("labs.tensor-sequence", sequence=self.sequence, ranks=ranks, nearest=nearest)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return super(SequenceOptions, self).layout(ranks) | {"sequence_parallel": True}
