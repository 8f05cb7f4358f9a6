"""Data parallelism: every rank holds the whole model and trains it on its own part of the batch (stage 0 of ZeRO).

Since gradients are means over examples, the mean of the ranks' gradients is the gradient of the whole batch; every
rank then takes the same optimizer step and all copies of the model stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.units import MicroBatch, Recipe, clip, units_of


class NaiveDataParallel:
    """One all-reduce for each parameter's gradient: right, and slow where there are many small ones."""

    def __init__(self, model: nn.Module, *, group: dist.ProcessGroup, recipe: Recipe) -> None:
        self.model, self.group, self.clip = model, group, recipe.clip
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        with record_function("optimizer_states"):
            self.masters = [p.detach().to(recipe.master).requires_grad_() for p in self.parameters]
        self.adam = torch.optim.Adam(self.masters, lr=recipe.lr, eps=recipe.eps, fused=True)

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
            gradients = []
            for p in self.parameters:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, group=self.group)
                gradients.append(p.grad)
            clip(gradients, self.clip, group=None)
            for p, master in zip(self.parameters, self.masters, strict=True):
                assert p.grad is not None
                master.grad, p.grad = p.grad.to(master.dtype), None
            with record_function("optimizer_states"):
                self.adam.step()
            for p, master in zip(self.parameters, self.masters, strict=True):
                master.grad = None
                p.data.copy_(master.detach())
        return torch.stack(losses).sum()


class DataParallel:
    """Gradients lie in one flat bucket for each unit of the model: one all-reduce moves them all."""

    def __init__(
        self, model: nn.Module, pieces: Sequence[nn.Module], *, group: dist.ProcessGroup, recipe: Recipe
    ) -> None:
        self.model, self.group, self.clip = model, group, recipe.clip
        self.units = units_of(pieces, group=group)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradients()
            unit.keep_master(unit.whole, recipe)

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
            for unit in self.trained:
                unit.all_reduce()
            clip([unit.gradients for unit in self.trained], self.clip, group=None)
            for unit in self.trained:
                unit.update(unit.gradients)
        return torch.stack(losses).sum()
