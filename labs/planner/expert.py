"""Expert parallelism: places, what a rank holds, and what the all-to-alls move (Fedus, Zoph and Shazeer 2021, section
2.2; Lepikhin et al. 2020, section 3).

A message has room for C tokens of each rank at each expert, whether they are there or not: its size follows from the
capacity factor alone, and not from the router.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labs.planner.models import Model
from labs.planner.zero import PRECISIONS, Count, ModelStates, Piece, model_states, predict


def capacity(*, tokens: int, experts: int, top: int = 1, factor: float = 1.0) -> int:
    """C: places of one expert for the tokens of one rank, ceil(factor * top * tokens / experts)."""
    if min(tokens, experts, top) < 1 or not factor > 0:
        raise ValueError("tokens, experts and top are at least 1, and the capacity factor is positive")
    return math.ceil(factor * top * tokens / experts)


def dropped(wanted: Sequence[int], *, places: int) -> int:
    """How many tokens of one rank find no place, where `wanted` of them want each expert."""
    return sum(max(0, each - places) for each in wanted)


def balance(share: Sequence[float], probability: Sequence[float]) -> float:
    """The auxiliary loss: E times the sum over experts of f P, the share of the tokens that an expert was the first
    choice of, times its mean probability (Fedus et al. 2021, equation 4). 1 where all get the same.
    """
    return len(share) * sum(f * p for f, p in zip(share, probability, strict=True))


def overload(wanted: Sequence[float]) -> float:
    """How many times the mean the busiest expert is wanted."""
    return max(wanted) * len(wanted) / sum(wanted)


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


def rank_states(*, dense: int, experts: int, spread: int, data: int = 1, zero: int = 0, precision: str = "bf16") -> int:
    """Bytes of model states on a rank. `dense` parameters are whole on it; of the `experts` parameters it has a
    `spread`-th. ZeRO shards what is whole over `data` ranks, and an expert over the data / spread that have it.
    """
    if data % spread:
        raise ValueError(f"{spread} ranks of an expert axis are no part of {data} data ranks")
    whole = model_states(parameters=dense, stage=zero, ranks=data, precision=precision)
    own = model_states(parameters=-(-experts // spread), stage=zero, ranks=data // spread, precision=precision)
    return whole.total + own.total


def in_experts(shape: Model) -> int:
    """Parameters of a model's routed experts, in all layers together."""
    if shape.experts is None:
        return 0
    return (shape.layers - shape.experts.dense) * shape.experts.routed * shape.network(shape.experts.features)
