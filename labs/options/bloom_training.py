"""The options of `lab run bloom-training`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.options.base import option
from labs.options.layout import LayoutOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomTrainingOptions(LayoutOptions):
    """A small BLOOM on a mesh, by default on the three axes of the real run with two ranks each. A checkpoint is saved
    after the last step, in the folder `checkpoints` where one is given.
    """

    layers: int = option(5)
    heads: int = option(8)
    sequence: int = option(64)
    tied: bool = option(True)
    recompute: str = option("full", choices=("none", "full", "selective"))
    checkpoints: str | None = option(None)
