"""The options of `lab run bloom-conversion`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.options.base import option
from labs.options.bloom_training import BloomTrainingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomConversionOptions(BloomTrainingOptions):
    """As the training whose checkpoint is converted; `new_tokens` are written by both models."""

    new_tokens: int = option(24)
