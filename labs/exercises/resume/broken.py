from collections.abc import Callable
from typing import Any


def next_step(
    progress: dict[str, Any], *, rank: int, ranks: int, size: int, order: Callable[[int], list[int]]
) -> tuple[list[int], dict[str, Any]]:
    """The examples that this rank takes in the next step, and the progress after it."""
    share = progress["global_batch"] // ranks
    own = progress["consumed"]

    first = own * ranks
    places = range(first + rank * share, first + (rank + 1) * share)
    mine = [order(place // size)[place % size] for place in places]

    return mine, {**progress, "consumed": own + share}
