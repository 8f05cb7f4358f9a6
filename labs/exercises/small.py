"""The small model on which the exercises of ZeRO are checked, and its twin: the same training in one process.

Its pieces have 42, 49, 56 and 24 parameters, so that every number of ranks above 1 meets a buffer that does not divide.
All is float64: then a wrong value is far from rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labs.exercises.trial import generator
from labs.strategies.units import Recipe

RECIPE = Recipe(lr=0.05, eps=1e-6, master=torch.float64)
EXAMPLES = 2
"""In one micro-batch."""
OPTIONAL = 2
"""The number of the piece that some micro-batches do not use."""
MicroBatch = tuple[Tensor, Tensor]


class Piece(nn.Module):
    """A linear layer and tanh."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


class Small(nn.Module):
    """Four pieces, the third unused where the first feature of a micro-batch is negative. Gives the mean loss."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.pieces = nn.ModuleList([Piece(5, 7), Piece(7, 7, bias=False), Piece(7, 7), Piece(7, 3)])
        chance = generator(seed, 1)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=chance, dtype=torch.float64) * 0.5

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        unused = bool(x[0, 0] < 0)
        for number, piece in enumerate(self.pieces):
            if not (unused and number == OPTIONAL):
                x = piece(x)
        return F.mse_loss(x, y)

    @property
    def sizes(self) -> list[int]:
        return [sum(p.numel() for p in piece.parameters()) for piece in self.pieces]


def micro_batches(*, seed: int, step: int, rank: int, count: int, skipping: Sequence[int] = ()) -> Sequence[MicroBatch]:
    """A rank's micro-batches of one step. On the ranks in `skipping` the first does not use the optional piece."""
    made = []
    for number in range(count):
        chance = generator(seed, 2, step, rank, number)
        x = torch.randn(EXAMPLES, 5, generator=chance, dtype=torch.float64)
        y = torch.randn(EXAMPLES, 3, generator=chance, dtype=torch.float64)
        x[0, 0] = -1.0 if rank in skipping and number == 0 else 1.0
        made.append((x, y))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the twin. Lists have a flat tensor for each piece.

    local[rank][micro_batch]   the gradient of that micro-batch's loss divided by their number
    mean                       what all ranks must hold: the gradient of the mean loss over all examples
    before, after              parameters
    """

    local: list[list[list[Tensor]]]
    mean: list[Tensor]
    before: list[Tensor]
    after: list[Tensor]

    def own(self, rank: int, piece: int) -> Tensor:
        """A rank's gradient before any communication."""
        return torch.stack([micro[piece] for micro in self.local[rank]]).sum(0)

    def mean_of(self, micro_batches: Sequence[int], piece: int) -> Tensor:
        """The mean over ranks of only these micro-batches."""
        return torch.stack([sum_of([rank[m][piece] for m in micro_batches]) for rank in self.local]).mean(0)


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).sum(0)


def twin(*, seed: int, ranks: int, count: int, steps: int, skipping: Sequence[int] = ()) -> list[Step]:
    """The training of one process that sees every example."""
    model = Small(seed)
    adam = torch.optim.Adam(model.parameters(), lr=RECIPE.lr, eps=RECIPE.eps)
    told = []
    for step in range(steps):
        before = flat(model)
        local = [
            [
                gradients(model, batch, count)
                for batch in micro_batches(seed=seed, step=step, rank=rank, count=count, skipping=skipping)
            ]
            for rank in range(ranks)
        ]
        mean = [
            torch.stack([sum_of([micro[piece] for micro in rank]) for rank in local]).mean(0)
            for piece in range(len(before))
        ]
        for piece, whole in zip(model.pieces, mean, strict=True):
            offset = 0
            for p in piece.parameters():
                p.grad = whole[offset : offset + p.numel()].view_as(p).clone()
                offset += p.numel()
        adam.step()
        told.append(Step(local=local, mean=mean, before=before, after=flat(model)))
    return told


def flat(model: Small) -> list[Tensor]:
    """Each piece's parameters, one after the other: a copy."""
    return [torch.cat([p.detach().flatten() for p in piece.parameters()]).clone() for piece in model.pieces]


def gradients(model: Small, batch: MicroBatch, count: int) -> list[Tensor]:
    """Each piece's gradient of this micro-batch's loss divided by `count`; zeros where it was not used."""
    parameters = list(model.parameters())
    found = torch.autograd.grad(model(*batch) / count, parameters, allow_unused=True)
    by_id = {id(p): torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)}
    return [torch.cat([by_id[id(p)].flatten() for p in piece.parameters()]) for piece in model.pieces]


def padded(whole: Tensor, ranks: int) -> Tensor:
    """With zeros at the end, to a multiple of the ranks."""
    return F.pad(whole, (0, -whole.numel() % ranks))


def shard(whole: Tensor, rank: int, ranks: int) -> Tensor:
    """Rank r's part of the padded buffer."""
    return padded(whole, ranks).chunk(ranks)[rank]
