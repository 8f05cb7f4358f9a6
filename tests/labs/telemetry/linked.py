"""Runs in the ranks: collectives on a slow link, waited for at once, beside computation, and two at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs.link import Link
from labs.runner import rank as this
from labs.telemetry.profiling import traced
from labs.telemetry.trace import Lanes

ELEMENTS = 1_000_000


def timed(run: Callable[[], Any]) -> float:
    dist.barrier()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def computing(seconds: float) -> None:
    """Sleeps in short stretches: a busy machine's ranks need not share a core for this."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        time.sleep(0.001)


if __name__ == "__main__":
    with this.group():
        found: list[Lanes] = []
        sent = torch.full((ELEMENTS,), float(this.number() + 1))
        other = sent.clone()

        def beside() -> None:
            with record_function("backward"):
                work = dist.all_reduce(sent, async_op=True)
                computing(0.19)
                work.wait()

        def two() -> None:
            works = [dist.all_reduce(each, async_op=True) for each in (sent, other)]
            for work in works:
                work.wait()

        def slow(name: str) -> float:
            parts = sent.chunk(dist.get_world_size())
            own = parts[this.number()].clone()
            if name == "all_gather":
                return timed(lambda: dist.all_gather_single(sent.clone(), own))
            return timed(lambda: dist.reduce_scatter_single(own, sent.clone()))

        dist.all_reduce(torch.zeros(ELEMENTS))  # connections are made
        with Link(20e6):
            blocking = timed(lambda: dist.all_reduce(other, op=dist.ReduceOp.AVG))
            values = [other[0].item()]
            with traced(found):
                overlapped = timed(beside)
            values.append(sent[-1].item())
            both = timed(two)
            halves = {name: slow(name) for name in ("all_gather", "reduce_scatter")}
        after = timed(lambda: dist.all_reduce(sent))
        this.report(
            {
                "values": values,
                "blocking": blocking,
                "beside": overlapped,
                "two": both,
                "halves": halves,
                "after": after,
                "hidden": found[0].hidden,
                "names": sorted({block.name for block in found[0].communication}),
            }
        )
