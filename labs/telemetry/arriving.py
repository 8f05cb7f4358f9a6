"""The gradients that backward hands from layer to layer: those that 16 bits would have to hold."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def arriving(model: nn.Module, *batch: Tensor) -> Tensor:
    """Sizes of the gradients of the loss `model(*batch)` as they arrive at the output of each linear layer, without
    those that are exactly zero. The parameters' gradients are left as after any backward.
    """
    found: list[Tensor] = []

    def keep(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
        output.register_hook(lambda gradient: found.append(gradient.flatten()))  # type: ignore[no-untyped-call]

    hooks = [each.register_forward_hook(keep) for each in model.modules() if isinstance(each, nn.Linear)]
    try:
        model(*batch).backward()
    finally:
        for hook in hooks:
            hook.remove()
    sizes = torch.cat(found).abs()
    return sizes[sizes > 0]


def power_counts(sizes: Tensor) -> dict[int, int]:
    """How many of them lie from each power of two, by its exponent, to the next."""
    powers, counts = torch.unique(sizes.log2().floor().int(), return_counts=True)
    return dict(zip(powers.tolist(), counts.tolist(), strict=True))
