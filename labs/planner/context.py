"""Context parallelism: the work of each turn of a ring, who waits, and what moves (Liu, Zaharia and Abbeel 2023,
section 3; zigzag order as in Megatron Core).

With a causal mask half of all scores are hidden. On a ring of N ranks in naive order, rank r has r + 1 blocks to weigh
in N turns, and each turn lasts until the busiest rank is done: the ranks wait (N - 1) / (2N - 1) of the time, the first
of them almost all of it. In zigzag order every rank has the same to do in every turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from labs.planner.zero import PRECISIONS, Count

ORDERS = ("naive", "zigzag")


def local(*, sequence: int, ranks: int, order: str) -> int:
    """L: positions on a rank, padding included."""
    return chunk(sequence=sequence, ranks=ranks, order=order) * chunks_of(order)


def chunk(*, sequence: int, ranks: int, order: str) -> int:
    """C: positions of a chunk. A rank holds one, or two in zigzag order."""
    if min(sequence, ranks) < 1:
        raise ValueError("a ring has at least one rank and one position")
    return -(-sequence // (ranks * chunks_of(order)))


def chunks_of(order: str) -> int:
    if order not in ORDERS:
        raise ValueError(f"the order of a ring is one of {', '.join(ORDERS)}, not {order}")
    return ORDERS.index(order) + 1


def work(*, sequence: int, ranks: int, order: str) -> list[list[int]]:
    """Pairs of a query and a key that each rank weighs in each turn, in one head of one sequence.

    naive     C (C + 1) / 2 in turn 0; then C^2, or nothing where the keys come from a later rank
    zigzag    2 C (C + 1) / 2 + C^2 in turn 0; then 2 C^2
    """
    c = chunk(sequence=sequence, ranks=ranks, order=order)
    if order == "zigzag":
        return [[2 * c**2 + c] + [2 * c**2] * (ranks - 1) for _ in range(ranks)]
    return [[c * (c + 1) // 2] + [c**2 if turn <= rank else 0 for turn in range(1, ranks)] for rank in range(ranks)]


def waits(work: Sequence[Sequence[int]]) -> list[float]:
    """The share of the time that each rank waits, where a turn lasts until the rank with the most work is done."""
    lasts = sum(max(turn) for turn in zip(*work, strict=True))
    return [1 - sum(own) / lasts for own in work]


def idle(work: Sequence[Sequence[int]]) -> float:
    """The share of all ranks' time that is waiting: for long chunks (N - 1) / (2N - 1) in naive order, 0 in zigzag."""
    each = waits(work)
    return sum(each) / len(each)


def collectives(
    *,
    layers: int,
    hidden: int,
    sequence: int,
    batch: int,
    ranks: int,
    order: str,
    precision: str = "fp32",
    micro_batches: int = 1,
) -> dict[str, Count]:
    """What a rank sends and receives in the ring in one optimizer step.

    A layer passes its keys and values on N - 1 times in forward and again in backward, 2 B L D values each; behind them
    go their gradients, N times, in at least single precision. Every rank also all-reduces its gradients of parameters,
    as in data parallelism.
    """
    if ranks == 1:
        return {}
    value = PRECISIONS[precision].parameter
    kv = 2 * batch * local(sequence=sequence, ranks=ranks, order=order) * hidden
    times = micro_batches * layers
    moved = Count(count=times * (3 * ranks - 2), bytes=times * kv * (2 * (ranks - 1) * value + ranks * max(value, 4)))
    return {"send": moved, "receive": moved}
