"""An artificially slow link between the ranks, so that communication takes visible time where they share a memory.

The collectives are the same, on the same values; each only takes longer, by the bytes it sends divided by the link's
bandwidth, and one after the other, as on one wire. The time passes in a thread that sleeps: a rank that does not wait
computes meanwhile, as it would beside a real network card.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.planner.overlap import ring_bytes

# A method of torch's process groups -> the collective, and its unsharded buffer among the arguments.
METHODS: dict[str, tuple[str, Callable[[Any], Tensor]]] = {
    "allreduce": ("all_reduce", lambda arguments: arguments[0][0]),
    "all_gather_single": ("all_gather", lambda arguments: arguments[0]),
    "reduce_scatter_single": ("reduce_scatter", lambda arguments: arguments[1]),
}


class Late:
    """The work of a collective that is done when the link has carried it, too."""

    def __init__(self, work: dist.Work, carried: threading.Event) -> None:
        self.work, self.carried = work, carried

    def wait(self, *arguments: Any) -> Any:
        """Ends when the result may be used; a span of that name in a trace."""
        with record_function("wait"):
            result = self.work.wait(*arguments)
            self.carried.wait()
        return result

    def is_completed(self) -> bool:
        return self.work.is_completed() and self.carried.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One collective for the link: it sets off when the ranks have met in `work`."""

    name: str
    work: dist.Work
    seconds: float
    carried: threading.Event


class Link:
    """Within it, each collective takes `size / bandwidth` seconds longer; with a bandwidth of None, none does. In a
    trace each is a span `link:<name>`, and waiting a span `wait`. `bandwidth` is bytes a second in one direction.
    """

    def __init__(self, bandwidth: float | None) -> None:
        self.bandwidth = bandwidth
        self.loads: queue.SimpleQueue[Load | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.carry, name="slow link", daemon=True)
        self.originals: dict[str, Any] = {}

    def __enter__(self) -> Self:
        for method, (name, buffer) in METHODS.items():
            original = self.originals[method] = getattr(dist.ProcessGroup, method)
            setattr(dist.ProcessGroup, method, self.slowed(original, name, buffer))
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for method, original in self.originals.items():
            setattr(dist.ProcessGroup, method, original)
        self.loads.put(None)
        self.thread.join()

    def slowed(self, original: Callable[..., dist.Work], name: str, buffer: Callable[[Any], Tensor]) -> Any:
        @functools.wraps(original)
        def call(group: dist.ProcessGroup, *arguments: Any, **named: Any) -> Late:
            work = original(group, *arguments, **named)
            carried, seconds = threading.Event(), 0.0
            if self.bandwidth is not None:
                seconds = ring_bytes(name, buffer=buffer(arguments).nbytes, ranks=group.size()) / self.bandwidth
            self.loads.put(Load(name=name, work=work, seconds=seconds, carried=carried))
            return Late(work, carried)

        return call

    def carry(self) -> None:
        """The link itself: one load after another. It keeps no load, and so none of its buffers, once that is there."""
        while (load := self.loads.get()) is not None:
            # A collective that failed is raised where it is waited for; here it only takes no time.
            with record_function(f"link:{load.name}"), contextlib.suppress(RuntimeError):
                meet(load.work)
                time.sleep(load.seconds)
            carried = load.carried
            del load
            carried.set()


def meet(work: dist.Work) -> None:
    """Until all ranks have done their part. gloo gives no future for a reduce-scatter, whose work may be waited for
    twice; for others, a future leaves the waiting to the rank's own thread.
    """
    try:
        future = work.get_future()
    except RuntimeError:
        work.wait()
    else:
        future.wait()
