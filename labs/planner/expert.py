"""Expert parallelism: places, what a rank holds, and what the all-to-alls move (Fedus, Zoph and Shazeer 2021, section
2.2; Lepikhin et al. 2020, section 3).

A message has room for C tokens of each rank at each expert, whether they are there or not: its size follows from the
capacity factor alone, and not from the router.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labs.planner.zero import PRECISIONS, Count, ModelStates, Piece, predict


def capacity(*, tokens: int, experts: int, top: int = 1, factor: float = 1.0) -> int:
    """C: places of one expert for the tokens of one rank, ceil(factor * top * tokens / experts)."""
    if min(tokens, experts, top) < 1 or not factor > 0:
        raise ValueError("tokens, experts and top are at least 1, and the capacity factor is positive")
    return math.ceil(factor * top * tokens / experts)


def dropped(wanted: Sequence[int], *, places: int) -> int:
    """How many tokens of one rank find no place, where `wanted` of them want each expert."""
    return sum(max(0, each - places) for each in wanted)


def all_to_alls(
    *,
    layers: int,
    hidden: int,
    tokens: int,
    experts: int,
    top: int = 1,
    factor: float = 1.0,
    precision: str = "bf16",
    micro_batches: int = 1,
) -> Count:
    """What dispatch and combine move in one optimizer step: E C D values, twice in forward and twice in backward, in
    each layer and micro-batch. It does not depend on the number of ranks.
    """
    places = capacity(tokens=tokens, experts=experts, top=top, factor=factor)
    times = 4 * layers * micro_batches
    return Count(count=times, bytes=times * experts * places * hidden * PRECISIONS[precision].parameter)


def states(dense: Sequence[Piece], experts: Sequence[int], *, ranks: int, precision: str) -> tuple[ModelStates, Count]:
    """What a rank holds, and the all-reduce of its gradients: all of `dense`, and an N-th of each mixture's `experts`
    parameters, whose gradients are complete without one.
    """
    whole = predict(dense, stage=0, ranks=ranks, precision=precision)
    own = [Piece(trained=each // ranks) for each in experts]
    spread = predict(own, stage=0, ranks=ranks, precision=precision)
    together = ModelStates(
        parameters=whole.states.parameters + spread.states.parameters,
        gradients=whole.states.gradients + spread.states.gradients,
        optimizer_states=whole.states.optimizer_states + spread.states.optimizer_states,
    )
    return together, whole.collectives["all_reduce"]
