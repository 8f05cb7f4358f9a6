"""The options of `lab run context`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option

ORDERS = ("naive", "zigzag")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(TrainingOptions):
    """Ring attention: every rank works on the same sequences, on its own positions of them."""

    sequence: int = option(64)
    order: str = option("zigzag", choices=ORDERS)

    def checked(self, *, ranks: int) -> Self:
        super(ContextOptions, self).checked(ranks=ranks)
        self.one_of("order", ORDERS)
        return self

    def replicas(self, ranks: int) -> int:
        return 1

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": 1, "cp": ranks, "order": self.order, "precision": self.precision}
