"""The options of each lab by the lab's name. No torch is loaded here."""

from __future__ import annotations

from labs.options.base import Options
from labs.options.context import ContextOptions
from labs.options.offload import OffloadOptions
from labs.options.recompute import RecomputeOptions
from labs.options.zero import ZeroOptions

OPTIONS: dict[str, type[Options]] = {
    "zero": ZeroOptions,
    "recompute": RecomputeOptions,
    "context": ContextOptions,
    "offload": OffloadOptions,
}
