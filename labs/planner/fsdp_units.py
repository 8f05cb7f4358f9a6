"""The bytes of torch's FSDP2 around any model, by its units: what rests, what a step moves, and what is gathered at
once.

A unit is what one `fully_shard` gathers, frees and reduces as one. FSDP2 shards each parameter by itself along its
first dimension: a rank of N keeps ceil(rows / N) rows, of which the last ranks have fewer that are not padding, or
none. Our ZeRO shards a unit as one flat buffer.

    keep     a unit is gathered for each forward, and stays       one all-gather, one reduce-scatter a micro-batch
    free     gathered for each forward and for each backward      two and one
    part     the second time from a smaller group                 one and one, and one in the group
    hybrid   as `free` within a group, then added up over copies  two and one in the group, and an all-reduce of shards
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labs.planner.zero import STEP_COUNTER, Count, ModelStates

Shape = Sequence[int]
AXIS, WITHIN, COPIES = "data", "shard", "replicate"
REST = {"fp32": 4, "bf16": 4, "fp64": 8}
"""Bytes of an element of a shard, of its gradient and of each of Adam's two moments: bf16 is only what is gathered."""
SENT = {"fp32": 4, "bf16": 2, "fp64": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Trained parameters, and the number of the unit within whose forward this one is used."""

    shapes: Sequence[Shape]
    within: int | None = None

    def kept(self, shards: int) -> int:
        """Elements on each of so many ranks, with padding."""
        return sum(-(-rows(shape) // shards) * width(shape) for shape in self.shapes)

    def own(self, shards: int, rank: int) -> int:
        """Without padding."""
        return sum(real_rows(rows(shape), shards, rank) * width(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """On one rank: model states at rest, the collectives of one step by axis, and the most bytes that gathered
    parameters and the buffers of collectives take at once.
    """

    states: ModelStates
    axes: dict[str, dict[str, Count]]
    gathered: int

    @property
    def traffic(self) -> dict[str, int]:
        return {axis: sum(count.bytes for count in counts.values()) for axis, counts in self.axes.items()}

    @property
    def moved(self) -> int:
        return sum(self.traffic.values())


def predict(
    units: Sequence[Unit],
    *,
    sharding: str,
    ranks: int,
    rank: int = 0,
    group: int = 2,
    precision: str = "fp32",
    micro_batches: int = 1,
) -> Prediction:
    """`units` in the order in which forward comes to them; `sharding` as the lab names it, with `group` ranks in the
    smaller groups of `part` and `hybrid`.
    """
    if sharding == "none":
        return replicated(units, precision=precision)
    shards = group if sharding == "hybrid" else ranks
    size, sent = REST[precision], SENT[precision]
    kept = sum(unit.kept(shards) for unit in units)
    own = sum(unit.own(shards, rank % shards) for unit in units)
    states = ModelStates(
        parameters=size * kept,
        gradients=size * kept,
        optimizer_states=2 * size * own + STEP_COUNTER * sum(len(unit.shapes) for unit in units),
    )
    if shards == 1:
        return Prediction(states=states, axes={}, gathered=0)
    k, number, whole = micro_batches, len(units), shards * kept
    gather = Count(count=k * number, bytes=k * whole * sent)
    twice = Count(count=2 * gather.count, bytes=2 * gather.bytes)
    scatter = Count(count=k * number, bytes=k * whole * size)
    axes = {
        "keep": {AXIS: {"all_gather": gather, "reduce_scatter": scatter}},
        "free": {AXIS: {"all_gather": twice, "reduce_scatter": scatter}},
        "part": {AXIS: {"all_gather": gather, "reduce_scatter": scatter}, WITHIN: {"all_gather": gather}},
        "hybrid": {
            WITHIN: {"all_gather": twice, "reduce_scatter": scatter},
            COPIES: {"all_reduce": Count(count=k * number, bytes=2 * k * kept * size)},
        },
    }[sharding]
    wholes = [shards * unit.kept(shards) for unit in units]
    most = Step(units, wholes, sharding=sharding, group=group, sent=sent, reduced=size).most()
    return Prediction(states=states, axes=axes, gathered=most)


def of_equal_units(
    *, parameters: int, units: int, sharding: str, ranks: int, precision: str = "bf16", micro_batches: int = 1
) -> Prediction:
    """The same for a model of so many units of one size, one after the other."""
    each = Unit(shapes=[(round(parameters / units),)])
    return predict([each] * units, sharding=sharding, ranks=ranks, precision=precision, micro_batches=micro_batches)


def replicated(units: Sequence[Unit], *, precision: str) -> Prediction:
    """DDP: everything whole, and the gradients once more in buckets, from which they are all-reduced."""
    size, tensors = REST[precision], sum(len(unit.shapes) for unit in units)
    whole = size * sum(unit.kept(1) for unit in units)
    states = ModelStates(parameters=whole, gradients=whole, optimizer_states=2 * whole + STEP_COUNTER * tensors)
    return Prediction(states=states, axes={AXIS: {"all_reduce": Count(count=1, bytes=2 * whole)}}, gathered=whole)


class Step:
    """FSDP2's buffers through one micro-batch, as torch 2.13 makes and frees them. For each unit:

    forward    an all-gather's output, then the parameters copied out of it; only now the last unit's output goes
    backward   the same, but the output goes at once, and that of the unit before is gathered ahead (prefetch);
               then parameters go, and a reduce-scatter's input comes, which stays until the next unit's
    """

    def __init__(
        self, units: Sequence[Unit], wholes: Sequence[int], *, sharding: str, group: int, sent: int, reduced: int
    ) -> None:
        self.sharding = sharding
        self.gathered = [each * sent for each in wholes]
        self.reduced = [each * reduced for each in wholes]
        self.between = [each // group if sharding == "part" else 0 for each in self.gathered]
        self.inner: dict[int | None, list[int]] = {}
        for index, unit in enumerate(units):
            self.inner.setdefault(unit.within, []).append(index)
        self.now = self.highest = 0
        self.output = self.input = 0  # of the latest all-gather in forward, of the latest reduce-scatter
        self.order: list[int] = []  # as forward leaves the units
        self.ahead: int | None = None

    def most(self) -> int:
        for index in self.inner[None]:
            self.forward(index)
        self.hold(-self.output)
        for index in reversed(self.inner[None]):
            self.backward(index)
        return self.highest

    def forward(self, index: int) -> None:
        size = self.gathered[index]
        self.hold(size)
        self.hold(size)
        self.hold(-self.output)
        self.output = size
        for each in self.inner.get(index, ()):
            self.forward(each)
        self.order.append(index)
        if self.sharding != "keep":
            self.hold(self.between[index] - size)

    def backward(self, index: int) -> None:
        size = self.gathered[index]
        if self.sharding != "keep":
            if self.ahead != index:
                self.hold(size)
            self.hold(size)
            self.hold(-size - self.between[index])
            place = self.order.index(index)
            self.ahead = self.order[place - 1] if place else None
            if self.ahead is not None:
                self.hold(self.gathered[self.ahead])
        for each in reversed(self.inner.get(index, ())):
            self.backward(each)
        self.hold(-size - self.input)
        self.input = self.reduced[index]
        self.hold(self.input)

    def hold(self, size: int) -> None:
        self.now += size
        self.highest = max(self.highest, self.now)


def rows(shape: Shape) -> int:
    return shape[0] if shape else 1


def width(shape: Shape) -> int:
    """Elements of one row."""
    return math.prod(shape[1:])


def real_rows(number: int, shards: int, rank: int) -> int:
    """Of the rows that a rank keeps, those that are no padding."""
    each = -(-number // shards)
    return max(0, min(each, number - rank * each))
