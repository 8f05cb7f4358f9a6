from collections.abc import Callable
from typing import Any


def next_step(
    progress: dict[str, Any], *, rank: int, ranks: int, size: int, order: Callable[[int], list[int]]
) -> tuple[list[int], dict[str, Any]]:
    """The examples that this rank takes in the next step, and the progress after it.

    All ranks call this before every step, and all get the same progress; what they give back must be the same on all
    of them, since one writes it into the checkpoint. After a failure the run goes on from that, on any number of ranks.

    - progress: {"consumed": 0, "global_batch": 12} before the first step. What you give back comes in the next step;
      it must be JSON. `consumed` is of all ranks together
    - rank, ranks: as they are in this step. `ranks` divides the global batch, which stays as large when ranks change
    - size: how many examples there are; order(epoch): their numbers in the order of that epoch, each once
    - a step may take the last examples of one epoch and the first of the next

    All ranks' examples of a step together are those that come next in the order, each of them once.
    """
    raise NotImplementedError("Write next_step: the examples that come next, shared out over the ranks.")
