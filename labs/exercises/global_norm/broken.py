from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.places import Held, Place


def global_norm(held: Sequence[Held], place: Place) -> Tensor:
    """sqrt(sum of g^2) over the whole model, every parameter once: the same number on every rank."""
    squares = torch.zeros((), dtype=torch.float64)
    for each in held:
        counts = (each.split or place.number["tensor"] == 0) and not each.copy
        if counts:
            squares += each.gradient.double().square().sum()

    # Whatever the layout, the norm of everything is the sum over everyone.
    dist.all_reduce(squares)
    return squares.sqrt()
