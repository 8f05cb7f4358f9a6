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
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")

    @staticmethod
    def backward(ctx: Any, grad_SBD: Tensor) -> tuple[Tensor, None]:
        """(s, B, D): the gradient of this rank's positions."""
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")


class Scatter(torch.autograd.Function):
    """g-bar, where the branches come together and each rank goes on with its own positions."""

    @staticmethod
    def forward(ctx: Any, y_SBD: Tensor, group: dist.ProcessGroup) -> Tensor:
        """(s, B, D): this rank's positions of the sum over ranks."""
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")

    @staticmethod
    def backward(ctx: Any, grad_sBD: Tensor) -> tuple[Tensor, None]:
        """(S, B, D): the gradient of this rank's summand."""
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")


class SequenceNetwork(nn.Module):
    """y = gelu(norm(x) A + a) B + b, where a rank has s = S / t positions outside of the products and F / t features
    inside.

    The sequence is the first dimension here, x_sBD and y_sBD, so that collectives need no copies.
    - up_weight (f, D), up_bias (f), down_weight (D, f): this rank's part
    - norm_weight, norm_bias, down_bias (D): whole on every rank, and the same
    - group: the ranks, the group of every collective
    """

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
        """F.layer_norm(x, x.shape[-1:], weight, bias) is the norm, F.gelu the function between the products."""
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")

    def finish_gradients(self) -> None:
        """Called after backward, before the optimizer: make each .grad what one process would have."""
        raise NotImplementedError("Write SequenceNetwork: gather, scatter, and sum what only saw s positions.")
