"""How long a collective takes: a latency for each message and its bytes over a bandwidth (Thakur, Rabenseifner and
Gropp 2005, section 3), on one kind of link or on two.

A rank sends one message and receives another at the same time. A link is its latency in seconds and its bandwidth in
bytes a second, in one direction. Additions are not counted: they are quick beside the sending.

    direct    a + (N - 1) n / B           each sends all of its buffer to every other, all messages at once
    tree      2 log N (a + n / B)         sums go up a binary tree, the result comes down
    halving   2 log N a + 2 (N - 1) / N n / B       Rabenseifner's: half of the buffer to a partner, then a quarter ...
    ring      2 (N - 1) a + 2 (N - 1) / N n / B     an N-th of the buffer to the neighbour, 2 (N - 1) times
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labs.planner.overlap import ring_bytes

ALGORITHMS = ("direct", "tree", "halving", "ring")
LATENCY = {"node": 3.4e-6, "network": 14e-6}
"""Seconds of one step of a ring, as NCCL reckons with for large messages (`hwLatencies`, src/graph/tuning.cc, ring with
the protocol Simple, NVLink and network)."""


def messages(*, ranks: int, algorithm: str = "ring") -> int:
    """Latencies that follow each other in an all-reduce. Raises ValueError for an algorithm that is none."""
    _checked(ranks=ranks)
    if algorithm not in ALGORITHMS:
        raise ValueError(f"an all-reduce is one of {', '.join(ALGORITHMS)}, not {algorithm}")
    if ranks == 1:
        return 0
    levels = math.ceil(math.log2(ranks))
    return {"direct": 1, "tree": 2 * levels, "halving": 2 * levels, "ring": 2 * (ranks - 1)}[algorithm]


def sent(*, size: float, ranks: int, algorithm: str = "ring") -> float:
    """Bytes that the busiest rank has to send one after the other for an all-reduce of `size` bytes."""
    rounds = messages(ranks=ranks, algorithm=algorithm)
    if algorithm == "direct":
        return (ranks - 1) * size
    return rounds * size if algorithm == "tree" else 2 * size * (ranks - 1) / ranks


def all_reduce_seconds(
    *, size: float, ranks: int, bandwidth: float, latency: float = 0.0, algorithm: str = "ring"
) -> float:
    """Seconds of an all-reduce of `size` bytes."""
    _positive(bandwidth)
    own = sent(size=size, ranks=ranks, algorithm=algorithm)
    return messages(ranks=ranks, algorithm=algorithm) * latency + own / bandwidth


def half_seconds(*, size: float, ranks: int, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of a reduce-scatter or an all-gather whose whole buffer has `size` bytes: half a ring all-reduce."""
    return all_reduce_seconds(size=size, ranks=ranks, bandwidth=bandwidth, latency=latency) / 2


def crossing(*, ranks: int, bandwidth: float, latency: float, faster: str = "ring", slower: str = "tree") -> float:
    """The size of buffer from which on `faster` wins, in bytes: the sizes above it pay for its longer latency.

    Raises ValueError where it never does.
    """
    late = messages(ranks=ranks, algorithm=faster) - messages(ranks=ranks, algorithm=slower)
    saved = sent(size=1, ranks=ranks, algorithm=slower) - sent(size=1, ranks=ranks, algorithm=faster)
    if saved <= 0:
        raise ValueError(f"{faster} sends no fewer bytes than {slower} on {ranks} ranks")
    return max(0.0, late * latency * bandwidth / saved)


def half_speed(*, ranks: int, bandwidth: float, latency: float) -> float:
    """The size of buffer whose ring all-reduce spends as long in latency as in sending, N a B bytes: there the link
    carries half of what it could.
    """
    return ranks * latency * bandwidth if ranks > 1 else 0.0


