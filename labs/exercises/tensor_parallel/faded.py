from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class Copy(torch.autograd.Function):
    """f, where a whole x goes into the branches of all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # x went into t branches. What each of them sends back is one summand of its gradient.
        grad = grad.clone()
        # Gap 2. Which rule does the missing line keep? After it, every rank has the gradient of the whole x.
        return grad, None


class Reduce(torch.autograd.Function):
    """g, where the branches of all ranks come together again."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, group: dist.ProcessGroup) -> Tensor:
        y = y.clone()
        # Gap 1. Which rule does the missing line keep? After it, every rank has all features' share of y.
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # The derivative of a sum by each summand is 1, and every rank has the whole gradient of the sum already.
        return grad, None


class SplitNetwork(nn.Module):
    """y_BSD = gelu(x_BSD A_DF + a_F) B_FD + b_D, with F / t of the features on each of t ranks, rank 0's first."""

    def __init__(self, up: nn.Linear, down: nn.Linear, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        # The columns of A are the rows of up.weight. gelu acts on each feature alone, so nothing is exchanged there.
        self.up_weight = nn.Parameter(up.weight.detach().chunk(ranks, 0)[rank].clone())
        self.up_bias = nn.Parameter(up.bias.detach().chunk(ranks, 0)[rank].clone())
        # The rows of B that meet these features.
        self.down_weight = nn.Parameter(down.weight.detach().chunk(ranks, 1)[rank].clone())
        self.down_bias = nn.Parameter(down.bias.detach().clone())

    def forward(self, x_BSD: Tensor) -> Tensor:
        h_BSf = F.gelu(F.linear(Copy.apply(x_BSD, self.group), self.up_weight, self.up_bias))
        # The bias is added once, after the sum: before it, t ranks would add it t times.
        return Reduce.apply(F.linear(h_BSf, self.down_weight), self.group) + self.down_bias
