"""Communication that runs while the ranks compute (Li et al. 2020, PyTorch Distributed, section 3.2; for ZeRO-3,
Rajbhandari et al. 2021, ZeRO-Infinity, section 6.2).

A collective that is started, and not waited for, runs beside what comes after it. Two rules make that right:

    a buffer in flight is not written, and its result is not read, until its collective was waited for;
    all ranks start their collectives in the same order, whenever each of them waits.

The collectives are those of the strategy without overlap, on the same buffers: results are equal bit for bit. What it
costs is memory, for the buffers in flight; so their number has a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import InOrder, MicroBatch, Recipe, Unit, clip
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3


class AsMade(InOrder):
    """Hands units to `reduce` as InOrder does, with their gradients left where autograd adds them, and only in the
    backward that `expect` announces: the last of a step, when the sums are complete.
    """

    def __init__(self, units: Sequence[Unit], reduce: Callable[[Unit], None]) -> None:
        self.units, self.reduce = units, reduce
        self.due: list[Unit] = []
        for unit in units:
            unit.waiting = 0
            for p in unit.parameters:
                p.register_post_accumulate_grad_hook(lambda _, unit=unit: self.made(unit))  # type: ignore[no-untyped-call]

    def expect(self) -> None:
        self.due = [*self.units]
        for unit in self.units:
            unit.waiting = len(unit.parameters)

    def made(self, unit: Unit) -> None:
        unit.waiting -= 1
        self.release()

    def settle(self) -> None:
        while self.due:
            self.reduce(self.due.pop())


class OverlappedDataParallel(DataParallel):
    """The all-reduce of a bucket starts as soon as backward has made its gradients; the update waits for all of them.

    A bucket is one unit, or as many that follow each other as have `bucket` bytes: fewer calls, each of which costs
    some time of its own, but a later start.
    """

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[nn.Module],
        *,
        group: dist.ProcessGroup,
        recipe: Recipe,
        bucket: int = 0,
    ) -> None:
        super().__init__(model, pieces, group=group, recipe=recipe)
        self.buckets: dict[Unit, Tensor] = {}
        units: list[Unit] = []
        for unit in reversed(self.trained):
            units.insert(0, unit)
            if unit is self.trained[0] or sum(each.gradients.nbytes for each in units) >= bucket:
                self.buckets[unit] = in_one_buffer(units)
                units = []
        self.in_order = AsMade(self.trained, self.start)
        self.in_flight: list[dist.Work] = []

    def start(self, unit: Unit) -> None:
        """Backward comes to the first unit of a bucket last, and then all of the bucket is made."""
        if unit in self.buckets:
            bucket = self.buckets[unit]
            self.in_flight.append(dist.all_reduce(bucket, op=dist.ReduceOp.AVG, group=self.group, async_op=True))

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for number, (tokens, targets) in enumerate(micro_batches, start=1):
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                if number == len(micro_batches):
                    self.in_order.expect()
                loss.backward()
                self.in_order.settle()
            losses.append(loss.detach())

        with record_function("optimizer"):
            while self.in_flight:
                self.in_flight.pop(0).wait()
            clip([unit.gradients for unit in self.trained], self.clip, group=None)
            for unit in self.trained:
                unit.update(unit.gradients)
        return torch.stack(losses).sum()


def in_one_buffer(units: Sequence[Unit]) -> Tensor:
    """The gradients of all these units, one after the other; each unit keeps its window."""
    with record_function("gradients"):
        flat = torch.cat([unit.gradients for unit in units])
    rest = flat
    for unit in units:
        unit.gradients, rest = rest[: unit.padded], rest[unit.padded :]
        for window, p in zip(unit.windows(unit.gradients), unit.parameters, strict=True):
            p.grad = window
    return flat


class OverlappedZero1(Zero1):
    """The reduce-scatter of a unit starts as soon as backward has made its gradients; its all-gather runs while the
    next unit is updated.
    """

    def __init__(
        self, model: nn.Module, pieces: Sequence[nn.Module], *, group: dist.ProcessGroup, recipe: Recipe
    ) -> None:
        super().__init__(model, pieces, group=group, recipe=recipe)
        self.in_order = AsMade(self.trained, self.start)
        self.in_flight: list[dist.Work] = []

    def start(self, unit: Unit) -> None:
        shard = unit.part(unit.gradients)
        work = dist.reduce_scatter_single(shard, unit.gradients, op=dist.ReduceOp.AVG, group=unit.group, async_op=True)
        self.in_flight.append(work)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for number, (tokens, targets) in enumerate(micro_batches, start=1):
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                if number == len(micro_batches):
                    self.in_order.expect()
                loss.backward()
                self.in_order.settle()
            losses.append(loss.detach())

        with record_function("optimizer"):
            while self.in_flight:
                self.in_flight.pop(0).wait()
            shards = [unit.part(unit.gradients) for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
                self.in_flight.append(all_gather(unit))
            while self.in_flight:
                self.in_flight.pop(0).wait()
        return torch.stack(losses).sum()


class Reducing:
    """Reduce-scatters of buckets in flight, the oldest first, never more than `most`."""

    def __init__(self, *, most: int) -> None:
        self.most = most
        self.in_flight: deque[tuple[Unit, Tensor, dist.Work]] = deque()

    def start(self, unit: Unit) -> None:
        """The unit's bucket sets off; before there would be too many, the oldest lands."""
        if len(self.in_flight) == self.most:
            self.land()
        bucket = unit.take_bucket()
        shard = unit.part(bucket)
        work = dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group, async_op=True)
        self.in_flight.append((unit, shard, work))

    def land(self) -> None:
        """The oldest has arrived: keep the mean of our shard, let its bucket go."""
        unit, shard, work = self.in_flight.popleft()
        work.wait()
        unit.gradients += shard

    def land_all(self) -> None:
        while self.in_flight:
            self.land()


