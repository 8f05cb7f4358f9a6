"""What collectives take on these ranks, by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

TIMES = 4


def collectives(sizes: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """For each collective the sizes of its unsharded buffer, which the ranks divide, and the seconds of the quickest of
    a few calls.
    """
    found: dict[str, list[tuple[int, float]]] = {"all_reduce": [], "reduce_scatter": [], "all_gather": []}
    for size in sizes:
        whole = torch.ones(size // 4)
        part = torch.ones(len(whole) // dist.get_world_size())
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": partial(dist.all_reduce, whole),
            "reduce_scatter": partial(dist.reduce_scatter_single, part, whole),
            "all_gather": partial(dist.all_gather_single, whole, part),
        }
        for name, call in calls.items():
            seconds = []
            for _ in range(TIMES):
                dist.barrier()
                started = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - started)
            found[name].append((size, min(seconds)))
    return found
