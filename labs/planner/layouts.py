"""Layouts that papers ran (`layouts.yaml`), and where they stand in this planner's own ranking.

All of them were run before Korthikanti et al. 2022: every layer was recomputed in full, and nothing split the sequence
beside the tensor axis. So each has two places: among all that the search knows, and among layouts of its own kind.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator
from labs.planner.models import model
from labs.planner.search import Ranked, ranking
from labs.planner.throughput import throughput
from translations import CourseError

NEAR = 0.05
"""A layout that is slower by less than this is as good as the first: steps are predicted within a quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One run: its layout, and the TFLOP/s an accelerator that were measured. `knew` is the id of what decided and the
    planner does not count.
    """

    model: str
    gpu: str
    gpus: int
    batch: int
    dp: int
    tp: int
    pp: int
    micro_batch: int
    tflops: float
    source: str
    interleave: int = 1
    zero: int = 0
    knew: str | None = None

    @property
    def degrees(self) -> tuple[int, int, int]:
        return self.dp, self.tp, self.pp

    @property
    def plan(self) -> Configuration:
        return Configuration(
            model=model(self.model),
            dp=self.dp,
            tp=self.tp,
            pp=self.pp,
            zero=self.zero,
            micro_batch=self.micro_batch,
            micro_batches=self.batch // self.dp // self.micro_batch,
            interleave=self.interleave,
            recompute="full",
            stack=STACKS["megatron"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the degrees of a layout stand in a ranking, from 1 to `of`, and how much slower than the first they are."""

    number: int
    of: int
    slower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A published layout beside ours: its place among all layouts, and among those of its own kind; `tflops` is what
    is predicted for it exactly as it was run.
    """

    published: Published
    free: Place
    then: Place
    tflops: float

    @property
    def explained(self) -> str:
        """The id of why it is not the first."""
        if self.then.number == 1:
            return "first"
        return "near" if self.then.slower < NEAR or self.published.knew is None else self.published.knew


@functools.cache
def layouts() -> tuple[Published, ...]:
    rows = yaml.safe_load((Path(__file__).parent / "layouts.yaml").read_text(encoding="utf-8"))["layouts"]
    return tuple(Published(**row) for row in rows)


def trained(name: str) -> Published:
    """The layout in which that model was trained. Raises CourseError naming those that were."""
    found = next((each for each in layouts() if each.model == name), None)
    if found is None:
        known = ", ".join(sorted({each.model for each in layouts()}))
        raise CourseError("labs.unknown-choice", name="layout", value=name, known=known)
    return found


def published_for(name: str, *, gpu: str, gpus: int, batch: int) -> Published | None:
    """The one that was run with this model, cluster and batch."""
    asked = (name, gpu, gpus, batch)
    return next((each for each in layouts() if (each.model, each.gpu, each.gpus, each.batch) == asked), None)


def placed(run: Published) -> Placed:
    """Both places of a published layout."""
    shape, card = model(run.model), accelerator(run.gpu)
    free = ranking(shape, gpus=run.gpus, gpu=card, batch=run.batch)
    then = ranking(shape, gpus=run.gpus, gpu=card, batch=run.batch, recompute=("full",), sequence_parallel=False)
    tflops = throughput(run.plan, gpu=card).tflops_per_gpu
    return Placed(published=run, free=_place(run, free), then=_place(run, then), tflops=tflops)


def _place(run: Published, found: Sequence[Ranked]) -> Place:
    number = [(each.plan.dp, each.plan.tp, each.plan.pp) for each in found].index(run.degrees)
    return Place(number=number + 1, of=len(found), slower=found[number].seconds / found[0].seconds - 1)
