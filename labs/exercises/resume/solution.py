from collections.abc import Callable
from typing import Any


def next_step(
    progress: dict[str, Any], *, rank: int, ranks: int, size: int, order: Callable[[int], list[int]]
) -> tuple[list[int], dict[str, Any]]:
    """The examples that this rank takes in the next step, and the progress after it."""
    # The global batch belongs to the training, not to the ranks: fewer ranks take more each.
    first, share = progress["consumed"], progress["global_batch"] // ranks

    # A place counts the examples of the whole run. Epoch and place in the epoch follow from it, and so a step may
    # begin in one epoch and end in the next.
    places = range(first + rank * share, first + (rank + 1) * share)
    mine = [order(place // size)[place % size] for place in places]

    # Counted for all ranks together, the number means the same on any number of them.
    return mine, {**progress, "consumed": first + progress["global_batch"]}
