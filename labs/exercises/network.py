"""The two-layer network on which the exercises of tensor parallelism are checked, and its twin on one process.

All is float64: then a wrong value is far from rounding. Its sizes divide by 2, 3 and 4 ranks.

    B 2 examples, S 12 positions, D 6 hidden, F 24 features; a small letter is a rank's t-th, as in tensor.py
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labs.exercises.trial import generator

B, S, D, FEATURES = 2, 12, 6, 24
CUT = {"up_weight": 0, "up_bias": 0, "down_weight": 1}
"""Along which dim of torch's weight each parameter is split."""


class Network(nn.Module):
    """y_BSD = gelu(norm(x_BSD) A_DF + a_F) B_FD + b_D, without the norm where it is not asked for."""

    def __init__(self, seed: int, *, norm: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D, dtype=torch.float64) if norm else nn.Identity()
        self.up = nn.Linear(D, FEATURES, dtype=torch.float64)
        self.down = nn.Linear(FEATURES, D, dtype=torch.float64)
        chance = generator(seed, 3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=chance, dtype=torch.float64)

    def forward(self, x_BSD: Tensor) -> Tensor:
        y_BSD: Tensor = self.down(F.gelu(self.up(self.norm(x_BSD))))
        return y_BSD


def example(seed: int, step: int = 0) -> tuple[Tensor, Tensor]:
    """An input and the gradient that comes back for its output, both (B, S, D)."""
    chance = generator(seed, 4, step)
    x, grad = torch.randn(2, B, S, D, generator=chance, dtype=torch.float64)
    return x, grad


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one process, or one rank's features alone, give. `y` is without the last bias where it is one rank's."""

    y: Tensor
    x_grad: Tensor
    gradients: dict[str, Tensor]


def twin(seed: int, *, norm: bool = False, positions: slice | None = None) -> Run:
    """One process; with `positions`, the gradients are those of these positions' output only."""
    network = Network(seed, norm=norm)
    x, grad = example(seed)
    if positions is not None:
        masked = torch.zeros_like(grad)
        masked[:, positions] = grad[:, positions]
        grad = masked
    x.requires_grad_()
    y = network(x)
    y.backward(grad)
    assert x.grad is not None
    gradients = {name.replace(".", "_"): p.grad for name, p in network.named_parameters() if p.grad is not None}
    return Run(y=y.detach(), x_grad=x.grad, gradients=gradients)


def branch(seed: int, rank: int, ranks: int, *, norm: bool = False) -> Run:
    """What `rank` computes with its own features: one summand of y without the last bias, one of the gradient of x."""
    network = Network(seed, norm=norm)
    x, grad = example(seed)
    x.requires_grad_()
    up, bias, down = (part(p, name, rank, ranks) for name, p in parameters(network).items() if name in CUT)
    y = F.linear(F.gelu(F.linear(network.norm(x), up, bias)), down)
    y.backward(grad)  # type: ignore[no-untyped-call]
    assert x.grad is not None
    gradients = {f"norm_{name}": p.grad for name, p in network.norm.named_parameters() if p.grad is not None}
    return Run(y=y.detach(), x_grad=x.grad, gradients=gradients)


def parameters(network: Network) -> dict[str, Tensor]:
    """By the names that a learner's object gives them."""
    return {name.replace(".", "_"): p.detach().clone() for name, p in network.named_parameters()}


def part(whole: Tensor, name: str, rank: int, ranks: int) -> Tensor:
    """What `rank` must hold of a parameter, or of its gradient."""
    return whole.chunk(ranks, CUT[name])[rank] if name in CUT else whole


def positions(whole_BSD: Tensor, rank: int, ranks: int) -> Tensor:
    """A rank's stretch of the sequence."""
    return whole_BSD.chunk(ranks, 1)[rank]
