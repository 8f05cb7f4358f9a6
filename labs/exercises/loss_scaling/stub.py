from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class LossScale:
    """The factor on the loss: as large as the gradients allow, and the same on every rank.

    - self.scale: the loss of the next step is multiplied by it, so gradients come as many times too large
    - self.interval: after so many steps in a row without overflow the scale is doubled; after one with, halved
    - self.group: the ranks. Each has another part of the model, and of the gradients
    """

    def __init__(self, scale: float, *, interval: int, group: dist.ProcessGroup) -> None:
        self.scale, self.interval, self.group = scale, interval, group
        self.good = 0

    def step(self, gradients: list[Tensor], update: Callable[[list[Tensor]], None]) -> None:
        """Give `update` the true gradients, unless one of any rank's is not finite; then choose the next scale.

        - gradients: this rank's, already in high precision, scaled; infinite or NaN where fp16 had no number for them
        - update(gradients): the optimizer's step, to be called once, or not at all when the step is skipped

        All ranks skip the same steps and have the same scale.
        """
        raise NotImplementedError("Write step: unscale, decide together, update or skip, choose the scale.")
