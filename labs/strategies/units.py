"""What every stage of ZeRO needs: a piece of the model as one flat buffer that can be cut into N equal shards.

A model is a list of pieces (embedding, blocks, head). The parameters of a piece become windows on one buffer, padded
with zeros to a multiple of the N ranks, so that one collective moves them all and rank r's shard is simply the r-th
part of the buffer.

    whole      n + padding elements   every parameter of the unit, one after the other
    shard      (n + padding) / N      this rank's part of `whole`
    gradients  as `whole` or `shard`  what the stage keeps of them
    master     as `whole` or `shard`  what Adam updates, in high precision

A tied weight belongs to the first piece that has it. Frozen parameters form units of their own: no gradients, no
optimizer states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

MicroBatch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How Adam trains. `master` is the precision of its states; `clip` the largest allowed norm of the whole gradient.

    `eps` is 1e-6 here so that ranks that add in another order stay equal to one process within rounding: with 1e-8 a
    gradient near zero, noise of the summation, decides a whole step.
    """

    lr: float = 1e-3
    eps: float = 1e-6
    master: torch.dtype = torch.float32
    clip: float | None = None


class Strategy(Protocol):
    """What every strategy shows: the model it trains, its units, and a step."""

    model: nn.Module
    units: list[Unit]

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss on this rank."""


class Unit:
    """Some parameters of one piece as windows on one flat buffer of size + padding elements, a multiple of N."""

    def __init__(self, piece: nn.Module, parameters: list[nn.Parameter], *, group: dist.ProcessGroup) -> None:
        self.piece, self.parameters, self.group = piece, parameters, group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.trainable = parameters[0].requires_grad
        self.size = sum(p.numel() for p in parameters)
        self.padded = -(-self.size // self.ranks) * self.ranks
        self.shapes = [p.shape for p in parameters]
        with record_function("parameters"):
            self.whole = parameters[0].new_zeros(self.padded)
        for window, p in zip(self.windows(self.whole), parameters, strict=True):
            window.copy_(p.detach())
            p.data = window
        self.shard = self.part(self.whole)

    def windows(self, flat: Tensor) -> Iterator[Tensor]:
        """Each parameter's place in a buffer laid out as `whole`."""
        offset = 0
        for shape in self.shapes:
            yield flat[offset : offset + shape.numel()].view(shape)
            offset += shape.numel()

    def part(self, flat: Tensor) -> Tensor:
        """This rank's N-th of a whole buffer: a window, not a copy."""
        return flat.chunk(self.ranks)[self.rank]

    # --- what a stage keeps

    def keep_master(self, values: Tensor, recipe: Recipe) -> None:
        """Adam over `values`, whole or shard. The master copy is `values` itself where the precision is the same."""
        self.values = values
        with record_function("optimizer_states"):
            self.master = values.detach().to(recipe.master).requires_grad_()
        self.adam = torch.optim.Adam([self.master], lr=recipe.lr, eps=recipe.eps, fused=True)

    def keep_gradients(self) -> None:
        """Whole gradients in one buffer: autograd adds each into its window."""
        with record_function("gradients"):
            self.gradients = torch.zeros_like(self.whole)
        for window, p in zip(self.windows(self.gradients), self.parameters, strict=True):
            p.grad = window

    def keep_gradient_shard(self) -> None:
        """Only this rank's N-th of the gradients, already averaged over ranks."""
        with record_function("gradients"):
            self.gradients = torch.zeros_like(self.shard)

    def keep_shard(self) -> None:
        """Only this rank's N-th of the parameters. `whole` becomes a buffer with bytes only while it is gathered."""
        with record_function("parameters"):
            self.shard = self.shard.clone()
        with record_function("communication"):
            self.whole = torch.empty_like(self.whole)
        self.free()

    # --- collectives, each on the whole buffer

    def all_reduce(self) -> None:
        """The mean of every rank's gradients, on every rank: size + padding elements, twice on the wire."""
        dist.all_reduce(self.gradients, op=dist.ReduceOp.AVG, group=self.group)

    def reduce_scatter(self, flat: Tensor) -> Tensor:
        """The mean of every rank's `flat`, this rank's shard of it, left in its place in `flat`."""
        shard = self.part(flat)
        dist.reduce_scatter_single(shard, flat, op=dist.ReduceOp.AVG, group=self.group)
        return shard

    def all_gather(self) -> None:
        """Every rank's shard into `whole`."""
        dist.all_gather_single(self.whole, self.shard, group=self.group)

    # --- the optimizer

    def update(self, gradients: Tensor) -> None:
        """One Adam step on the master copy, then the parameters take its values, rounded."""
        with record_function("temporary"):
            self.master.grad = gradients.to(self.master.dtype)
        with record_function("optimizer_states"):
            self.adam.step()
        self.master.grad = None
        if self.values.dtype != self.master.dtype:
            self.values.copy_(self.master.detach())
        self.gradients.zero_()

    # --- a bucket for gradients on their way (ZeRO-2 and 3)

    def await_gradients(self, ready: Callable[[], None]) -> None:
        """Call `ready` each time backward has made the gradients of all parameters; they wait in `bucket`."""
        self.bucket: Tensor | None = None
        self.waiting, self.ready = len(self.parameters), ready
        for index, p in enumerate(self.parameters):
            p.register_post_accumulate_grad_hook(lambda p, index=index: self.made(p, index))  # type: ignore[no-untyped-call]

    def made(self, p: Tensor, index: int) -> None:
        assert p.grad is not None
        if self.bucket is None:
            self.bucket = self.new_bucket()
        list(self.windows(self.bucket))[index].copy_(p.grad)
        p.grad = None
        self.waiting -= 1
        if self.waiting == 0:
            self.ready()

    def take_bucket(self) -> Tensor:
        """The filled bucket, no longer the unit's. A parameter that backward did not reach counts as zero."""
        bucket, self.bucket = self.bucket, None
        return self.new_bucket() if bucket is None else bucket

    def new_bucket(self) -> Tensor:
        with record_function("communication"):
            return self.gradients.new_zeros(self.padded)

    # --- a buffer that comes and goes (ZeRO-3)

    @property
    def gathered(self) -> bool:
        return self.whole.untyped_storage().size() > 0

    def gather(self) -> None:
        """Give `whole` its bytes back, fill it from all ranks, let the parameters look at it again."""
        with record_function("communication"):
            self.whole.untyped_storage().resize_(self.padded * self.whole.itemsize)
        self.all_gather()
        for window, p in zip(self.windows(self.whole), self.parameters, strict=True):
            p.data = window

    def free(self) -> None:
        """Let the bytes of `whole` go. The storage itself stays: what autograd saved still points to it and finds the
        values after `gather`.
        """
        self.whole.untyped_storage().resize_(0)
        for p in self.parameters:
            p.data = self.shard.new_empty(0)


