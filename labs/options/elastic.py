"""The options of `lab run elastic`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import option
from labs.options.zero import ZeroOptions
from translations import CourseError

NODES = 2
LEAST = 5
"""Intervals in which all happens that is to happen, and one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticOptions(ZeroOptions):
    """Two agents of torchrun, as on two machines, each with half of the ranks; what goes wrong, and when."""

    steps: int = option(32)
    hidden: int = option(128)
    interval: int = option(4)
    pace: float = option(0.2)
    checkpoints: str | None = option(None)

    def checked(self, *, ranks: int) -> Self:
        super(ElasticOptions, self).checked(ranks=ranks)
        self.at_least({"interval": 1})
        if not 0 <= self.pace <= 10:
            raise CourseError("labs.pace-out-of-range", value=self.pace)
        if ranks % NODES:
            raise CourseError("labs.elastic-ranks", value=ranks)
        if self.steps < LEAST * self.interval:
            raise CourseError("labs.elastic-too-short", steps=self.steps, interval=self.interval)
        return self

    @property
    def happens(self) -> tuple[int, int, int]:
        """In which step a rank is killed, a machine is lost, and a machine joins: midway between two checkpoints. Then
        the longer part of the run is still to come, since ranks go on until a machine that joins is there.
        """
        half = self.interval // 2
        return self.interval + half, 2 * self.interval + half, 3 * self.interval + half

    def layout(self, ranks: int) -> dict[str, Any]:
        return super(ElasticOptions, self).layout(ranks) | {"fewest_dp": ranks // NODES}
