from collections.abc import Callable

from torch import Tensor

from labs.strategies.offload import Room


def update_in_blocks(
    values: Tensor, gradients: Tensor, room: Room, *, step: int, block: int, adam: Callable[..., None]
) -> None:
    """One Adam step on n parameters whose states rest in a mapped file, with at most `block` of each in memory."""
    for number in range(values.numel() // block):
        window = slice(number * block, (number + 1) * block)
        master, momentum, variance = room.states[:, window]
        adam(master, momentum, variance, gradients[window].to(master.dtype), step)
        values[window] = master.to(values.dtype)
        room.let_go(window)
