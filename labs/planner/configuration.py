"""How a model is trained on a cluster: the degrees of parallelism, what is recomputed, and what the stack keeps.

Everything the calculators are asked is one frozen value, refused with a sentence where it cannot run.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Self

from labs.planner.models import Model, padded
from translations import CourseError

RECOMPUTE = ("none", "selective", "full")
OFFLOAD = ("none", "optimizer", "gradients")
MOST = 10**12
"""No degree, batch or length is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Bytes that a training stack keeps for each parameter, and the elements of its communication buffer."""

    name: str
    parameter: int
    gradient: int
    optimizer_states: int
    bucket: int = 0

    @property
    def total(self) -> int:
        return self.parameter + self.gradient + self.optimizer_states


STACKS = {
    stack.name: stack
    for stack in (
        # Rajbhandari et al. 2020, section 3.1: fp16 parameters and gradients; fp32 parameters, momentum and variance.
        Stack(name="zero", parameter=2, gradient=2, optimizer_states=12),
        # Megatron's bf16 training and Megatron-DeepSpeed's BF16Optimizer add gradients up in fp32.
        Stack(name="megatron", parameter=2, gradient=4, optimizer_states=12),
        # DeepSpeed's reduce and all-gather buckets have 5e8 elements unless the configuration says otherwise.
        Stack(name="deepspeed", parameter=2, gradient=2, optimizer_states=12, bucket=500_000_000),
        # Rajbhandari et al. 2021, equation 2: fp32 gradients beside the fp16 ones.
        Stack(name="zero-infinity", parameter=2, gradient=2, optimizer_states=16),
        # Plain fp32 with Adam, as the labs and most small trainings have it.
        Stack(name="lab", parameter=4, gradient=4, optimizer_states=8),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A model, its layout on dp x pp x tp (x cp) accelerators, and one step's batch.

    `micro_batch` is sequences at once on one replica, `micro_batches` how many of them make a step; `interleave` the
    chunks of layers on each pipeline stage; `stages` the layers of each, where they are not shared out evenly. The
    sequence is split beside the tensor axis (Megatron's sequence parallelism) where `sequence_parallel` says so. In the
    host's memory rest the optimizer states (`offload` optimizer), or the gradients as well (gradients).
    """

    model: Model
    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    zero: int = 0
    micro_batch: int = 1
    micro_batches: int = 1
    sequence: int | None = None
    recompute: str = "none"
    sequence_parallel: bool = False
    interleave: int = 1
    stages: tuple[int, ...] = ()
    stack: Stack = STACKS["zero"]
    offload: str = "none"

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp * self.cp

    @property
    def global_batch(self) -> int:
        """Sequences in one optimizer step."""
        return self.dp * self.micro_batch * self.micro_batches

    @property
    def length(self) -> int:
        """Positions of one sequence."""
        return self.sequence or self.model.sequence

    @property
    def shards(self) -> int:
        """Ranks over which ZeRO shards: those with the same part of the model."""
        return self.dp * self.cp

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding, padded so that every tensor-parallel rank has as many."""
        return padded(self.model.vocabulary, tensor=self.tp, multiple=1)

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of each pipeline stage: as given, or evenly, or with embedding and head counted as a layer each, or
        as evenly as can be with more in the middle, where there is no embedding.
        """
        return self.stages or _shared_out(self.model.layers, self.pp)

    def checked(self) -> Self:
        """Itself, or CourseError with the reason and the nearest that works."""
        for name in ("dp", "tp", "pp", "cp", "micro_batch", "micro_batches", "interleave"):
            within(name.replace("_", "-"), getattr(self, name))
        if self.sequence is not None:
            within("sequence", self.sequence)
        if self.zero not in (0, 1, 2, 3):
            raise CourseError("labs.unknown-stage", value=self.zero)
        if self.recompute not in RECOMPUTE:
            raise CourseError("labs.unknown-choice", name="recompute", value=self.recompute, known=", ".join(RECOMPUTE))
        if self.offload not in OFFLOAD:
            raise CourseError("labs.unknown-choice", name="offload", value=self.offload, known=", ".join(OFFLOAD))
        shape = self.model
        if shape.heads % self.tp:
            near = nearest(self.tp, divisors(shape.heads))
            raise CourseError("labs.plan-heads", heads=shape.heads, value=self.tp, nearest=near)
        if self.pp > shape.layers:
            raise CourseError("labs.plan-layers", layers=shape.layers, value=self.pp, most=shape.layers)
        if self.interleave > 1 and shape.layers % (self.pp * self.interleave):
            each = shape.layers // self.pp if shape.layers % self.pp == 0 else 1
            near = nearest(self.interleave, divisors(each))
            wanted = self.pp * self.interleave
            raise CourseError("labs.plan-interleave", layers=shape.layers, value=wanted, pp=self.pp, nearest=near)
        if self.stages and (len(self.stages) != self.pp or sum(self.stages) != shape.layers or min(self.stages) < 1):
            told = ", ".join(map(str, self.stages))
            raise CourseError("labs.plan-stages", stages=told, pp=self.pp, layers=shape.layers)
        if self.length % self.cp:
            near = nearest(self.cp, divisors(self.length))
            raise CourseError("labs.plan-sequence", sequence=self.length, value=self.cp, nearest=near)
        if self.sequence_parallel and self.length // self.cp % self.tp:
            raise CourseError("labs.simulate-sequence", positions=self.length // self.cp, tp=self.tp)
        if self.pp > 1 and self.zero >= 2:
            raise CourseError("labs.plan-zero-pipeline", stage=self.zero)
        return self


@functools.cache
def _shared_out(layers: int, stages: int) -> tuple[int, ...]:
    whole, rest = divmod(layers, stages)
    if not rest:
        return (whole,) * stages
    if (layers + 2) % stages == 0:
        each = (layers + 2) // stages
        return (each - 1, *(each,) * (stages - 2), each - 1)
    first = (stages - rest) // 2
    return tuple(whole + (first <= stage < first + rest) for stage in range(stages))


def within(name: str, value: int) -> None:
    """Raises CourseError unless it is one at least, and no larger than anyone can mean."""
    if value < 1:
        raise CourseError("labs.option-at-least", name=name, least=1, value=value)
    if value > MOST:
        raise CourseError("labs.option-at-most", name=name, most=MOST, value=value)


def divisors(number: int) -> list[int]:
    """All numbers that divide it, the smallest first."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})


def nearest(value: int, among: list[int]) -> int:
    """The one of the numbers that is nearest to the value; the smaller of two."""
    return min(among, key=lambda each: (abs(each - value), each))
