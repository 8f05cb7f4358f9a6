"""What the options of every lab share: frozen dataclasses, the same for command line, notebook and plain torchrun.

No torch here: the command line reads them before anything heavy is loaded.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self

from translations import CourseError

MOST_SEED = 2**53 - 1
"""The largest that every language and file of the course keeps exactly."""
PRECISIONS = ("bf16", "fp32", "fp64")


def option(default: Any, **choices: Any) -> Any:
    """A field with what argparse should know of it besides its type."""
    return field(default=default, metadata=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one lab. A field is an option of the script, the command line and the notebook alike."""

    def checked(self, *, ranks: int) -> Self:
        """Itself, or CourseError for what cannot run on so many ranks."""
        if ranks < 1:
            raise CourseError("labs.option-at-least", name="ranks", least=1, value=ranks)
        return self

    def ranks(self) -> int | None:
        """How many ranks the options ask for by themselves; None where any number will do."""
        return None

    def layout(self, ranks: int) -> dict[str, Any]:
        """Degrees of parallelism by name, for the lab's JSON."""
        return {"dp": ranks}

    def at_least(self, least: dict[str, int]) -> None:
        """CourseError for the first of the named options that is below its least value."""
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise CourseError("labs.option-at-least", name=name.replace("_", "-"), least=bound, value=value)

    def one_of(self, name: str, known: Sequence[str], *, error: str = "labs.unknown-choice") -> None:
        """CourseError where the named option has a value that is not among the known."""
        value = getattr(self, name)
        if value not in known:
            raise CourseError(error, name=name.replace("_", "-"), value=value, known=", ".join(known))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions(Options):
    """The model, its precision and its data: what all labs that train the course's GPT take.

    A global batch holds replicas x accumulate x micro_batch examples; where micro_batch is not given, it is chosen to
    make it 12.
    """

    precisions: ClassVar[tuple[str, ...]] = PRECISIONS

    precision: str = option("fp32", choices=PRECISIONS)
    steps: int = option(10)
    layers: int = option(4)
    hidden: int = option(256)
    heads: int = option(4)
    sequence: int = option(32)
    micro_batch: int | None = option(None)
    accumulate: int = option(1)
    seed: int = option(0)
    slow: float = option(0.0)

    def checked(self, *, ranks: int) -> Self:
        super(TrainingOptions, self).checked(ranks=ranks)
        self.at_least({"steps": 2, "layers": 1, "hidden": 1, "heads": 1, "sequence": 1, "accumulate": 1})
        self.at_least({"micro_batch": 1})
        if not 0 <= self.seed <= MOST_SEED:
            raise CourseError("labs.seed-out-of-range", most=MOST_SEED, value=self.seed)
        self.one_of("precision", self.precisions, error="labs.unknown-precision")
        if self.hidden % self.heads:
            raise CourseError("labs.heads-do-not-divide", hidden=self.hidden, heads=self.heads)
        if not 0 <= self.slow <= 10:
            raise CourseError("labs.slow-out-of-range", value=self.slow)
        return self

    def replicas(self, ranks: int) -> int:
        """How many parts a global batch has: the ranks that work on different examples."""
        return ranks

    def sequences_at_once(self, ranks: int) -> int:
        """Examples in one micro-batch of one rank."""
        return self.micro_batch or max(1, 12 // (self.replicas(ranks) * self.accumulate))

    def global_batch(self, ranks: int) -> int:
        return self.replicas(ranks) * self.accumulate * self.sequences_at_once(ranks)
