"""The options of `lab run layout`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from labs.strategies.layout import DoesNotFit, Layout
from labs.strategies.schedules import SCHEDULES, Order, schedule
from translations import CourseError

RECOMPUTED = ("none", "full", "selective")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions(TrainingOptions):
    """Data, pipeline, tensor and context parallelism at once. How many ranks there are follows from their degrees."""

    dp: int = option(2)
    pp: int = option(2)
    tp: int = option(2)
    cp: int = option(1)
    zero: int = option(0, choices=(0, 1, 2, 3))
    sequence_parallel: bool = option(False)
    schedule: str = option("1f1b", choices=SCHEDULES)
    micro_batches: int = option(4)
    chunks: int | None = option(None)
    recompute: str = option("none", choices=RECOMPUTED)
    clip: float | None = option(None)
    tied: bool = option(False)
    hidden: int = option(128)

    @property
    def chunks_a_rank(self) -> int:
        return self.chunks or (2 if self.schedule == "interleaved" else 1)

    def shape(self) -> Layout:
        """Raises CourseError for what could not run on any number of ranks."""
        try:
            return Layout(
                dp=self.dp,
                pp=self.pp,
                tp=self.tp,
                cp=self.cp,
                zero=self.zero,
                sequence=self.sequence_parallel,
                chunks=self.chunks_a_rank,
            )
        except DoesNotFit as error:
            raise CourseError(f"labs.layout-{error.rule}", **error.values) from None

    def checked(self, *, ranks: int) -> Self:
        super(LayoutOptions, self).checked(ranks=ranks)
        self.one_of("schedule", SCHEDULES)
        self.one_of("recompute", RECOMPUTED)
        self.at_least({"micro_batches": 1, "chunks": 1})
        if self.clip is not None and not self.clip > 0:  # NaN is no norm either
            raise CourseError("labs.clip-not-positive", value=self.clip)
        if self.accumulate != 1:
            raise CourseError("labs.pipeline-accumulates", value=self.accumulate)
        try:
            self.shape().fits(
                ranks=ranks,
                layers=self.layers,
                heads=self.heads,
                length=self.sequence,
                micro_batches=self.micro_batches,
            )
        except DoesNotFit as error:
            raise CourseError(f"labs.layout-{error.rule}", **error.values) from None
        interleaved = self.schedule == "interleaved"
        if interleaved and (self.chunks_a_rank == 1 or self.pp == 1):
            raise CourseError("labs.pipeline-nothing-to-interleave", chunks=self.chunks_a_rank, ranks=self.pp)
        if not interleaved and self.chunks_a_rank > 1:
            raise CourseError("labs.pipeline-one-chunk", schedule=self.schedule, chunks=self.chunks_a_rank)
        if interleaved and self.micro_batches % self.pp:
            raise CourseError("labs.pipeline-groups", value=self.micro_batches, ranks=self.pp)
        return self

    def ranks(self) -> int:
        return self.shape().ranks()

    def replicas(self, ranks: int) -> int:
        return self.dp

    def sequences_at_once(self, ranks: int) -> int:
        return self.micro_batch or 2

    def global_batch(self, ranks: int) -> int:
        return self.dp * self.micro_batches * self.sequences_at_once(ranks)

    def orders(self) -> list[Order]:
        """The schedule: every pipeline rank's order of actions."""
        return schedule(self.schedule, ranks=self.pp, micro_batches=self.micro_batches, chunks=self.chunks_a_rank)

    def layout(self, ranks: int) -> dict[str, Any]:
        chosen = asdict(self.shape())
        return {
            **{name: chosen[name] for name in ("dp", "pp", "tp", "cp", "zero")},
            "sequence_parallel": self.sequence_parallel,
            "schedule": self.schedule,
            "chunks": self.chunks_a_rank,
            "micro_batches": self.micro_batches,
            "recompute": self.recompute,
            "precision": self.precision,
        }
