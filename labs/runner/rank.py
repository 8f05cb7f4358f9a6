"""All that a lab script needs inside a rank.

The script is an ordinary torchrun script: under torchrun, from the course's runner, or alone (one rank), it runs
unchanged.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor
from torch._C._distributed_c10d import HashStore
from torch.distributed.rendezvous import rendezvous

import translations
from labs.runner import heartbeat, processes
from labs.runner.results import TENSORS_LIMIT, VALUE_LIMIT, too_large

_TIMEOUT = 60.0


def number() -> int:
    """This rank; 0 where the script runs alone."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """How many ranks there are; 1 where the script runs alone."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def device() -> torch.device:
    """This rank's own accelerator where each rank of the machine has one, else the CPU."""
    accelerator, count = _accelerators()
    if accelerator is None or count < _ranks_here():
        return torch.device("cpu")
    return torch.device(accelerator.type, int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def group() -> Iterator[dist.ProcessGroup]:
    """The group of all ranks, for the time of a ``with`` block, on the backend that fits ``device()``.

    Every wait in it is bounded. At the end the group is destroyed and the output flushed.
    """
    place = device()
    accelerator, count = _accelerators()
    if place.type == "cpu" and accelerator is not None and os.environ.get("LOCAL_RANK", "0") == "0":
        text = translations.translator(translations.preferred())
        print(text("labs.accelerators-shared", count=count, ranks=_ranks_here()), flush=True)
    backend = "gloo"
    if place.type != "cpu":
        torch.accelerator.set_device_index(place.index)
        backend = f"cpu:gloo,{place.type}:{dist.Backend.default_device_backend_map[place.type]}"
    if os.environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "localhost"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", processes.loopback())
    timeout = timedelta(seconds=float(os.environ.get("SHARDWISE_TIMEOUT", _TIMEOUT)))
    if "RANK" in os.environ:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
    else:
        store, rank, size = HashStore(), 0, 1
    dist.init_process_group(backend, timeout=timeout, store=store, rank=rank, world_size=size)
    store.set(f"joined-{rank}", "")
    try:
        yield cast("dist.ProcessGroup", dist.group.WORLD)
    except BaseException:
        # The other ranks learn of the failure when this process ends: closing the group here would let them fail first.
        if world_size() == 1 and dist.is_initialized():
            dist.destroy_process_group()
        raise
    # The slowest rank may still be connecting, and would find nobody where this one has ended.
    store.wait([f"joined-{each}" for each in range(size)])
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()


def leave() -> None:
    """The last line of a lab's script. Without a runner, which keeps a heart for each of its ranks, it ends the process
    here, with success.

    Threads that torch keeps for gloo may otherwise abort the interpreter while it shuts down ("terminate called without
    an active exception"), and torchrun would call a finished run failed. A runner ends its ranks so itself.
    """
    if heart() is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def step(n: int) -> None:
    """Tell the watchdog which training step begins, so that its messages can name it."""
    if page := heart():
        page.step(n)


def report(value: object, tensors: Mapping[str, Tensor] | None = None) -> None:
    """Leave this rank's result where the runner reads it; a later report replaces it.

    Without a runner, rank 0 prints the value as JSON, in which a number that is not finite is a string. Raises
    CourseError where the value is no JSON or is too large.
    """
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise translations.CourseError("labs.report-not-json", rank=number(), detail=error) from error
    rank = number()
    folder = os.environ.get("SHARDWISE_RUN")
    if folder is None:
        if rank == 0:
            print(json.dumps(finite(json.loads(text)), ensure_ascii=False), flush=True)
        return
    _bound(len(text.encode()), VALUE_LIMIT, rank)
    _bound(sum(each.nbytes for each in (tensors or {}).values()), TENSORS_LIMIT, rank)
    if tensors is not None:
        file = Path(folder, f"rank-{rank}.safetensors")
        own = {name: each.detach().cpu().contiguous().clone() for name, each in tensors.items()}
        save_file(own, file.with_suffix(".part"))
        file.with_suffix(".part").replace(file)
    file = Path(folder, f"rank-{rank}.json")
    file.with_suffix(".new").write_text(text, encoding="utf-8")
    file.with_suffix(".new").replace(file)


def finite(value: Any) -> Any:
    """The same value as strict JSON: NaN and the infinities become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list) else value


def _accelerators() -> tuple[torch.device | None, int]:
    """The kind of accelerator that has collectives of its own, and how many this machine shows."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None or dist.Backend.default_device_backend_map.get(found.type, "gloo") == "gloo":
        return None, 0
    return found, torch.accelerator.device_count()


def _ranks_here() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))


@lru_cache(maxsize=1)
def heart() -> heartbeat.Heart | None:
    """This rank's page, if a runner made one."""
    folder = os.environ.get("SHARDWISE_RUN")
    if folder is None or not Path(folder, heartbeat.FILE).exists():
        return None
    return heartbeat.Heart(Path(folder), number())


def _bound(size: int, limit: int, rank: int) -> None:
    if size > limit:
        raise too_large(rank=rank, size=size, limit=limit)


def _plain(value: object) -> object:
    """Numbers of torch and numpy as Python's."""
    if isinstance(value, Tensor) or type(value).__module__ == "numpy":
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} is no JSON value")
