from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class Copy(torch.autograd.Function):
    """f, where a whole x goes into the branches of all ranks. Your forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group  # what backward needs, forward can leave on ctx
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The gradient of x; None stands for the group."""
        raise NotImplementedError("Write SplitNetwork: cut both matrices, then write f and g in both directions.")


class Reduce(torch.autograd.Function):
    """g, where the branches of all ranks come together again."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, group: dist.ProcessGroup) -> Tensor:
        raise NotImplementedError("Write SplitNetwork: cut both matrices, then write f and g in both directions.")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        raise NotImplementedError("Write SplitNetwork: cut both matrices, then write f and g in both directions.")


class SplitNetwork(nn.Module):
    """y_BSD = gelu(x_BSD A_DF + a_F) B_FD + b_D, with F / t of the features on each of t ranks, rank 0's first.

    - up, down: the whole layers, the same on every rank. torch keeps up.weight as (F, D) and down.weight as (D, F)
    - up_weight, up_bias, down_weight, down_bias: what this rank keeps of them, as nn.Parameter. Of what is split, a
      copy of its own part (`.clone()`), so that the whole can be let go
    - group: the ranks, the group of every collective; all have the same x and must get the same y
    """

    def __init__(self, up: nn.Linear, down: nn.Linear, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        raise NotImplementedError("Write SplitNetwork: cut both matrices, then write f and g in both directions.")

    def forward(self, x_BSD: Tensor) -> Tensor:
        """F.gelu is the function between; Copy.apply(x_BSD, self.group) and Reduce.apply(...) use your f and g."""
        raise NotImplementedError("Write SplitNetwork: cut both matrices, then write f and g in both directions.")
