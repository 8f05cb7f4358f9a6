"""Runs in the ranks: rank 1 does not use one block. The mean of the ranks' gradients is that of one process that
computes both parts. (Not ZeRO-3: there every rank must gather every piece.)
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from labs.data import global_batch
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import Recipe, whole_parameters
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2


class Skipping(GPT):
    """Leaves out its middle block while `skip` is set."""

    skip = False

    def forward(self, tokens_BS: Tensor, targets_BS: Tensor) -> Tensor:
        kept = self.pieces
        if self.skip:
            kept = [piece for piece in kept if piece is not self.blocks[1]]
        x = tokens_BS
        for piece in kept:
            x = piece(x)
        return torch.nn.functional.cross_entropy(x.flatten(0, 1), targets_BS.flatten())


def model() -> Skipping:
    return Skipping(Shape(layers=3, hidden=16, heads=2, sequence=8), seed=3, dtype=torch.float64)


if __name__ == "__main__":
    recipe = Recipe(master=torch.float64)
    worst = []
    with this.group() as group:
        for kind in (DataParallel, Zero1, Zero2):
            ours, twin = model(), model()
            strategy = kind(ours, ours.pieces, group=group, recipe=recipe)
            ours.skip = this.number() == 1
            adam = torch.optim.Adam(twin.parameters(), lr=recipe.lr, eps=recipe.eps)
            for step in range(4):
                parts = [global_batch(10 * step + part, size=2, sequence=8) for part in range(dist.get_world_size())]
                strategy.train_step([parts[this.number()], parts[this.number()]])
                adam.zero_grad()
                for part, batch in enumerate(parts):
                    twin.skip = part == 1
                    (twin(*batch) / len(parts)).backward()
                adam.step()
            with whole_parameters(strategy.units):
                pairs = zip(ours.parameters(), twin.parameters(), strict=True)
                worst.append(max((a - b).abs().max().item() for a, b in pairs))
        this.report(worst)
