"""A training whose updates come one step late, as where a host updates while the GPU computes the next step (Ren et al.
2021, section 5.2), on one process: what the delay does to the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labs.data import global_batch
from labs.model import GPT, Shape


def losses(*, late_from: int | None, steps: int = 100) -> list[float]:
    """The losses of a run each of whose gradients, from step `late_from` on, is applied one step after it was made."""
    shape = Shape(layers=2, hidden=64, heads=4, sequence=32)
    model = GPT(shape)
    weights = list(model.parameters())
    adam = torch.optim.Adam(weights, lr=3e-3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products as small as these are quickest on one core
    try:
        found: list[float] = []
        waiting: Sequence[torch.Tensor | None] = [None] * len(weights)
        for step in range(steps):
            loss = model(*global_batch(step, size=8, sequence=shape.sequence))
            loss.backward()
            found.append(loss.item())
            if late_from is not None and step >= late_from:
                # In the first late step nothing waits, and Adam passes over weights without a gradient.
                fresh = [weight.grad for weight in weights]
                for weight, gradient in zip(weights, waiting, strict=True):
                    weight.grad = gradient
                waiting = fresh
            adam.step()
            adam.zero_grad()
        return found
    finally:
        torch.set_num_threads(threads)


def smoothed(losses: Sequence[float], *, over: int = 10) -> list[float]:
    """Of each step the mean of the last `over`, or of as many as there are, so that noisy lines can be told apart."""
    windows = (losses[max(0, step - over + 1) : step + 1] for step in range(len(losses)))
    return [sum(window) / len(window) for window in windows]
