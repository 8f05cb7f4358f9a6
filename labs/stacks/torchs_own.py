"""torch's own data parallelism around the labs' GPT, with the step of our strategies: DistributedDataParallel, and
FSDP2, which is `fully_shard`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from labs.runner import rank as this
from labs.strategies.units import MicroBatch, Recipe


class Trained(Protocol):
    """What torch's own and our strategies have in common: a step on this rank's micro-batches, and its mean loss."""

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor: ...


@contextmanager
def ended_first() -> Iterator[dist.ProcessGroup]:
    """The group of all ranks, for a block that keeps nothing: what it made is freed before the group.

    DDP's reducer has the group. Where it is the last that has it, freeing it waits for the group's threads while these
    wait for Python.
    """
    with this.group() as group:
        yield group
        gc.collect()


class Replicated:
    """DDP: the whole model on every rank. Gradients lie in buckets as well, from which they are all-reduced."""

    def __init__(self, model: nn.Module, *, group: dist.ProcessGroup, recipe: Recipe) -> None:
        self.model = DistributedDataParallel(model, process_group=group)
        self.adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps, fused=True)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss. Gradients are reduced after the last."""
        losses = []
        for left, (tokens, targets) in zip(reversed(range(len(micro_batches))), micro_batches, strict=True):
            with self.model.no_sync() if left else nullcontext():
                with record_function("forward"):
                    loss = self.model(tokens, targets) / len(micro_batches)
                with record_function("backward"):
                    loss.backward()
            losses.append(loss.detach())
        update(self.adam)
        return torch.stack(losses).sum()


class FullySharded:
    """FSDP2. `units` are modules, or lists of modules, each of which is gathered and freed as one; what is left of
    `model` is a unit of its own.

    `mesh` has one axis over which everything is sharded, or two: copies, and shards within a copy (HSDP).
    `reshard` as `fully_shard` takes it: True frees a unit after its forward, False after its backward, and an integer
    keeps it sharded over so many ranks in between.
    """

    def __init__(
        self,
        model: nn.Module,
        units: Sequence[nn.Module | list[nn.Module]],
        *,
        mesh: DeviceMesh,
        recipe: Recipe,
        reshard: bool | int = True,
        policy: MixedPrecisionPolicy | None = None,
        offload: OffloadPolicy | None = None,
    ) -> None:
        self.model = model
        for unit in (*units, model):
            fully_shard(
                cast("Any", unit),
                mesh=mesh,
                reshard_after_forward=reshard,
                mp_policy=policy or MixedPrecisionPolicy(),
                offload_policy=offload or OffloadPolicy(),
            )
        self.adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps, fused=True)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss. Every backward reduces its gradients."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
            losses.append(loss.detach())
        update(self.adam)
        return torch.stack(losses).sum()


def update(adam: torch.optim.Optimizer) -> None:
    """The optimizer's step; gradients go with it."""
    with record_function("optimizer"):
        with record_function("optimizer_states"):
            adam.step()
        adam.zero_grad()
