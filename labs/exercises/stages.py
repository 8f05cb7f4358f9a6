"""The small pipeline on which the exercises of pipelines are checked, and its twin: the same on one process.

One layer a stage, all of the same width. In float64: then a wrong value is far from rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from labs.exercises.trial import generator

EXAMPLES, WIDTH = 2, 5
"""Of a micro-batch."""
SHAPE = (EXAMPLES, WIDTH)


class Layer(nn.Module):
    """tanh(x A^T + b)"""

    def __init__(self, seed: int, number: int) -> None:
        super().__init__()
        chance = generator(seed, 5, number)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=chance, dtype=torch.float64) * 0.6)
        self.bias = nn.Parameter(torch.randn(WIDTH, generator=chance, dtype=torch.float64) * 0.6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(F.linear(x, self.weight, self.bias))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One rank of a pipeline. `shared` is the weight that the first and the last stage both use, on these two, and
    `pair` the group of the two; None elsewhere, and where no weight is shared.
    """

    number: int
    stages: int
    chunk: nn.Module
    inputs: Sequence[Tensor]
    losses: Sequence[Callable[[Tensor], Tensor]]
    shape: tuple[int, ...]
    group: dist.ProcessGroup
    shared: nn.Parameter | None = None
    pair: dist.ProcessGroup | None = None


def layers(seed: int, stages: int, *, shared: bool) -> list[Layer]:
    """The stages' layers. With `shared` the last begins with a copy of the first one's weight."""
    made = [Layer(seed, number) for number in range(stages)]
    if shared:
        made[-1].weight = nn.Parameter(made[0].weight.detach().clone())
    return made


def micro_batches(seed: int, count: int) -> tuple[list[Tensor], list[Callable[[Tensor], Tensor]]]:
    """Inputs of the first stage, and the mean loss of each micro-batch from what the last stage makes."""
    chance = generator(seed, 6)
    inputs = [torch.randn(SHAPE, generator=chance, dtype=torch.float64) for _ in range(count)]
    targets = [torch.randn(SHAPE, generator=chance, dtype=torch.float64) for _ in range(count)]
    return inputs, [partial(F.mse_loss, target=target) for target in targets]


def stage(seed: int, *, micro: int, shared: bool, group: dist.ProcessGroup) -> Stage:
    """This rank's."""
    number, stages = dist.get_rank(group), dist.get_world_size(group)
    mine = layers(seed, stages, shared=shared)[number]
    inputs, losses = micro_batches(seed, micro)
    at_an_end = shared and number in (0, stages - 1)
    ends = sorted({0, stages - 1})
    return Stage(
        number=number,
        stages=stages,
        chunk=mine,
        inputs=inputs if number == 0 else [],
        losses=losses if number == stages - 1 else [],
        shape=SHAPE,
        group=group,
        shared=mine.weight if at_an_end else None,
        pair=dist.new_group(ends, use_local_synchronization=True) if at_an_end else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Of one process: the loss of each micro-batch, and gradients[stage][parameter][micro-batch] of the mean loss, a
    shared weight's apart for each of its two copies.
    """

    losses: list[float]
    gradients: list[dict[str, list[Tensor]]]

    def gradient(self, stage: int, name: str, *, shared: bool = False) -> Tensor:
        """What the rank must hold: the sum over micro-batches, and over both copies of a shared weight."""
        ends = (0, len(self.gradients) - 1)
        stages = ends if shared and stage in ends and name == "weight" else (stage,)
        return torch.stack([each for number in stages for each in self.gradients[number][name]]).sum(0)


def twin(seed: int, *, stages: int, micro: int, shared: bool) -> Truth:
    """One process that sees every micro-batch."""
    made = layers(seed, stages, shared=shared)
    inputs, losses = micro_batches(seed, micro)
    told: list[float] = []
    gradients: list[dict[str, list[Tensor]]] = [{"weight": [], "bias": []} for _ in made]
    for x, loss in zip(inputs, losses, strict=True):
        y = x
        for layer in made:
            y = layer(y)
        own = loss(y) / micro
        told.append(own.item() * micro)
        parameters = [p for layer in made for p in (layer.weight, layer.bias)]
        for place, gradient in enumerate(torch.autograd.grad(own, parameters)):
            gradients[place // 2]["bias" if place % 2 else "weight"].append(gradient)
    return Truth(losses=told, gradients=gradients)
