from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class LossScale:
    """The factor on the loss: as large as the gradients allow, and the same on every rank."""

    def __init__(self, scale: float, *, interval: int, group: dist.ProcessGroup) -> None:
        self.scale, self.interval, self.group = scale, interval, group
        self.good = 0

    def step(self, gradients: list[Tensor], update: Callable[[list[Tensor]], None]) -> None:
        """Give `update` the true gradients, unless one of any rank's is not finite; then choose the next scale."""
        for gradient in gradients:
            gradient /= self.scale

        # One rank's overflow is everybody's: all skip, or parameters of two different steps would meet.
        overflow = torch.tensor(float(not all(gradient.isfinite().all() for gradient in gradients)))
        dist.all_reduce(overflow, op=dist.ReduceOp.MAX, group=self.group)

        # Too large: half of it, and the count begins anew.
        if overflow:
            self.scale, self.good = self.scale / 2, 0
            return
        update(gradients)

        # Large enough for a while: perhaps twice as much will do.
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0
