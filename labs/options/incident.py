"""The options of `lab run incident`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

KINDS = ("straggler", "bad-gradient", "loss-spike")
HISTORY = 6
"""Steps without a fault, from which the alarms know what is ordinary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOptions(TrainingOptions):
    """What goes wrong, in which step, on which rank; a checkpoint is saved after every `save_every` steps. With `at`
    beyond the last step nothing goes wrong.
    """

    kind: str = option("straggler", choices=KINDS)
    at: int = option(8)
    culprit: int = option(1)
    save_every: int = option(3)
    steps: int = option(14)
    layers: int = option(2)
    hidden: int = option(32)
    sequence: int = option(16)
    micro_batch: int | None = option(4)
    lr: float = option(3e-3)

    def checked(self, *, ranks: int) -> Self:
        super(IncidentOptions, self).checked(ranks=ranks)
        self.one_of("kind", KINDS)
        self.at_least({"at": HISTORY, "culprit": 0, "save_every": 1})
        if ranks < 3:
            raise CourseError("labs.incident-too-few-ranks", value=ranks)
        if self.culprit >= ranks:
            raise CourseError("labs.incident-no-such-rank", value=self.culprit, last=ranks - 1)
        return self
