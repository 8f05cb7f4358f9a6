"""The options of `lab run fsdp`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

SHARDINGS = ("none", "keep", "free", "part", "hybrid")
WRAPS = ("block", "size", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class FsdpOptions(TrainingOptions):
    """PyTorch's FSDP2 beside our ZeRO; every sharding that fits the ranks, one after the other, where none is given.

    none     DistributedDataParallel, which shards nothing
    keep     reshard_after_forward=False: a unit stays gathered until its backward is done
    free     reshard_after_forward=True: it is freed after its forward, and gathered again for its backward
    part     reshard_after_forward=`shards`: between the two it is sharded over so many ranks
    hybrid   HSDP: sharded over so many ranks, and the other ranks hold copies of that

    `wrap` says what is a unit: each block (and embedding, and head), whatever has at least `unit_size` parameters, or
    the whole model. With precision bf16, shards and their update are in fp32 and what is gathered in bf16: that is
    FSDP2's mixed precision, and DDP has neither it nor offload.
    """

    layers: int = option(2)
    hidden: int = option(64)
    steps: int = option(5)
    sharding: str | None = option(None, choices=SHARDINGS)
    shards: int = option(2)
    wrap: str = option("block", choices=WRAPS)
    unit_size: int = option(20_000)
    tied: bool = option(False)
    cpu_offload: bool = option(False)

    def checked(self, *, ranks: int) -> Self:
        super(FsdpOptions, self).checked(ranks=ranks)
        if self.sharding is not None:
            self.one_of("sharding", SHARDINGS)
        self.one_of("wrap", WRAPS)
        self.at_least({"shards": 1, "unit_size": 1})
        if self.sharding in ("part", "hybrid") and not self._groups(ranks):
            raise CourseError("labs.fsdp-group", value=self.shards, ranks=ranks, sharding=self.sharding)
        if self.sharding == "none" and (self.cpu_offload or self.precision == "bf16"):
            raise CourseError("labs.fsdp-ddp-policy")
        if self.tied and self.wrap == "size":
            raise CourseError("labs.fsdp-tied-size")
        return self

    def shardings(self, ranks: int) -> tuple[str, ...]:
        """The shardings to run."""
        if self.sharding is not None:
            return (self.sharding,)
        found = SHARDINGS if self._groups(ranks) else SHARDINGS[:3]
        return found[1:] if self.cpu_offload or self.precision == "bf16" else found

    def _groups(self, ranks: int) -> bool:
        """Whether the ranks fall into more than one group of more than one rank."""
        return ranks % self.shards == 0 and 1 < self.shards < ranks

    def layout(self, ranks: int) -> dict[str, Any]:
        return {
            "dp": ranks,
            "sharding": self.sharding,
            "shards": self.shards,
            "wrap": self.wrap,
            "precision": self.precision,
            "cpu_offload": self.cpu_offload,
        }