class InOrder:
    """Hands units to `reduce` from the last to the first, the same order on every rank, each as soon as backward has
    made its gradients and those of the units after it.

    Ranks need not finish their units in the same order, since one may not have used a branch of the model. Their
    collectives must be called in the same order all the same.
    """

    def __init__(self, units: Sequence[Unit], reduce: Callable[[Unit], None]) -> None:
        self.units, self.reduce = units, reduce
        self.due = [*units]
        for unit in units:
            unit.await_gradients(self.release)

    def release(self) -> None:
        while self.due and self.due[-1].waiting == 0:
            self.reduce(self.due.pop())

    def settle(self) -> None:
        """After a backward: a unit that it did not reach in full joins its collective too, or others would wait."""
        while self.due:
            self.reduce(self.due.pop())
        self.due = [*self.units]
        for unit in self.units:
            unit.waiting = len(unit.parameters)


def units_of(pieces: Sequence[nn.Module], *, group: dist.ProcessGroup) -> list[Unit]:
    """Cut a model into units: each parameter in exactly one, that of the first piece which has it."""
    units, seen = [], set[int]()
    for piece in pieces:
        own = [p for p in piece.parameters() if id(p) not in seen]
        seen.update(id(p) for p in own)
        for trainable in (True, False):
            parameters = [p for p in own if p.requires_grad == trainable]
            if parameters:
                units.append(Unit(piece, parameters, group=group))
    return units


def clip(gradients: Sequence[Tensor], limit: float | None, *, group: dist.ProcessGroup | None) -> None:
    """Scale all gradients so that the norm of the whole gradient is at most `limit`.

    With shards, each rank knows only its part of the sum of squares: one number is all-reduced over `group`.
    """
    if limit is None:
        return
    precision = torch.float64 if gradients[0].dtype == torch.float64 else torch.float32
    squares = torch.stack([torch.linalg.vector_norm(g, dtype=precision) ** 2 for g in gradients]).sum()
    if group is not None:
        with record_function("clipping"):
            dist.all_reduce(squares, group=group)
    scale = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(scale)


@contextmanager
def whole_parameters(units: Sequence[Unit]) -> Iterator[None]:
    """Within it every parameter is whole on every rank, also in ZeRO-3. All ranks must enter together."""
    freed = [unit for unit in units if not unit.gathered]
    with record_function("report"):
        for unit in freed:
            unit.gather()
    try:
        yield
    finally:
        for unit in freed:
            unit.free()


def units_with(piece: nn.Module, units: Sequence[Unit]) -> list[Unit]:
    """The units that hold any parameter of `piece`: with tied weights, also one that another piece owns."""
    mine = {id(p) for p in piece.parameters()}
    return [unit for unit in units if any(id(p) in mine for p in unit.parameters)]
