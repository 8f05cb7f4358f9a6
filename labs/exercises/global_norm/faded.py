from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.places import Held, Place


def global_norm(held: Sequence[Held], place: Place) -> Tensor:
    """sqrt(sum of g^2) over the whole model, every parameter once: the same number on every rank."""
    squares = torch.zeros((), dtype=torch.float64)
    for each in held:
        # Gap 1. Which rule does this line keep? Several ranks hold the same whole gradient, two stages the same weight.
        counts = True
        if counts:
            squares += each.gradient.double().square().sum()

    # Gap 2. Along which axes do the ranks hold different parts of the model?
    axes: tuple[str, ...] = ()
    for axis in axes:
        dist.all_reduce(squares, group=place.group[axis])

    # Squares add up, norms do not: the root comes last.
    return squares.sqrt()
