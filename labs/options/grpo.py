"""The options of `lab run grpo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.cases.countdown import COMPLETION, PROMPT
from labs.options.base import TrainingOptions, option
from translations import CourseError

LENGTH = PROMPT + COMPLETION


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoOptions(TrainingOptions):
    """Supervised warm-up, then GRPO on the Countdown game. Here an example is a question, of which `group_size` outputs
    are sampled; each step's samples make `updates` optimizer steps. It saves in the folder `keep`, if there is one, and
    goes on from there.
    """

    stage: int = option(3, choices=(0, 1, 2, 3))
    warm_up: int = option(600)
    steps: int = option(40)
    group_size: int = option(8)
    updates: int = option(1)
    lr: float = option(5e-4)
    epsilon: float = option(0.2)
    beta: float = option(0.001)
    layers: int = option(3)
    hidden: int = option(64)
    sequence: int = option(LENGTH)
    save_every: int = option(20)
    keep: str | None = option(None)

    def checked(self, *, ranks: int) -> Self:
        super(GrpoOptions, self).checked(ranks=ranks)
        if self.stage not in (0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.stage)
        self.at_least({"sequence": LENGTH, "warm_up": 1, "group_size": 2, "updates": 1, "save_every": 1})
        if not 0 < self.epsilon < 1:
            raise CourseError("labs.grpo-epsilon", value=self.epsilon)
        if not 0 <= self.beta < float("inf"):
            raise CourseError("labs.grpo-beta", value=self.beta)
        if not 0 < self.lr < float("inf"):
            raise CourseError("labs.lr-not-positive", value=self.lr)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "zero": self.stage, "precision": self.precision}

    def sequences_at_once(self, ranks: int) -> int:
        """Questions in one micro-batch of one rank: of a step 16, where nothing else is asked for."""
        return self.micro_batch or max(1, 16 // (self.replicas(ranks) * self.accumulate))
