"""The options of `lab run pipeline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from labs.strategies.schedules import SCHEDULES, Order, schedule
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions(TrainingOptions):
    """A stage of the model on every rank; in the interleaved schedule `chunks` of them, 2 where it is not given."""

    schedule: str = option("1f1b", choices=SCHEDULES)
    micro_batches: int = option(8)
    chunks: int | None = option(None)
    tied: bool = option(False)
    layers: int = option(8)
    hidden: int = option(128)

    @property
    def chunks_a_rank(self) -> int:
        return self.chunks or (2 if self.schedule == "interleaved" else 1)

    def checked(self, *, ranks: int) -> Self:
        super(PipelineOptions, self).checked(ranks=ranks)
        self.one_of("schedule", SCHEDULES)
        self.at_least({"micro_batches": 1, "chunks": 1})
        if self.accumulate != 1:
            raise CourseError("labs.pipeline-accumulates", value=self.accumulate)
        if self.micro_batches < ranks:
            raise CourseError("labs.pipeline-not-filled", value=self.micro_batches, ranks=ranks)
        interleaved = self.schedule == "interleaved"
        if interleaved and (self.chunks_a_rank == 1 or ranks == 1):
            raise CourseError("labs.pipeline-nothing-to-interleave", chunks=self.chunks_a_rank, ranks=ranks)
        if not interleaved and self.chunks_a_rank > 1:
            raise CourseError("labs.pipeline-one-chunk", schedule=self.schedule, chunks=self.chunks_a_rank)
        if interleaved and self.micro_batches % ranks:
            raise CourseError("labs.pipeline-groups", value=self.micro_batches, ranks=ranks)
        stages = ranks * self.chunks_a_rank
        if self.layers < stages:
            raise CourseError("labs.pipeline-too-few-layers", layers=self.layers, stages=stages)
        return self

    def replicas(self, ranks: int) -> int:
        return 1

    def sequences_at_once(self, ranks: int) -> int:
        return self.micro_batch or 2

    def global_batch(self, ranks: int) -> int:
        return self.micro_batches * self.sequences_at_once(ranks)

    def layout(self, ranks: int) -> dict[str, Any]:
        chunks = {"chunks": self.chunks_a_rank} if self.schedule == "interleaved" else {}
        return {
            "dp": 1,
            "pp": ranks,
            "schedule": self.schedule,
            **chunks,
            "micro_batches": self.micro_batches,
            "precision": self.precision,
        }

    def orders(self, ranks: int) -> list[Order]:
        """The schedule: every rank's order of actions."""
        return schedule(self.schedule, ranks=ranks, micro_batches=self.micro_batches, chunks=self.chunks_a_rank)
