"""The options of `lab run compile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import TrainingOptions, option
from translations import CourseError

BACKENDS = ("inductor", "aot_eager")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions(TrainingOptions):
    """One process that trains the same model twice, as it is and compiled. `inductor` writes kernels and compiles them;
    `aot_eager` captures forward and backward and fuses nothing, for which no compiler is needed.
    """

    backend: str = option("inductor", choices=BACKENDS)
    layers: int = option(1)
    hidden: int = option(64)

    def checked(self, *, ranks: int) -> Self:
        super(CompileOptions, self).checked(ranks=ranks)
        if ranks != 1:
            raise CourseError("labs.ranks-do-not-fit", value=ranks, wanted=1)
        self.one_of("backend", BACKENDS)
        return self

    def ranks(self) -> int | None:
        return 1

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": ranks, "backend": self.backend, "precision": self.precision}
