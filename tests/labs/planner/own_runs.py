"""Runs in the ranks: each lab of the list that it is given, one after the other over one group. Reports what each
measured on this rank beside what its formulas said.

A thread of gloo's may hold a buffer a moment longer than the call that waited for it, and then the next one is there
too. That only ever adds, and not in every run: a lab whose peak is off by more than the bound, on any rank, runs again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

from labs import training
from labs.options import OPTIONS
from labs.options.base import TrainingOptions
from labs.runner import rank as this
from labs.telemetry import Tracker

RUNS = 3


def settled(name: str, options: dict[str, Any], *, bound: float) -> dict[str, Any]:
    for _ in range(RUNS):
        found = compared(name, options)
        off = torch.tensor(abs(found["predicted"]["peak"] / found["peak"] - 1))
        dist.all_reduce(off, op=dist.ReduceOp.MAX)
        if off <= bound:
            break
    return found


def compared(name: str, options: dict[str, Any]) -> dict[str, Any]:
    told = import_module(f"labs.{name}").train(OPTIONS[name](**options))
    at_rest = told["bytes"]["rest"]
    return {
        "predicted": told["predicted"],
        "rest": {each: at_rest[each] for each in ("parameters", "gradients", "optimizer_states")},
        "peak": told["peak_total"],
        "traffic": {
            axis: sum(count["bytes"] for name, count in counts.items() if name != "clipping")
            for axis, counts in told["axes"].items()
        },
    }


if __name__ == "__main__":
    with this.group() as group:

        @contextmanager
        def same() -> Iterator[dist.ProcessGroup]:
            yield group

        @contextmanager
        def watched(options: TrainingOptions) -> Iterator[Tracker]:
            """Without the series of a live view, which takes time."""
            with Tracker(pause=options.slow) as tracker:
                yield tracker

        this.group, training.watched = same, watched
        found = [settled(name, options, bound=float(sys.argv[2])) for name, options in json.loads(sys.argv[1])]
    this.report(found)
    this.leave()
