"""Optimizer states that rest off the device (ZeRO-Offload, Ren et al. 2021; ZeRO-Infinity, Rajbhandari et al. 2021).

Adam needs master weights, momentum and variance once a step, each number once. So they may rest where bytes are cheap,
in the host's memory or in a file, and the host makes the update itself, one block after another:

    gradients (device)   ->  a block of gradients (host)
                             Adam on the same block of master weights, momentum and variance
    parameters (device)  <-  a block of parameters (host)

A parameter in bf16 moves 2 bytes out and 2 bytes in, whatever its states weigh: 4 bytes a parameter a step.

    elements   n of a unit, whole or shard
    states     (3, n): master weights, momentum, variance
    block      this many of the n at a time
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.profiler import record_function

from labs.strategies.units import Strategy, Unit

ALIGNED = 16
"""Adam's vector instructions round like its scalar ones only within a block: blocks are a multiple of their width."""


class Room(Protocol):
    """Where the states of one unit rest."""

    states: Tensor
    on_disk: int

    def let_go(self, window: slice) -> None:
        """This block is not needed until the next step."""


class HostRoom:
    """Host memory, pinned where a device copies from it."""

    on_disk = 0

    def __init__(self, elements: int, dtype: torch.dtype, *, pinned: bool) -> None:
        with record_function("offloaded"):
            self.states = torch.zeros(3, elements, dtype=dtype, pin_memory=pinned)

    def let_go(self, window: slice) -> None:
        """Host memory stays."""


class FileRoom:
    """A mapped file: its bytes come into memory when they are touched, and leave when let go.

    The file has no name, so that it is gone with this process, however that ends. Raises NoRoom where the disk cannot
    hold it; all its bytes are reserved at once, since a disk that fills up later would kill the process.
    """

    def __init__(self, elements: int, dtype: torch.dtype, *, folder: Path) -> None:
        size = 3 * elements * dtype.itemsize
        with tempfile.TemporaryFile(dir=folder) as file:
            reserve(file.fileno(), size, folder=folder)
            self.on_disk = os.fstat(file.fileno()).st_size
            self.mapped = mmap.mmap(file.fileno(), size)
        self.states = torch.frombuffer(self.mapped, dtype=dtype).view(3, elements)

    def let_go(self, window: slice) -> None:
        """Its pages leave this process's memory. What was written to them stays in the file."""
        elements, size = self.states.size(1), self.states.itemsize
        for row in range(3):
            first = (row * elements + window.start) * size // mmap.PAGESIZE * mmap.PAGESIZE
            self.mapped.madvise(mmap.MADV_DONTNEED, first, (row * elements + window.stop) * size - first)


class NoRoom(OSError):
    """A folder cannot hold a file of `needed` bytes; it has `free`. Nothing was moved."""

    def __init__(self, folder: Path, *, needed: int, free: int) -> None:
        super().__init__(errno.ENOSPC, f"{needed} bytes of optimizer states do not fit; {free} are free", str(folder))
        self.needed, self.free = needed, free


