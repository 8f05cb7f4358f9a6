from collections.abc import Callable

from torch import Tensor

from labs.strategies.offload import Room


def update_in_blocks(
    values: Tensor, gradients: Tensor, room: Room, *, step: int, block: int, adam: Callable[..., None]
) -> None:
    """One Adam step on n parameters whose states rest in a mapped file, with at most `block` of each in memory.

    - values: (n,) the parameters on the device; they end as the master weights, rounded
    - gradients: (n,) their gradients, in the precision of the values
    - room.states: (3, n) master weights, momentum and variance, in higher precision. Touching an element brings it from
      the file into memory
    - room.let_go(slice(first, last)): these elements of all three states leave memory; what was written stays in the
      file
    - step: which step of the training this is, from 1
    - adam(master, momentum, variance, gradients, step): torch's Adam on these tensors, in place. All four have the same
      length and the precision of the states

    n need not be a multiple of `block`, and may be less.
    """
    raise NotImplementedError("Write update_in_blocks: Adam on each block, round it to the values, let it go.")
