"""The options of `lab run offload`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from labs.options.base import option
from labs.options.zero import ZeroOptions
from translations import CourseError

PLACES = ("device", "memory", "file")
ALIGNED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadOptions(ZeroOptions):
    """Where Adam's states rest, over data parallelism (stage 0) or a stage of ZeRO. The file lies in `folder`. `cap` is
    the most GB that a process may take of its accelerator, as on a smaller one.
    """

    to: str = option("memory", choices=PLACES)
    block: int = option(65536)
    folder: str | None = option(None)
    cap: float | None = option(None)

    def checked(self, *, ranks: int) -> Self:
        super(OffloadOptions, self).checked(ranks=ranks)
        self.one_of("to", PLACES)
        if self.block < 1 or self.block % ALIGNED:
            raise CourseError("labs.offload-block", multiple=ALIGNED, value=self.block)
        if self.folder is not None and not Path(self.folder).is_dir():
            raise CourseError("labs.offload-no-folder", folder=self.folder)
        if self.cap is not None and not self.cap > 0:
            raise CourseError("labs.offload-cap", value=self.cap)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return super(OffloadOptions, self).layout(ranks) | {"offload": self.to}
