from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.places import Held, Place


def global_norm(held: Sequence[Held], place: Place) -> Tensor:
    """sqrt(sum of g^2) over the whole model, every parameter once: the same number on every rank.

    - held: what this rank holds of the gradient, a list
    - each.gradient: a tensor, already the mean over data ranks
    - each.split: True for this rank's part, of which each tensor rank has another; False for what they all have whole
    - each.copy: True on the last stage for the weight that the first has as well, with the same gradient; False there
    - place.number: this rank's number on each axis, place.number["tensor"] and so on
    - place.group: its group along each axis, "data", "pipeline" and "tensor"

    Returns a tensor of one number (shape ()), in float64.
    """
    raise NotImplementedError("Write global_norm: count each square once, sum over the right axes, take the root.")
