"""Megatron's sequence parallelism: what tensor parallelism leaves whole on every rank, split along the sequence
(Korthikanti et al. 2022, section 4.2.2).

Norms, dropout and additions treat each position by itself, so that a rank needs only its t-th of the positions there.
An all-reduce is a reduce-scatter followed by an all-gather: we put the first where a split product ends (g-bar) and
the second where the next one begins (g), and between the two every rank has s = S / t positions.

A norm's weight now sees only those: what a rank computes of its gradient is one summand, and so is that of a bias that
is added after the reduce-scatter. They are summed over the tensor axis before the optimizer's step.

    Shapes as in tensor.py:  x_BsD  gathered x_BSD  A_Df  h_BSf  B_fD  y_BsD
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from labs.strategies.tensor import ColumnParallelLinear, RowParallelLinear, VocabularyParallelEmbedding, shard_of

# --- the wires: g and g-bar


def gathered(x_BsD: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Every rank's positions, one part after the other: (B, s, D) -> (B, S, D). All-gather."""
    with record_function("communication"):
        x_tBsD = x_BsD.new_empty(dist.get_world_size(group), *x_BsD.shape)
        dist.all_gather_single(x_tBsD.flatten(0, 1), x_BsD.contiguous(), group=group)
        return x_tBsD.transpose(0, 1).flatten(1, 2)


def scattered(x_BSD: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The sum of all ranks' x, of it this rank's positions: (B, S, D) -> (B, s, D). Reduce-scatter."""
    split(x_BSD.size(1), group)
    with record_function("communication"):
        x_tBsD = torch.stack(x_BSD.chunk(dist.get_world_size(group), dim=1))
        x_BsD = torch.empty_like(x_tBsD[0])
        dist.reduce_scatter_single(x_BsD, x_tBsD.flatten(0, 1), group=group)
        return x_BsD


def split(positions: int, group: dist.ProcessGroup) -> None:
    """Raises ValueError where ranks would have unequal parts of the sequence."""
    ranks = dist.get_world_size(group)
    if positions % ranks:
        raise ValueError(
            f"rank {dist.get_rank(group)}: a sequence of {positions} positions does not divide by the {ranks} ranks of"
            f" the tensor axis. Sequence parallelism gives each rank equally many: fill the sequence up to"
            f" {positions + -positions % ranks} positions, or train without it."
        )


class Scatter(torch.autograd.Function):
    """g-bar: forward sums and keeps this rank's positions; backward gathers: each summand has the whole gradient."""

    @staticmethod
    def forward(ctx: Any, x_BSD: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return scattered(x_BSD, group)

    @staticmethod
    def backward(ctx: Any, grad_BsD: Tensor) -> tuple[Tensor, None]:
        return gathered(grad_BsD, ctx.group), None


class GatheredLinear(torch.autograd.Function):
    """g and the product after it: forward gathers all positions; backward sums and keeps this rank's (reduce-scatter).

    Of the input only this rank's positions are kept for backward, which gathers the others once more: 1 / t of the
    memory for one all-gather.
    """

    @staticmethod
    def forward(ctx: Any, x_BsD: Tensor, weight_fD: Tensor, bias_f: Tensor | None, group: dist.ProcessGroup) -> Tensor:
        ctx.group, ctx.biased = group, bias_f is not None
        ctx.save_for_backward(x_BsD, weight_fD)
        return F.linear(gathered(x_BsD, group), weight_fD, bias_f)

    @staticmethod
    def backward(ctx: Any, grad_BSf: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        x_BsD, weight_fD = ctx.saved_tensors
        grad_Nf = grad_BSf.flatten(0, 1)
        bias_f = grad_Nf.sum(0) if ctx.biased else None
        weight_grad_fD = grad_Nf.T @ gathered(x_BsD, ctx.group).flatten(0, 1)
        return scattered(grad_BSf @ weight_fD, ctx.group), weight_grad_fD, bias_f, None


# --- the layers


class SequenceColumnLinear(ColumnParallelLinear):
    """y_BSf = gathered(x_BsD) A_Df + b_f."""

    def forward(self, x_BsD: Tensor) -> Tensor:
        arguments = x_BsD, self.weight, self.bias, self.group
        y_BSf: Tensor = GatheredLinear.apply(*arguments)  # type: ignore[no-untyped-call]
        return y_BSf


class SequenceRowLinear(RowParallelLinear):
    """y_BsD = this rank's positions of the sum over ranks of h_BSf B_fD, plus b_D."""

    leave = Scatter


class SequenceEmbedding(VocabularyParallelEmbedding):
    """x_BsD: this rank's positions of the sum."""

    leave = Scatter


class SequencePositions(nn.Module):
    """The vectors of this rank's positions."""

    def __init__(self, embedding: nn.Embedding, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.weight, self.group = embedding.weight, group

    def forward(self, positions_S: Tensor) -> Tensor:
        split(len(positions_S), self.group)
        return F.embedding(positions_S.chunk(dist.get_world_size(self.group))[dist.get_rank(self.group)], self.weight)


# --- the gradients of what every rank has whole


def sum_partial_gradients(parameters: Iterable[nn.Parameter], *, group: dist.ProcessGroup) -> None:
    """Add up, over the tensor axis, the gradients of which each rank computed one summand: one all-reduce for all.

    Without it every rank would update its own copy of a norm's weight with its own positions' gradient, and the copies
    would part.
    """
    partial = [p.grad for p in parameters if shard_of(p).partial and p.grad is not None]
    if not partial:
        return
    with record_function("communication"):
        flat = torch.cat([grad.flatten() for grad in partial])
    dist.all_reduce(flat, group=group)
    for grad, total in zip(partial, torch.split(flat, [grad.numel() for grad in partial]), strict=True):
        grad.copy_(total.view_as(grad))
