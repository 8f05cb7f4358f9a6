"""Gradients at the outputs of linear layers are those that backward computes, and are counted by powers of two."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.telemetry.arriving import arriving, power_counts


class Two(nn.Module):
    """A loss whose gradients at both layers are known by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.first.weight.data = torch.eye(2)
        self.second.weight.data = torch.tensor([[0.0, 4.0], [0.0, 0.5]])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x))
        return (y * torch.tensor([0.25, -8.0])).sum()


def test_gradients_arrive_at_the_output_of_each_linear_layer_and_hooks_are_gone() -> None:
    model = Two()
    sizes = arriving(model, torch.ones(1, 2))
    # At the second layer 0.25 and -8; at the first nothing for the unused feature, 4 x 0.25 - 0.5 x 8 for the other.
    assert sorted(sizes.tolist()) == [0.25, 3.0, 8.0]
    assert not any(layer._forward_hooks for layer in model.modules())


def test_powers_are_counted_from_each_to_the_next() -> None:
    assert power_counts(torch.tensor([0.25, 0.49, 0.5, 3.0, 8.0])) == {-2: 2, -1: 1, 1: 1, 3: 1}
