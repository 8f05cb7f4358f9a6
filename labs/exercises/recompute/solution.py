from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


def recompute(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """y = function(x), of which backward finds nothing but x: it runs function again, with the same random numbers."""
    random = torch.get_rng_state()
    saved = 0
    again: list[Tensor] = []

    # Autograd saves a tensor: it gets a number instead, and the tensor goes.
    def pack(_: Tensor) -> int:
        nonlocal saved
        saved += 1
        return saved - 1

    # Backward wants it back: the first time everything is computed once more.
    def unpack(number: int) -> Tensor:
        if not again:
            run_again()
        return again[number]

    def run_again() -> None:
        now = torch.get_rng_state()
        torch.set_rng_state(random)

        # Cut off from the graph of x, so that this run leaves nothing behind but what it saves.
        with torch.enable_grad(), saved_tensors_hooks(lambda tensor: again.append(tensor.detach()), lambda none: none):
            function(x.detach().requires_grad_(x.requires_grad))

        # Whoever draws next gets what would have come without a second run.
        torch.set_rng_state(now)

    with saved_tensors_hooks(pack, unpack):
        return function(x)