def reserve(descriptor: int, size: int, *, folder: Path) -> None:
    """Give an empty file its bytes on the disk, all or none. Raises NoRoom."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise NoRoom(folder, needed=size, free=free)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            zeros = bytes(1 << 20)
            for start in range(0, size, len(zeros)):
                os.write(descriptor, zeros[: size - start])
    except OSError as error:
        raise NoRoom(folder, needed=size, free=free) from error


class Wire:
    """Copies blocks between device and host through pinned memory, on a stream beside the device's work: while one
    block is on its way, the host updates another. Without an accelerator host and device are one, the same copies go
    from memory to memory, and a copy is done when it was begun.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, *, block: int) -> None:
        self.stream = torch.Stream(device) if device.type != "cpu" else None
        with record_function("communication"):
            self.outward, self.inward = (
                torch.empty(block, dtype=dtype, pin_memory=self.stream is not None) for _ in range(2)
            )
        self.arrived: torch.Event | None = None
        self.returned: torch.Event | None = None
        self.moved = 0

    def fetch(self, gradients: Tensor) -> None:
        """Begin to copy a block of gradients to the host."""
        with self.beside():
            self.outward[: gradients.numel()].copy_(gradients, non_blocking=True)
        self.arrived = self.mark()
        self.moved += gradients.nbytes

    def fetched(self, elements: int, dtype: torch.dtype) -> Tensor:
        """The block that was begun last, in the precision of the states; the next may be begun then."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.outward[:elements].to(dtype, copy=True)

    def send(self, master: Tensor, values: Tensor) -> None:
        """Round a block of master weights and begin to copy it to the device."""
        if self.returned is not None:
            self.returned.synchronize()
        rounded = self.inward[: master.numel()]
        rounded.copy_(master)
        with self.beside():
            values.copy_(rounded, non_blocking=True)
        self.returned = self.mark()
        self.moved += values.nbytes

    def open(self) -> None:
        """What the device has computed comes first."""
        if self.stream is not None:
            self.stream.wait_stream(torch.accelerator.current_stream(self.stream.device))

    def close(self) -> None:
        """What the device computes next sees all that was sent."""
        if self.stream is not None:
            torch.accelerator.current_stream(self.stream.device).wait_stream(self.stream)

    def beside(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else self.stream

    def mark(self) -> torch.Event | None:
        return None if self.stream is None else self.stream.record_event()


class Offloaded:
    """The Adam states of one unit, resting in `room`. Its `update` takes the place of the unit's own.

    The states that the unit has move there, so a run may be offloaded at any step. `unit.master` and `unit.adam` show
    them where they are now.
    """

    def __init__(self, unit: Unit, room: Room, wire: Wire, *, block: int) -> None:
        self.unit, self.room, self.wire, self.block = unit, room, wire, block
        before = unit.adam.state[unit.master]
        for window in self.windows():
            master, momentum, variance = room.states[:, window]
            master.copy_(unit.master.detach()[window])
            if before:
                momentum.copy_(before["exp_avg"][window])
                variance.copy_(before["exp_avg_sq"][window])
            room.let_go(window)
        with record_function("optimizer_states"):
            self.step = before["step"].cpu() if before else torch.tensor(0.0)
        recipe = unit.adam.param_groups[0]
        unit.master, momentum, variance = room.states
        unit.adam = torch.optim.Adam([{**recipe, "params": [unit.master.requires_grad_()]}])
        unit.adam.state[unit.master] = {"step": self.step, "exp_avg": momentum, "exp_avg_sq": variance}
        unit.update = self.update  # type: ignore[method-assign]

    def windows(self) -> Iterator[slice]:
        """The blocks, from the first to the last, which may be shorter."""
        elements = self.room.states.size(1)
        for start in range(0, elements, self.block):
            yield slice(start, min(start + self.block, elements))

    @torch.no_grad()
    def update(self, gradients: Tensor) -> None:
        """One Adam step on the host, then the parameters take the master weights' values, rounded. No more than a block
        of the states is in use at a time.
        """
        windows = [*self.windows()]
        self.wire.open()
        self.wire.fetch(gradients[windows[0]])
        for window, following in zip(windows, [*windows[1:], None], strict=True):
            with record_function("temporary"):
                block = self.wire.fetched(window.stop - window.start, self.room.states.dtype)
            if following is not None:
                self.wire.fetch(gradients[following])
            master, momentum, variance = self.room.states[:, window]
            self.adam(master, block, momentum, variance)
            self.wire.send(master, self.unit.values[window])
            self.room.let_go(window)
        self.step += 1
        self.wire.close()
        self.unit.gradients.zero_()

    def adam(self, master: Tensor, gradients: Tensor, momentum: Tensor, variance: Tensor) -> None:
        """torch's own Adam on one block; each block counts the same step."""
        lr, (beta1, beta2), eps = (self.unit.adam.param_groups[0][name] for name in ("lr", "betas", "eps"))
        adam(
            [master], [gradients], [momentum], [variance], [], [self.step.clone()], fused=True, amsgrad=False,
            beta1=beta1, beta2=beta2, lr=lr, weight_decay=0.0, eps=eps, maximize=False,
        )  # fmt: skip


def offload(strategy: Strategy, make: Callable[[int, torch.dtype], Room], *, block: int) -> list[Offloaded]:
    """Move the Adam states of every unit to rooms that `make(elements, dtype)` gives, `block` elements at a time.

    All rooms are made before anything moves: where one cannot be made, the strategy stays as it was. Raises ValueError
    for a block that is no multiple of 16, with which the update would not be bitwise that of a whole unit.
    """
    if block < 1 or block % ALIGNED:
        raise ValueError(f"a block is a multiple of {ALIGNED} elements, not {block}")
    trained = [unit for unit in strategy.units if unit.trainable]
    if not trained:
        return []
    rooms = [make(unit.master.numel(), unit.master.dtype) for unit in trained]
    longest = min(block, max(unit.master.numel() for unit in trained))
    wire = Wire(trained[0].values.device, trained[0].values.dtype, block=longest)
    return [Offloaded(unit, room, wire, block=block) for unit, room in zip(trained, rooms, strict=True)]
