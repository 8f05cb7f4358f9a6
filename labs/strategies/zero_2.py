"""ZeRO stage 2: the gradients are sharded as well (Rajbhandari et al. 2020, section 5.2: P_os+g).

Rank r updates only its shard, so it needs only that shard of the gradients. As soon as backward has made all
gradients of a unit, they are reduced to their shards and the whole ones are let go. With k micro-batches this happens
k times: whole gradients are never kept from one to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.units import InOrder, MicroBatch, Recipe, Unit, clip, units_of


class Zero2:
    """Parameters whole on every rank, gradients and optimizer states 1/N of it."""

    def __init__(
        self, model: nn.Module, pieces: Sequence[nn.Module], *, group: dist.ProcessGroup, recipe: Recipe
    ) -> None:
        self.model, self.group, self.clip = model, group, recipe.clip
        self.units = units_of(pieces, group=group)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradient_shard()
            unit.keep_master(unit.shard, recipe)
        self.in_order = InOrder(self.trained, self.reduce)

    def reduce(self, unit: Unit) -> None:
        """Backward has made all gradients of this unit: keep the mean of our shard, let the rest go."""
        unit.gradients += unit.reduce_scatter(unit.take_bucket())

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
                self.in_order.settle()
            losses.append(loss.detach())

        with record_function("optimizer"):
            shards = [unit.gradients for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
                unit.all_gather()
        return torch.stack(losses).sum()