class OverlappedZero2(Zero2):
    """The reduce-scatter of a bucket runs while backward fills the next; at most `buckets` are in flight."""

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[nn.Module],
        *,
        group: dist.ProcessGroup,
        recipe: Recipe,
        buckets: int = 2,
    ) -> None:
        self.reducing = Reducing(most=buckets)
        super().__init__(model, pieces, group=group, recipe=recipe)

    def reduce(self, unit: Unit) -> None:
        self.reducing.start(unit)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
                self.in_order.settle()
                self.reducing.land_all()
            losses.append(loss.detach())

        with record_function("optimizer"):
            shards = [unit.gradients for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            gathers = []
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
                gathers.append(all_gather(unit))
            for work in gathers:
                work.wait()
        return torch.stack(losses).sum()


class OverlappedZero3(Zero3):
    """Gathers the parameters of the next pieces while this one computes, in the order of the first micro-batch.

    At most `ahead` pieces are on their way, and `buckets` reduce-scatters. Raises RuntimeError where a later
    micro-batch uses the pieces in another order.
    """

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[nn.Module],
        *,
        group: dist.ProcessGroup,
        recipe: Recipe,
        ahead: int = 1,
        buckets: int = 2,
    ) -> None:
        self.ahead, self.reducing = ahead, Reducing(most=buckets)
        self.coming: dict[Unit, dist.Work] = {}
        self.order: list[Sequence[Unit]] = []
        self.training = self.recording = False
        self.done = 0  # uses of this micro-batch so far
        super().__init__(model, pieces, group=group, recipe=recipe)

    def reduce(self, unit: Unit) -> None:
        self.reducing.start(unit)

    def gather(self, needed: Sequence[Unit]) -> None:
        """Free what is neither needed nor coming, wait for what is needed, start what is needed next."""
        for unit in self.units:
            if unit.gathered and unit not in needed and unit not in self.coming:
                unit.free()
        for unit in needed:
            if unit in self.coming:
                self.receive(unit)
            elif not unit.gathered:
                unit.gather()
        if needed and self.training:
            self.look_ahead(needed)

    def look_ahead(self, needed: Sequence[Unit]) -> None:
        """The first micro-batch notes the order of uses; every later one starts the gathers of the `ahead` next uses.
        A unit in use keeps its buffer, so there the view ahead ends.
        """
        if self.recording:
            self.order.append(needed)
            return
        if self.order[self.done : self.done + 1] != [needed]:
            raise RuntimeError(
                f"rank {dist.get_rank(self.group)}: use {self.done} of the model's pieces is another than in the first "
                "micro-batch. Parameters are gathered ahead in that order: use the pieces alike in every micro-batch"
            )
        self.done += 1
        for following in self.order[self.done : self.done + self.ahead]:
            if any(unit in needed for unit in following):
                break
            for unit in following:
                if unit not in self.coming:
                    self.send_for(unit)

    def send_for(self, unit: Unit) -> None:
        with record_function("communication"):
            unit.whole.untyped_storage().resize_(unit.padded * unit.whole.itemsize)
        self.coming[unit] = all_gather(unit)

    def receive(self, unit: Unit) -> None:
        self.coming.pop(unit).wait()
        for window, p in zip(unit.windows(unit.whole), unit.parameters, strict=True):
            p.data = window

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for tokens, targets in micro_batches:
            self.training, self.recording, self.done = True, not self.order, 0
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
                self.training = False
                self.gather([])
                self.in_order.settle()
                self.reducing.land_all()
            losses.append(loss.detach())

        with record_function("optimizer"):
            shards = [unit.gradients for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
        return torch.stack(losses).sum()


def all_gather(unit: Unit) -> dist.Work:
    """Every rank's shard into `whole`, started."""
    work: dist.Work = dist.all_gather_single(unit.whole, unit.shard, group=unit.group, async_op=True)
    return work
