from collections.abc import Callable
from typing import Any


def next_step(
    progress: dict[str, Any], *, rank: int, ranks: int, size: int, order: Callable[[int], list[int]]
) -> tuple[list[int], dict[str, Any]]:
    """The examples that this rank takes in the next step, and the progress after it."""
    # The global batch belongs to the training, not to the ranks: fewer ranks take more each.
    first, share = progress["consumed"], progress["global_batch"] // ranks

    # Gap 1. A place counts the examples of the whole run. Which epoch is it in, and where in that epoch?
    places = range(first + rank * share, first + (rank + 1) * share)
    mine = [order(0)[place] for place in places]

    # Gap 2. Which rule makes the number mean the same on any number of ranks?
    return mine, {**progress, "consumed": first + share}
