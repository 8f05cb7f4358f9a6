"""What a step sends on each axis of a layout, over which link, and how long that takes.

Volumes are the papers': tensor parallelism 8 b s h (t - 1) / t elements a layer and micro-batch, pipeline b s h for
each micro-batch and neighbour (Narayanan et al. 2021, section 3.2), data parallelism and ZeRO 2 P or 3 P (Rajbhandari
et al. 2020, section 7). A ring all-reduce of n bytes on d ranks sends 2 n (d - 1) / d from each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator
from labs.planner.memory import parameters_by_stage

Link = Literal["node", "network"]
AXES = ("tensor", "context", "data", "pipeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis on the busiest rank: bytes it sends in one step, the link, seconds on it, and the share of these that
    can go on while the rank computes.
    """

    name: str
    bytes: float
    link: Link
    seconds: float
    overlap: float

    @property
    def exposed(self) -> float:
        """Seconds that nothing can hide, however long the rank computes."""
        return self.seconds * (1 - self.overlap) if self.overlap < 1 else 0.0


def axes(plan: Configuration, *, gpu: Accelerator) -> tuple[Axis, ...]:
    """Traffic of one optimizer step on the busiest rank, axis by axis."""
    value, shape = plan.stack.parameter, plan.model
    stream = plan.length // plan.cp * plan.micro_batch * shape.hidden * value
    layers = max(plan.layers)
    found = []

    def add(name: str, sent: float, *, span: int, ranks: int, overlap: float) -> None:
        """`span` is how many neighbouring ranks the axis reaches over, which decides on the link, `ranks` how many of
        them are one group.
        """
        link: Link = "node" if span <= gpu.node else "network"
        rate = gpu.between(ranks) if link == "node" else gpu.network
        seconds = sent / rate if rate else (0.0 if not sent else float("inf"))
        found.append(Axis(name=name, bytes=sent, link=link, seconds=seconds, overlap=overlap))

    # Two all-reduces in forward and two in backward; with full recomputation the forward ones once more.
    passes = 12 if plan.recompute == "full" else 8
    tensor = passes * stream * (plan.tp - 1) / plan.tp * layers * plan.micro_batches
    add("tensor", tensor, span=plan.tp, ranks=plan.tp, overlap=0.0)
    # Keys and values go around in forward; they and their gradients in backward.
    ring = 6 * stream / shape.hidden * shape.head_size * -(-shape.key_value_heads // plan.tp) * (plan.cp - 1) * layers
    add("context", ring * plan.micro_batches, span=plan.tp * plan.cp, ranks=plan.cp, overlap=1.0)
    hidden = 0.5 if plan.micro_batches == 1 else 0.0
    add("data", data_bytes(plan), span=plan.tp * plan.shards, ranks=plan.shards, overlap=hidden)
    # Each chunk sends on what it made, and its gradients back; with two stages the outermost has one side only.
    messages = 0 if plan.pp == 1 else 2 * plan.interleave - (plan.pp == 2)
    halves = plan.tp if plan.sequence_parallel else 1
    pipeline = messages * stream / halves * plan.micro_batches
    add("pipeline", pipeline, span=plan.gpus, ranks=2, overlap=1.0)
    return tuple(found)


def data_bytes(plan: Configuration) -> float:
    """Bytes that one rank sends on the data axis in a step: a reduce-scatter of gradients and an all-gather of
    parameters; stage 2 reduces after each micro-batch, stage 3 also gathers twice in each.
    """
    d = plan.shards
    count = max(map(sum, parameters_by_stage(plan)))
    parameter, gradient, k = plan.stack.parameter, plan.stack.gradient, plan.micro_batches
    moved = {
        0: 2 * gradient,
        1: gradient + parameter,
        2: k * gradient + parameter,
        3: k * (gradient + 2 * parameter),
    }[plan.zero]
    return count * moved * (d - 1) / d


def in_the_open(found: Sequence[Axis], *, computing: float) -> dict[str, float]:
    """Seconds of each axis that computation does not hide: what can never go on beside it, and of the rest what a link
    is still busy with once the computation is over.
    """
    open_: dict[str, float] = {}
    for link in ("node", "network"):
        on_it = [axis for axis in found if axis.link == link]
        hideable = sum(axis.seconds * axis.overlap for axis in on_it if axis.overlap)
        late = 1 - computing / hideable if hideable > computing else 0.0
        for axis in on_it:
            open_[axis.name] = axis.exposed + (axis.seconds * axis.overlap * late if late and axis.overlap else 0.0)
    return open_


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What one kind of link carries in a step on the busiest rank: bytes, bytes a second, and seconds for them."""

    link: str
    rate: float
    bytes: float

    @property
    def seconds(self) -> float:
        return self.bytes / self.rate


def busy(found: Sequence[Axis], *, gpu: Accelerator) -> tuple[Busy, ...]:
    """The links of a node and between nodes, and beside them the host's (PCIe), were it to carry what the node's do."""
    inside, outside = (sum(axis.bytes for axis in found if axis.link == link) for link in ("node", "network"))
    links = (("node", gpu.link, inside), ("host", gpu.host, inside), ("network", gpu.network, outside))
    return tuple(Busy(link=link, rate=rate, bytes=sent) for link, rate, sent in links if rate)


def bottleneck(found: Sequence[Axis], *, computing: float) -> str | None:
    """The axis whose link is busy for longer than the computation that could hide it; None where no link is full."""
    busiest = max(found, key=lambda axis: axis.seconds)
    return busiest.name if busiest.seconds > computing else None