def fitted(measured: Sequence[tuple[float, float]], *, ranks: int) -> tuple[float, float]:
    """Latency and bandwidth of a ring from the smallest and the largest of the measured buffers, each its size and its
    seconds: the small one is taken for latency alone, and what the large one needs beyond it for its bytes.
    """
    (_, short), (size, long) = min(measured), max(measured)
    return short / messages(ranks=ranks), sent(size=size, ranks=ranks) / max(long - short, 1e-9)


# --- two bandwidths of one measurement (NCCL tests, doc/PERFORMANCE.md)


def algorithm_bandwidth(*, size: float, seconds: float) -> float:
    """Bytes of the buffer a second."""
    _positive(seconds)
    return size / seconds


def bus_bandwidth(*, size: float, seconds: float, ranks: int, collective: str = "all_reduce") -> float:
    """Bytes a second that each rank's link must have carried in one direction: it compares with the hardware's."""
    return algorithm_bandwidth(size=ring_bytes(collective, buffer=size, ranks=ranks), seconds=seconds)


# --- rings over unequal links, and two kinds of link


def ring_over(bandwidths: Sequence[float], *, size: float, latency: float = 0.0) -> float:
    """Seconds of a ring all-reduce in which the i-th rank sends over a link of its own: in each step all wait for the
    slowest.
    """
    return all_reduce_seconds(size=size, ranks=len(bandwidths), bandwidth=min(bandwidths), latency=latency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """What an all-reduce sends and how long it takes on the links of a node and on the network, one after the other."""

    node_bytes: float
    network_bytes: float
    node_seconds: float
    network_seconds: float

    @property
    def seconds(self) -> float:
        return self.node_seconds + self.network_seconds


def hierarchical(
    *,
    size: float,
    per_node: int,
    nodes: int,
    node: float,
    network: float,
    node_latency: float = 0.0,
    network_latency: float = 0.0,
) -> Two:
    """A reduce-scatter in each node, an all-reduce of each part among the ranks that have it, one in each node, and an
    all-gather in each node. `node` and `network` are bandwidths of one rank. Only a part, size / per_node, crosses.
    """
    _checked(ranks=per_node)
    _checked(ranks=nodes)
    part = size / per_node
    half = half_seconds(size=size, ranks=per_node, bandwidth=node, latency=node_latency)
    return Two(
        node_bytes=sent(size=size, ranks=per_node),
        network_bytes=sent(size=part, ranks=nodes),
        node_seconds=2 * half,
        network_seconds=all_reduce_seconds(size=part, ranks=nodes, bandwidth=network, latency=network_latency),
    )


# --- how much computing hides a step's collectives


def hiding_tokens(*, operations: float, bandwidth: float, ranks: int, value: int = 2) -> float:
    """Tokens of one rank and micro-batch from which on the computing of a layer takes as long as what ZeRO-3, or the
    all-reduce of data parallelism, sends meanwhile, with gradients and parameters of `value` bytes.

    Backward: 4 operations a parameter and token beside two sends of `value` bytes (N - 1) / N a parameter; forward of
    ZeRO-3: half of both. So (N - 1) / N value / 2 times `operations` (a second, reached and not promised) over
    `bandwidth`.
    """
    _checked(ranks=ranks)
    _positive(bandwidth)
    return value / 2 * (ranks - 1) / ranks * operations / bandwidth


def bucketed_backward(
    *, computing: float, size: float, buckets: int, ranks: int, bandwidth: float, latency: float
) -> float:
    """Seconds of a backward of `computing` seconds whose gradients, `size` bytes, are all-reduced beside it in so many
    equal buckets, each as soon as it is full and the link is free.
    """
    if buckets < 1:
        raise ValueError("there is at least one bucket")
    each = all_reduce_seconds(size=size / buckets, ranks=ranks, bandwidth=bandwidth, latency=latency)
    # Either computing is the longer, and the last bucket comes after it, or the link is, from the first bucket on.
    return max(computing + each, computing / buckets + buckets * each)


def _checked(*, ranks: int) -> None:
    if ranks < 1:
        raise ValueError("there is at least one rank")


def _positive(value: float) -> None:
    if not value > 0:
        raise ValueError("a bandwidth and a time are above zero")
