from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.places import Held, Place


def global_norm(held: Sequence[Held], place: Place) -> Tensor:
    """sqrt(sum of g^2) over the whole model, every parameter once: the same number on every rank."""
    squares = torch.zeros((), dtype=torch.float64)
    for each in held:
        # What all tensor ranks have whole, the first of them counts; what two stages have, the one whose own it is.
        counts = (each.split or place.number["tensor"] == 0) and not each.copy
        if counts:
            squares += each.gradient.double().square().sum()

    # Parts and stages add up. Data ranks hold the same gradient: to sum over them, too, would count it dp times.
    for axis in ("tensor", "pipeline"):
        dist.all_reduce(squares, group=place.group[axis])

    # Squares add up, norms do not: the root comes last.
    return squares.sqrt()
