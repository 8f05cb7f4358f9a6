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
WAYS = ("ring", "gather", "heads")
"""How the queries of a rank meet all keys: keys and values go round (ring attention), all are gathered (Llama 3), or
positions are exchanged for heads (DeepSpeed-Ulysses).
"""


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


def wait(*, rank: int, ranks: int, order: str, sequence: int = 2**20) -> float:
    """The share of its time that one rank waits: for long chunks 1 - (2 r + 1) / (2 N - 1) in naive order."""
    return waits(work(sequence=sequence, ranks=ranks, order=order))[rank]


def lasts(*, ranks: int, order: str, sequence: int = 2**20) -> float:
    """How long attention takes in a ring, as a multiple of what it would take if all ranks had the same to do: for long
    chunks (2 N - 1) / N in naive order.
    """
    found = work(sequence=sequence, ranks=ranks, order=order)
    longest: int = sum(max(turn) for turn in zip(*found, strict=True))
    return longest * ranks / sum(map(sum, found))


def sent(
    *,
    way: str,
    sequence: int,
    hidden: int,
    ranks: int,
    keys: int | None = None,
    batch: int = 1,
    value: int = 2,
) -> float:
    """Bytes that a rank sends in the forward of one layer's attention. `keys` are the features of all key heads, where
    they are fewer than those of the query heads, `hidden`.

    ring      its keys and values, N - 1 times: each goes round              2 b s keys (N - 1) / N
    gather    the same: in a ring every rank passes on what it gathers
    heads     (N - 1) / N of its own queries, keys and values, and of as much output as queries (Jacobs et al. 2023,
              section 3.2)                                                   2 b s (hidden + keys) (N - 1) / N^2
    """
    keys = hidden if keys is None else keys
    if way not in WAYS:
        raise ValueError(f"the way of attention is one of {', '.join(WAYS)}, not {way}")
    own = batch * sequence / ranks
    if way == "heads":
        return own * 2 * (hidden + keys) * value * (ranks - 1) / ranks
    return own * 2 * keys * value * (ranks - 1)


def held(*, way: str, sequence: int, ranks: int, keys: int, batch: int = 1, value: int = 2) -> float:
    """Bytes of keys and values on a rank at once, in forward: in a ring its own and those on the way, with a gather all
    of the sequence, with heads an N-th of the heads at all positions.
    """
    if way not in WAYS:
        raise ValueError(f"the way of attention is one of {', '.join(WAYS)}, not {way}")
    whole = 2.0 * batch * sequence * keys * value
    return {"ring": 2 * whole / ranks, "gather": whole, "heads": whole / ranks}[way]


def hidden_from(*, rate: float, link: float, groups: int = 1, value: int = 2, order: str = "zigzag") -> float:
    """Positions on a rank from which on computing a turn takes at least as long as passing keys and values on, at
    `rate` operations and `link` bytes a second. `groups` are the query heads that share a key head.

    A turn in zigzag order weighs L^2 / 2 pairs, in the naive one L^2, with 4 operations for each pair and feature;
    meanwhile 2 L keys and values travel, of a `groups`-th of the features (Liu et al. 2023, section 3: L >= F / B).
    """
    pairs = chunks_of(order)
    return pairs * 2 * value * rate / (4 * link * groups)


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
