"""The options of the labs in which a small BLOOM answers: `bloom-inference` and those that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from labs.options.base import MOST_SEED, Options, option
from translations import CourseError

PRECISIONS = ("fp16", "bf16", "fp32", "fp64")


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomOptions(Options):
    """The sizes of the model, and how many steps it is taught before it answers."""

    least_ranks: ClassVar[int] = 1

    layers: int = option(5)
    hidden: int = option(128)
    heads: int = option(8)
    taught: int = option(60)
    seed: int = option(0)

    def checked(self, *, ranks: int) -> Self:
        super(BloomOptions, self).checked(ranks=ranks)
        self.at_least({"layers": 1, "hidden": 1, "heads": 1, "taught": 0})
        if not 0 <= self.seed <= MOST_SEED:
            raise CourseError("labs.seed-out-of-range", most=MOST_SEED, value=self.seed)
        if self.hidden % self.heads:
            raise CourseError("labs.heads-do-not-divide", hidden=self.hidden, heads=self.heads)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomInferenceOptions(BloomOptions):
    """Some prompts at once, each of up to `prompt_length` bytes, and `new_tokens` after each."""

    precision: str = option("fp32", choices=PRECISIONS)
    prompts: int = option(4)
    prompt_length: int = option(24)
    new_tokens: int = option(24)

    def checked(self, *, ranks: int) -> Self:
        super(BloomInferenceOptions, self).checked(ranks=ranks)
        self.one_of("precision", PRECISIONS)
        self.at_least({"prompts": 1, "prompt_length": 1, "new_tokens": 2})
        if self.heads % ranks:
            raise CourseError("labs.tensor-heads", heads=self.heads, ranks=ranks)
        return self

    @property
    def room(self) -> int:
        """Positions that a sequence needs."""
        return self.prompt_length + self.new_tokens

    def layout(self, ranks: int) -> dict[str, Any]:
        return {"dp": 1, "tp": ranks, "precision": self.precision}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOnlyOptions(BloomOptions):
    """Weights in fewer bits, on one process. In one layer, `outliers` input features are made `factor` times as large;
    `group` is how many weights share a scale in 4 bits.
    """

    new_tokens: int = option(24)
    outliers: int = option(2)
    factor: float = option(30.0)
    group: int = option(32)

    def checked(self, *, ranks: int) -> Self:
        super(WeightOnlyOptions, self).checked(ranks=ranks)
        self.at_least({"new_tokens": 2, "outliers": 0, "group": 1})
        if not 1 <= self.factor <= 10_000:
            raise CourseError("labs.outlier-factor", value=self.factor)
        if self.outliers > self.hidden:
            raise CourseError("labs.outliers-above-features", outliers=self.outliers, hidden=self.hidden)
        if self.hidden % self.group:
            raise CourseError("labs.groups-do-not-divide", hidden=self.hidden, group=self.group)
        return self

    def ranks(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingOptions(BloomOptions):
    """Requests that come at random, `rate` of them an iteration on average, and a server with so many `slots`."""

    layers: int = option(2)
    hidden: int = option(64)
    heads: int = option(4)
    taught: int = option(20)
    slots: int = option(8)
    requests: int = option(32)
    rate: float = option(0.5)
    prompt_length: int = option(12)
    new_tokens: int = option(40)

    def checked(self, *, ranks: int) -> Self:
        super(BatchingOptions, self).checked(ranks=ranks)
        self.at_least({"slots": 1, "requests": 1, "prompt_length": 1, "new_tokens": 2})
        if not 0 < self.rate <= 1000:
            raise CourseError("labs.rate-out-of-range", value=self.rate)
        return self

    def ranks(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomAccuracyOptions(BloomOptions):
    """The same weights in two formats of 16 bits. The values of one layer are 2^`scale` times as large."""

    prompts: int = option(12)
    prompt_length: int = option(24)
    new_tokens: int = option(16)
    scale: int = option(16)

    def checked(self, *, ranks: int) -> Self:
        super(BloomAccuracyOptions, self).checked(ranks=ranks)
        self.at_least({"prompts": 1, "prompt_length": 1, "new_tokens": 2, "scale": 0})
        if self.scale > 60:
            raise CourseError("labs.scale-out-of-range", value=self.scale)
        return self

    def ranks(self) -> int:
        return 1
