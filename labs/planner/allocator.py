"""Two counters of one memory: what tensors take, and what their allocator has taken from the driver (PyTorch's notes on
CUDA semantics, memory management). torch's allocator also joins neighbouring free blocks; this one never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Allocator:
    """Gives out blocks that were freed before it asks the driver for more, and never hands anything back to it."""

    def __init__(self) -> None:
        self.allocated = self.reserved = 0
        self.free: list[int] = []

    def take(self, size: int) -> None:
        fitting = [block for block in self.free if block >= size]
        if fitting:
            block = min(fitting)
            self.free.remove(block)
            if block > size:
                self.free.append(block - size)
        else:
            self.reserved += size
        self.allocated += size

    def give_back(self, size: int) -> None:
        self.allocated -= size
        self.free.append(size)


def told(actions: Iterable[tuple[str, Sequence[int], Sequence[int]]]) -> list[tuple[str, int, int]]:
    """Bytes allocated and reserved after each action: its name, the sizes that it takes, and those that it frees."""
    memory, found = Allocator(), []
    for name, taken, freed in actions:
        for size in taken:
            memory.take(size)
        for size in freed:
            memory.give_back(size)
        found.append((name, memory.allocated, memory.reserved))
    return found
