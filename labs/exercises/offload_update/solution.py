from collections.abc import Callable

from torch import Tensor

from labs.strategies.offload import Room


def update_in_blocks(
    values: Tensor, gradients: Tensor, room: Room, *, step: int, block: int, adam: Callable[..., None]
) -> None:
    """One Adam step on n parameters whose states rest in a mapped file, with at most `block` of each in memory."""
    elements = values.numel()
    # The last block begins where the one before it ended and is as long as what is left.
    for first in range(0, elements, block):
        window = slice(first, min(first + block, elements))

        # Windows on the file, not copies: what Adam writes is in the file at once. Every block is of the same step.
        master, momentum, variance = room.states[:, window]
        adam(master, momentum, variance, gradients[window].to(master.dtype), step)

        # The values are read from the master weights while these are still in memory, and rounded on the way.
        values[window] = master.to(values.dtype)
        room.let_go(window)
