"""What overlap hides and what it costs: seconds of communication beside seconds of computation, and the buffers in
flight, to the byte (Li et al. 2020, PyTorch Distributed, section 3.2; Narayanan et al. 2021, section 3.3.1 for the
bytes that a ring moves).
"""

from __future__ import annotations

from collections.abc import Sequence

from labs.planner.zero import PRECISIONS, Piece, checked


def ring_bytes(collective: str, *, buffer: float, ranks: int) -> float:
    """Bytes that each rank sends for one collective on a buffer of that many bytes: (N - 1) / N of it in each half of a
    ring. Raises KeyError for a collective that is none of all_reduce, reduce_scatter, all_gather.
    """
    if ranks < 1:
        raise ValueError("there is at least one rank")
    halves = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}[collective]
    return halves * buffer * (ranks - 1) / ranks


def seconds_on_link(collective: str, *, buffer: float, ranks: int, bandwidth: float) -> float:
    """Seconds of that collective on a link of `bandwidth` bytes a second, latency left out."""
    if bandwidth <= 0:
        raise ValueError("a bandwidth is above zero")
    return ring_bytes(collective, buffer=buffer, ranks=ranks) / bandwidth


def backward_with_reduction(computing: Sequence[float], reducing: Sequence[float], *, overlapped: bool = True) -> float:
    """Seconds of a backward whose i-th unit takes `computing[i]`, then `reducing[i]` on a link that carries one unit at
    a time. Without overlap the link waits for the last unit, and computation for the link.
    """
    if len(computing) != len(reducing):
        raise ValueError("each unit computes and is reduced")
    if not overlapped:
        return sum(computing) + sum(reducing)
    made = free = 0.0
    for compute, reduce in zip(computing, reducing, strict=True):
        made += compute
        free = max(made, free) + reduce
    return max(made, free)


def hidden_share(computing: Sequence[float], reducing: Sequence[float]) -> float:
    """The share of communication that runs while the ranks compute: 1 where none is left to wait for."""
    if not sum(reducing):
        return 1.0
    exposed = backward_with_reduction(computing, reducing) - sum(computing)
    return 1.0 - exposed / sum(reducing)


# --- the labs' own buffers, to the byte


def buckets_of(pieces: Sequence[Piece], *, ranks: int, precision: str = "fp32", bucket: int = 0) -> list[int]:
    """Bytes of each all-reduce of overlapped data parallelism, in the order in which backward starts them: pieces that
    follow each other until they have `bucket` bytes.
    """
    found, size = [], 0
    trained = [-(-piece.trained // ranks) * ranks * PRECISIONS[precision].gradient for piece in pieces if piece.trained]
    for index, own in reversed(list(enumerate(trained))):
        size += own
        if size >= bucket or not index:
            found.append(size)
            size = 0
    return found


def communication_peak(
    pieces: Sequence[Piece],
    *,
    stage: int,
    ranks: int,
    precision: str = "fp32",
    ahead: int = 1,
    buckets: int = 2,
) -> int:
    """The most bytes of communication buffers that a rank of `labs/strategies/overlap.py` holds at a time.

    stage 0, 1   none: collectives work on the gradients and the parameters themselves
    stage 2      the bucket that backward fills and `buckets` in flight
    stage 3      and the parameters of the piece in use and of `ahead` that follow
    """
    checked(stage=stage, ranks=ranks)
    if min(ahead, buckets - 1) < 0:
        raise ValueError("at least one bucket is in flight, and a gather is never behind")

    def padded(size: int) -> int:
        return -(-size // ranks) * ranks

    filled = [padded(piece.trained) for piece in pieces]
    if stage < 2:
        return 0
    last = len(pieces) - 1
    highest = 0
    uses = needs(pieces) if stage == 3 else [frozenset[tuple[int, bool]]()] * len(pieces)

    def size(units: frozenset[tuple[int, bool]]) -> int:
        return sum(padded(pieces[owner].frozen if frozen else pieces[owner].trained) for owner, frozen in units)

    order = [*range(len(pieces)), *reversed(range(len(pieces)))]
    for use, piece in enumerate(order):
        held = uses[piece]
        for following in order[use + 1 : use + 1 + ahead]:
            if uses[following] & uses[piece]:
                break
            held |= uses[following]
        in_flight = [each for each in filled[piece + 1 :] if each][:buckets]
        backward = filled[piece] + sum(in_flight) if use > last else 0
        highest = max(highest, size(held) + backward)
    return PRECISIONS[precision].parameter * highest


def needs(pieces: Sequence[Piece]) -> list[frozenset[tuple[int, bool]]]:
    """For each piece the units that it uses, each as the number of the piece that owns it and whether it is frozen."""
    found = []
    for index, piece in enumerate(pieces):
        own = {(index, False)} if piece.trained else set()
        own |= {(index, True)} if piece.frozen else set()
        if piece.borrows is not None:
            own.add((piece.borrows, piece.borrows_frozen))
        found.append(frozenset(own))
    return found
