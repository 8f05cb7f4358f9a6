"""ZeRO stage 3: the parameters are sharded as well (Rajbhandari et al. 2020, section 5.3: P_os+g+p).

Between uses rank r holds only its shard. A piece's parameters are gathered from all ranks right before its forward
and freed right after, and again for its backward: each rank still computes with whole matrices, on its own examples.
What is sharded is where the values rest, not the computation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.units import InOrder, MicroBatch, Recipe, Unit, clip, units_of, units_with


class Zero3:
    """Parameters, gradients and optimizer states 1/N of it; whole parameters for one piece at a time.

    All ranks must run the same pieces in the same order: gathering one is a collective.
    """

    def __init__(
        self, model: nn.Module, pieces: Sequence[nn.Module], *, group: dist.ProcessGroup, recipe: Recipe
    ) -> None:
        self.model, self.group, self.clip = model, group, recipe.clip
        self.units = units_of(pieces, group=group)
        self.trained = [unit for unit in self.units if unit.trainable]
        needs = {piece: units_with(piece, self.units) for piece in pieces}
        for unit in self.units:
            unit.keep_shard()
        for unit in self.trained:
            unit.keep_gradient_shard()
            unit.keep_master(unit.shard, recipe)
        self.in_order = InOrder(self.trained, self.reduce)
        for piece in pieces:
            piece.register_forward_pre_hook(lambda piece, _: self.gather(needs[piece]))
            piece.register_forward_hook(lambda piece, _, output: self.after_forward(output, needs[piece]))

    def after_forward(self, output: Tensor, needed: Sequence[Unit]) -> None:
        """Free the piece; when backward comes back to its output, gather it again."""
        self.gather([])
        if output.requires_grad:
            output.register_hook(lambda _: self.gather(needed))  # type: ignore[no-untyped-call]

    def gather(self, needed: Sequence[Unit]) -> None:
        """Free what is not needed now, gather what is."""
        for unit in self.units:
            if unit.gathered and unit not in needed:
                unit.free()
        for unit in needed:
            if not unit.gathered:
                unit.gather()

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
                self.gather([])
                self.in_order.settle()
            losses.append(loss.detach())

        with record_function("optimizer"):
            shards = [unit.gradients for unit in self.trained]
            clip(shards, self.clip, group=self.group)
            for unit, shard in zip(self.trained, shards, strict=True):
                unit.update(shard)
        return torch.stack(losses).sum()
