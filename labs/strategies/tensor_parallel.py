"""The course's GPT split over the tensor axis, from outside, and its training step.

All ranks of the axis see the same examples and compute the same loss. What a rank holds of a matrix it also trains: its
own gradients, its own Adam states, no collective for them. What every rank has whole (norms, biases that are added
after a sum, positions) gets the same gradient everywhere, and stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.sequence import (
    SequenceColumnLinear,
    SequenceEmbedding,
    SequencePositions,
    SequenceRowLinear,
    sum_partial_gradients,
)
from labs.strategies.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    Shard,
    VocabularyParallelEmbedding,
    divides,
    joined,
    parallel_loss,
    shard_of,
)
from labs.strategies.units import MicroBatch, Recipe

Model = TypeVar("Model", bound=nn.Module)
Plan = dict[str, Callable[..., nn.Module]]


def plan(*, sequence: bool) -> Plan:
    """What takes the place of the model's modules, by their names in it."""
    column, row = (SequenceColumnLinear, SequenceRowLinear) if sequence else (ColumnParallelLinear, RowParallelLinear)
    layers: Plan = {
        "token": SequenceEmbedding if sequence else VocabularyParallelEmbedding,
        "qkv": partial(column, sections=3),
        "out": row,
        "up": column,
        "down": row,
        "linear": partial(column, filled=True),
    }
    return layers | {"position": SequencePositions} if sequence else layers


def parallelize(model: Model, *, group: dist.ProcessGroup, sequence: bool = False) -> Model:
    """Split a GPT, or any pieces of one, over the ranks of `group`, in place; `sequence` adds sequence parallelism.

    Every rank must come with the same whole model. Parameters stay the same objects under the same names; `shards`
    tells how each lies. Ranks must draw the same random numbers for dropout on what they all have whole. Raises
    ValueError where the heads do not divide by the ranks, or where the model is split already.
    """
    for module in list(model.modules()):
        if isinstance(module, ColumnParallelLinear | RowParallelLinear | VocabularyParallelEmbedding):
            raise ValueError(f"rank {dist.get_rank(group)}: this model is split over a tensor axis already")
        if hasattr(module, "qkv"):
            attention: Any = module
            divides(attention.heads, "heads", group=group)
            attention.heads //= dist.get_world_size(group)
    layers = plan(sequence=sequence)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in layers:
                setattr(module, name, layers[name](child, group=group))
    for parameter in model.parameters():
        if not hasattr(parameter, "shard"):
            parameter.shard = Shard(partial=sequence)  # type: ignore[attr-defined]
    if hasattr(model, "loss"):
        whole_model: Any = model
        whole_model.loss = loss_of(model, group=group)
    return model


def loss_of(model: nn.Module, *, group: dist.ProcessGroup) -> Callable[[Tensor, Tensor], Tensor]:
    """logits (N, v) and targets (N) -> the mean loss, for a split model or the piece of it that has the head."""
    heads: list[Any] = [module for module in model.modules() if hasattr(module, "linear")]
    return partial(parallel_loss, group=group, vocabulary=shard_of(heads[-1].linear.weight).size)


# --- the model as a whole


def shards(model: nn.Module) -> dict[str, Shard]:
    """How each parameter lies on the tensor axis, by name; tied weights under the first of their names."""
    return {name: shard_of(p) for name, p in model.named_parameters()}


def whole(model: nn.Module, *, group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Every parameter whole, by name, the same on every rank."""
    return {name: whole_of(p.detach(), shard_of(p), group=group) for name, p in model.named_parameters()}


def whole_of(mine: Tensor, shard: Shard, *, group: dist.ProcessGroup) -> Tensor:
    """A whole tensor from every rank's part of it: a parameter, its gradient, or a moment of Adam's."""
    if shard.dim is None:
        return mine
    parts = [torch.empty_like(mine, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
    with record_function("report"):
        dist.all_gather(parts, mine.contiguous(), group=group)
    return joined(parts, shard)


# --- the optimizer's step


class TensorParallel:
    """Every rank trains its part of every matrix on the whole batch, with Adam over what it holds."""

    def __init__(self, model: nn.Module, *, group: dist.ProcessGroup, recipe: Recipe, sequence: bool = False) -> None:
        self.model, self.group, self.clip = parallelize(model, group=group, sequence=sequence), group, recipe.clip
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        with record_function("gradients"):
            for p in self.parameters:
                p.grad = torch.zeros_like(p)
        with record_function("optimizer_states"):
            self.masters = [p.detach().to(recipe.master).requires_grad_() for p in self.parameters]
        self.adam = torch.optim.Adam(self.masters, lr=recipe.lr, eps=recipe.eps, fused=True)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on micro-batches that all ranks share; their mean loss, the same on every rank."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
            losses.append(loss.detach())

        with record_function("optimizer"):
            sum_partial_gradients(self.parameters, group=self.group)
            if self.clip is not None:
                clip(self.parameters, self.clip, group=self.group)
            self.update()
        return torch.stack(losses).sum()

    def update(self) -> None:
        """One Adam step on the master copies; the parameters take their values, rounded."""
        for p, master in zip(self.parameters, self.masters, strict=True):
            assert p.grad is not None
            with record_function("temporary"):
                master.grad = p.grad.to(master.dtype)
        with record_function("optimizer_states"):
            self.adam.step()
        for p, master in zip(self.parameters, self.masters, strict=True):
            assert p.grad is not None
            master.grad = None
            p.grad.zero_()
            if p.dtype != master.dtype:
                p.data.copy_(master.detach())


def squares(parameters: Sequence[nn.Parameter], *, group: dist.ProcessGroup) -> Tensor:
    """The sum of squares of the whole gradient: what is split counts on every rank, and what all have whole once."""
    grads = [(p.grad, shard_of(p).dim is not None) for p in parameters if p.grad is not None]
    precision = torch.float64 if grads[0][0].dtype == torch.float64 else torch.float32
    norms = [(torch.linalg.vector_norm(grad, dtype=precision), is_split) for grad, is_split in grads]
    zero = torch.zeros((), dtype=precision, device=grads[0][0].device)
    mine = sum((norm**2 for norm, is_split in norms if is_split), start=zero)
    with record_function("clipping"):
        dist.all_reduce(mine, group=group)
    return mine + sum((norm**2 for norm, is_split in norms if not is_split), start=zero)


def clip(parameters: Sequence[nn.Parameter], limit: float, *, group: dist.ProcessGroup) -> None:
    """Scale all gradients so that the norm of the whole gradient is at most `limit`."""
    scale = (limit / (squares(parameters, group=group).sqrt() + 1e-6)).clamp(max=1.0)
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(scale)
