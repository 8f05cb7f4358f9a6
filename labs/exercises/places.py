"""What a rank of a 3D mesh holds of a model's gradient, and its place: for exercises about where axes meet."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import generator
from labs.strategies.layout import AXES, Layout
from labs.strategies.parallel import mesh_of

SIZES = ((8, 6), (8,), (4, 6), (4,))
"""The parameters of every stage: the first and the third are split over the tensor axis along dim 0."""
TIED = (8, 4)
"""A weight that the first and the last stage have, split as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A gradient as a rank holds it, already the mean over data ranks.

    split   this rank has its part; each tensor rank has another. Else every tensor rank has the same whole
    copy    on the last stage, of the weight that the first has as well, with the same gradient; False on the first
    """

    gradient: Tensor
    split: bool
    copy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank stands: its number on each axis, "data", "pipeline" and "tensor", and its group along each."""

    number: dict[str, int]
    group: dict[str, dist.ProcessGroup]


def place_of(layout: Layout) -> Place:
    """The rank's place, once every rank has all its groups: who asks nothing of others could else be gone while a
    slower rank still connects to it, and that one would be told that it hangs.
    """
    mesh = mesh_of(layout, device="cpu")
    dist.barrier()
    return Place(number=layout.coordinates(dist.get_rank()), group={axis: mesh.get_group(axis) for axis in AXES})


def whole(seed: int, stage: int, number: int) -> Tensor:
    """The gradient of a stage's parameter; the tied one has the number of all and is the same on both stages."""
    tied = number == len(SIZES)
    shape = TIED if tied else SIZES[number]
    chance = generator(seed, 9, 0 if tied else stage, number)
    return torch.randn(shape, generator=chance, dtype=torch.float64)


def held(seed: int, layout: Layout, rank: int) -> list[Held]:
    """What a rank holds: its stage's parameters, and at both ends of a pipeline the tied weight."""
    here, last = layout.coordinates(rank), layout.pp - 1
    stage = here["pipeline"]
    found = []
    for number in range(len(SIZES) + (stage in (0, last))):
        gradient, split = whole(seed, stage, number), number != 1 and number != 3
        mine = gradient.chunk(layout.tp)[here["tensor"]].clone() if split else gradient
        found.append(Held(gradient=mine, split=split, copy=number == len(SIZES) and stage == last > 0))
    return found
