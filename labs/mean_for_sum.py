"""The tensor lab with a fault planted in it, an ordinary torchrun script: `torchrun --nproc-per-node 2
labs/mean_for_sum.py`. Someone who comes from data parallelism takes the mean over the ranks in the backward of f, where
a sum belongs. The first loss is right; a lesson tells the rest from rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from labs import runner, training
from labs.options.tensor import TensorOptions
from labs.strategies import tensor
from labs.tensor import train


def averaged(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    """What stands in the place of `tensor.Copy.backward`."""
    return tensor.summed(grad, ctx.group) / dist.get_world_size(ctx.group), None


def losses(*, ranks: int, **options: Any) -> list[float]:
    """The losses of a run with the fault; options as of `lab run tensor`."""
    run = runner.run(Path(__file__), ranks=ranks, arguments=TensorOptions(**options).arguments())
    found: list[float] = run.ranks[0].value["losses"]
    return found


if __name__ == "__main__":
    tensor.Copy.backward = staticmethod(averaged)  # type: ignore[method-assign]
    training.main(TensorOptions, train)
