"""The options of the labs: one frozen dataclass a lab, the same for command line, notebook and plain torchrun.

No torch here: the command line reads it before anything heavy is loaded.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from translations import CourseError

MOST_SEED = 2**53 - 1
"""The largest that every language and file of the course keeps exactly."""


def option(default: Any, **choices: Any) -> Any:
    """A field with what argparse should know of it besides its type."""
    return field(default=default, metadata=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOptions:
    """`lab run zero`. A global batch holds ranks x accumulate x micro_batch examples; where micro_batch is not given,
    it is chosen to make it 12.
    """

    stage: int = option(0, choices=(0, 1, 2, 3))
    precision: str = option("fp32", choices=("bf16", "fp32", "fp64"))
    steps: int = option(10)
    layers: int = option(4)
    hidden: int = option(256)
    heads: int = option(4)
    sequence: int = option(32)
    micro_batch: int | None = option(None)
    accumulate: int = option(1)
    seed: int = option(0)
    clip: float | None = option(None)
    tied: bool = option(False)
    slow: float = option(0.0)

    def checked(self, *, ranks: int) -> Self:
        """Itself, or CourseError for what cannot run."""
        if ranks < 1:
            raise CourseError("labs.option-at-least", name="ranks", least=1, value=ranks)
        for name, least in {"steps": 2, "layers": 1, "hidden": 1, "heads": 1, "sequence": 1, "accumulate": 1}.items():
            if getattr(self, name) < least:
                raise CourseError("labs.option-at-least", name=name, least=least, value=getattr(self, name))
        if self.micro_batch is not None and self.micro_batch < 1:
            raise CourseError("labs.option-at-least", name="micro-batch", least=1, value=self.micro_batch)
        if self.stage not in (0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.stage)
        if not 0 <= self.seed <= MOST_SEED:
            raise CourseError("labs.seed-out-of-range", most=MOST_SEED, value=self.seed)
        if self.precision not in ("bf16", "fp32", "fp64"):
            raise CourseError("labs.unknown-precision", value=self.precision, known="bf16, fp32, fp64")
        if self.hidden % self.heads:
            raise CourseError("labs.heads-do-not-divide", hidden=self.hidden, heads=self.heads)
        if self.clip is not None and not self.clip > 0:  # NaN is no norm either
            raise CourseError("labs.clip-not-positive", value=self.clip)
        if not 0 <= self.slow <= 10:
            raise CourseError("labs.slow-out-of-range", value=self.slow)
        return self

    def sequences_at_once(self, ranks: int) -> int:
        """Examples in one micro-batch of one rank."""
        return self.micro_batch or max(1, 12 // (ranks * self.accumulate))

    def global_batch(self, ranks: int) -> int:
        return ranks * self.accumulate * self.sequences_at_once(ranks)

    def arguments(self) -> list[str]:
        """As a script takes them: `parse(arguments())` gives the same options."""
        words = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            flag = "--" + entry.name.replace("_", "-")
            if isinstance(value, bool):
                words += [flag] if value else []
            elif value is not None:
                words += [flag, str(value)]
        return words

    @classmethod
    def parser(cls) -> argparse.ArgumentParser:
        """What a script's command line takes, made from the fields."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        for entry in fields(cls):
            flag = "--" + entry.name.replace("_", "-")
            default = None if entry.default is MISSING else entry.default
            kind = str(entry.type).removesuffix(" | None")
            if kind == "bool":
                parser.add_argument(flag, action="store_true")
            else:
                convert = {"int": int, "float": float, "str": str}[kind]
                parser.add_argument(flag, type=convert, default=default, **entry.metadata)
        return parser

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        return cls(**vars(cls.parser().parse_args(words)))
