"""ZeRO stage 1: the optimizer states are sharded (Rajbhandari et al. 2020, section 5.1: P_os).

In data parallelism all N ranks keep the same Adam states and make the same update. Here rank r keeps the states of
the r-th shard only and updates that shard; then every rank gathers the others' results. An all-reduce is a reduce-
scatter followed by an all-gather, so the traffic is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.units import MicroBatch, Recipe, clip, units_of


class Zero1:
    """Parameters and gradients whole on every rank, optimizer states 1/N of it."""

    def __init__(
        self, model: nn.Module, pieces: Sequence[nn.Module], *, group: dist.ProcessGroup, recipe: Recipe
    ) -> None:
        self.model, self.group, self.clip = model, group, recipe.clip
        self.units = units_of(pieces, group=group)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradients()
            unit.keep_master(unit.shard, recipe)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
            losses.append(loss.detach())

        with record_function("optimizer"):
            shards = [unit.reduce_scatter(unit.gradients) for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
                unit.all_gather()
        return torch.stack(losses).sum()
