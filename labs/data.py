"""The text that the lab's model learns, and which rank sees which part of it.

Rule: the global batch of a step depends on the seed and the step alone. Ranks cut it up; however many they are,
together they train on the same examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

TEXTS = Path(__file__).parent / "text"


@cache
def corpus() -> Tensor:
    """The course's own text in all its languages, as bytes."""
    content = b"\n".join(path.read_bytes() for path in sorted(TEXTS.glob("*.txt")))
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def mixed(seed: int, number: int) -> int:
    """One seed of a seed and a step or epoch, within what torch takes."""
    return (seed * 1_000_003 + number) % 2**63


def global_batch(step: int, *, size: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """`size` stretches of the text for one optimizer step: tokens (size, sequence) and, one byte further, targets."""
    text = corpus()
    generator = torch.Generator().manual_seed(mixed(seed, step))
    starts = torch.randint(0, len(text) - sequence, (size, 1), generator=generator)
    stretches = text[starts + torch.arange(sequence + 1)].long()
    return stretches[:, :-1], stretches[:, 1:]


def micro_batches(
    batch: tuple[Tensor, Tensor], *, rank: int, ranks: int, accumulate: int = 1, device: torch.device | str = "cpu"
) -> Sequence[tuple[Tensor, Tensor]]:
    """This rank's part of a global batch, in `accumulate` micro-batches. Raises ValueError where it does not divide:
    micro-batches of unequal size would make the mean of their means another number than the mean of the batch."""
    tokens, targets = batch
    parts = ranks * accumulate
    if len(tokens) % parts:
        raise ValueError(
            f"a global batch of {len(tokens)} does not divide by {ranks} ranks x {accumulate} micro-batches"
        )
    mine = slice(rank * accumulate, (rank + 1) * accumulate)
    pairs = zip(tokens.chunk(parts)[mine], targets.chunk(parts)[mine], strict=True)
    return [(x.to(device), y.to(device)) for x, y in pairs]


# --- a text that is read once an epoch


def examples_in(sequence: int) -> int:
    """How many examples the text has: stretches one after the other, none of which has a target in common."""
    return (len(corpus()) - 1) // sequence


def order(first: int, count: int, *, sequence: int, seed: int = 0) -> list[int]:
    """Which examples a run takes from its `first` on. Each epoch has every example once, in an order of its own.

    It depends on the seed and on how many examples were consumed before, not on ranks or steps: a run that knows both
    goes on where another stopped, with nothing repeated and nothing left out.
    """
    size = examples_in(sequence)
    taken = []
    for epoch in range(first // size, -(-(first + count) // size)):
        drawn = torch.randperm(size, generator=torch.Generator().manual_seed(mixed(seed, epoch)))
        taken += drawn[max(0, first - epoch * size) : first + count - epoch * size].tolist()
    return taken


def examples(chosen: Sequence[int], *, sequence: int) -> tuple[Tensor, Tensor]:
    """Tokens (examples, sequence) of the chosen examples and, one byte further, targets."""
    stretches = corpus()[torch.tensor(chosen)[:, None] * sequence + torch.arange(sequence + 1)].long()
    return stretches[:, :-1], stretches[:, 1:]
