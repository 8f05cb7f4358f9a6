from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class Gather(torch.autograd.Function):
    """g, where the ranks' positions go into the branches of all ranks."""

    @staticmethod
    def forward(ctx: Any, x_sBD: Tensor, group: dist.ProcessGroup) -> Tensor:
        """(S, B, D): every rank's positions, rank 0's first."""
        ctx.group = group
        x_SBD = x_sBD.new_empty(dist.get_world_size(group) * len(x_sBD), *x_sBD.shape[1:])
        dist.all_gather_single(x_SBD, x_sBD.contiguous(), group=group)
        return x_SBD

    @staticmethod
    def backward(ctx: Any, grad_SBD: Tensor) -> tuple[Tensor, None]:
        """(s, B, D): the gradient of this rank's positions."""
        # Every rank's branch has seen all positions: each has a summand of the gradient of mine.
        grad_sBD = grad_SBD.new_zeros(len(grad_SBD) // dist.get_world_size(ctx.group), *grad_SBD.shape[1:])
        # Gap 1. Which rule does the missing line keep? After it, the gradient of my positions is whole.
        return grad_sBD, None


class Scatter(torch.autograd.Function):
    """g-bar, where the branches come together and each rank goes on with its own positions."""

    @staticmethod
    def forward(ctx: Any, y_SBD: Tensor, group: dist.ProcessGroup) -> Tensor:
        """(s, B, D): this rank's positions of the sum over ranks."""
        ctx.group = group
        y_sBD = y_SBD.new_empty(len(y_SBD) // dist.get_world_size(group), *y_SBD.shape[1:])
        dist.reduce_scatter_single(y_sBD, y_SBD.contiguous(), group=group)
        return y_sBD

    @staticmethod
    def backward(ctx: Any, grad_sBD: Tensor) -> tuple[Tensor, None]:
        """(S, B, D): the gradient of this rank's summand."""
        # My summand went into the sums of all positions, and other ranks have the gradients of theirs.
        grad_SBD = grad_sBD.new_empty(dist.get_world_size(ctx.group) * len(grad_sBD), *grad_sBD.shape[1:])
        dist.all_gather_single(grad_SBD, grad_sBD.contiguous(), group=ctx.group)
        return grad_SBD, None


class SequenceNetwork(nn.Module):
    """y = gelu(norm(x) A + a) B + b, with s = S / t positions outside of the products and F / t features inside."""

    def __init__(self, norm: nn.LayerNorm, up: nn.Linear, down: nn.Linear, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        self.up_weight = nn.Parameter(up.weight.detach().chunk(ranks, 0)[rank].clone())
        self.up_bias = nn.Parameter(up.bias.detach().chunk(ranks, 0)[rank].clone())
        self.down_weight = nn.Parameter(down.weight.detach().chunk(ranks, 1)[rank].clone())
        self.norm_weight = nn.Parameter(norm.weight.detach().clone())
        self.norm_bias = nn.Parameter(norm.bias.detach().clone())
        self.down_bias = nn.Parameter(down.bias.detach().clone())

    def forward(self, x_sBD: Tensor) -> Tensor:
        normed_sBD = F.layer_norm(x_sBD, x_sBD.shape[-1:], self.norm_weight, self.norm_bias)
        h_SBf = F.gelu(F.linear(Gather.apply(normed_sBD, self.group), self.up_weight, self.up_bias))
        return Scatter.apply(F.linear(h_SBf, self.down_weight), self.group) + self.down_bias

    def finish_gradients(self) -> None:
        """Called after backward, before the optimizer: make each .grad what one process would have."""
        # These three met this rank's positions only. The matrices saw them all, and their features are nobody else's.

        # Gap 2. Which rule do the missing lines keep? After them, the ranks' copies stay one model.
