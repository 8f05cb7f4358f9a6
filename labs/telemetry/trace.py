"""A trace of torch.profiler as two lanes of one rank: when it computed, when its collectives ran.

The share of communication that is hidden is counted from them: the time in which both did something, of the time in
which collectives did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.telemetry.categories import PHASES

Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Something that ran, from when to when, in seconds since the first phase began."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """`compute` has the phases without what they waited for collectives; `communication` each collective by name."""

    compute: tuple[Block, ...]
    communication: tuple[Block, ...]

    @property
    def communicating(self) -> float:
        """Seconds in which any collective ran."""
        return length(union((each.start, each.end) for each in self.communication))

    @property
    def hidden(self) -> float:
        """The share of them in which the rank computed as well; 1 where there was nothing to hide."""
        spans = union((each.start, each.end) for each in self.communication)
        busy = union((each.start, each.end) for each in self.compute)
        return length(both(spans, busy)) / length(spans) if spans else 1.0

    @property
    def seconds(self) -> float:
        return max((each.end for each in (*self.compute, *self.communication)), default=0.0)

    def as_dict(self) -> dict[str, list[list[Any]]]:
        return {
            name: [[each.name, each.start, each.end] for each in lane]
            for name, lane in (("compute", self.compute), ("communication", self.communication))
        }

    @classmethod
    def of(cls, told: Mapping[str, Iterable[Sequence[Any]]]) -> Lanes:
        """From what `as_dict` gave."""
        made = {
            name: tuple(Block(name=str(each[0]), start=float(each[1]), end=float(each[2])) for each in told[name])
            for name in ("compute", "communication")
        }
        return cls(**made)


def read(path: Path) -> Lanes:
    """The lanes of a chrome trace that torch.profiler exported."""
    return lanes(json.loads(path.read_text(encoding="utf-8"))["traceEvents"])


def lanes(events: Iterable[Mapping[str, Any]]) -> Lanes:
    """On a CPU, collectives are the spans of the link between the ranks, else those of gloo's threads (where a
    reduce-scatter is an all-reduce), and a rank computes in its phases except in spans named "wait". On a GPU both are
    kernels.
    """
    complete = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in complete if event.get("cat") == "kernel"]
    of_phases = "gpu_user_annotation" if kernels else "user_annotation"
    phases = [event for event in complete if event.get("cat") == of_phases and event["name"] in PHASES]
    if not phases:
        return Lanes(compute=(), communication=())
    first, last = min(_span(event)[0] for event in phases), max(_span(event)[1] for event in phases)

    if kernels:
        named = [(_kernel(event["name"]), _span(event)) for event in kernels]
        working = union(span for name, span in named if name is None)
        moving = [(name, span) for name, span in named if name is not None]
    else:
        waits = union(_span(event) for event in complete if event["name"] == "wait")
        working = without([(first, last)], waits)
        link = "link:" if any(event["name"].startswith("link:") for event in complete) else "gloo:"
        moving = [
            (event["name"].removeprefix(link), _span(event)) for event in complete if event["name"].startswith(link)
        ]
    compute = [
        Block(name=event["name"], start=start - first, end=end - first)
        for event in phases
        for start, end in both([_span(event)], working)
    ]
    communication = [
        Block(name=name, start=max(start, first) - first, end=min(end, last) - first)
        for name, (start, end) in moving
        if start < last and end > first
    ]
    return Lanes(compute=tuple(sorted(compute, key=_when)), communication=tuple(sorted(communication, key=_when)))


def _when(block: Block) -> float:
    return block.start


def _span(event: Mapping[str, Any]) -> Span:
    """Seconds; a trace has microseconds."""
    return event["ts"] / 1e6, (event["ts"] + event.get("dur", 0.0)) / 1e6


def _kernel(name: str) -> str | None:
    """The collective that a kernel of NCCL or RCCL makes; None for any other."""
    if not name.startswith(("ncclDevKernel", "ncclKernel")):
        return None
    known = {"AllReduce": "all_reduce", "ReduceScatter": "reduce_scatter", "AllGather": "all_gather"}
    return next((ours for theirs, ours in known.items() if theirs in name), "collective")


# --- spans of time: sorted, apart from each other


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time, each moment once."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def both(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """The time in both."""
    return union(
        (max(start, begin), min(end, stop))
        for start, end in one
        for begin, stop in other
        if start < stop and begin < end
    )


def without(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """The time in `one` and not in `other`."""
    left = []
    for start, end in one:
        for begin, stop in union(other):
            if stop <= start or begin >= end:
                continue
            if begin > start:
                left.append((start, begin))
            start = max(start, stop)
        if start < end:
            left.append((start, end))
    return left


def length(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)
