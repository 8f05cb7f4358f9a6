"""The bubble, the memory and the traffic of pipeline parallelism.

    p stages (ranks), m micro-batches, v chunks a rank, rank i = 0 ... p - 1

The idle share of the whole is (p - 1) / (m + p - 1) for GPipe and 1F1B, and (p - 1) / (v m + p - 1) interleaved
(Narayanan et al. 2021, section 2.2, who divide by the busy time instead: (p - 1) / m and (p - 1) / (v m)). With split
backwards, forward, B and W taking equal time, it is (p - 1) / (3 m + p - 1) (Qi et al. 2023, table 2, ZB-H1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.planner.activations import Model
from labs.planner.zero import Count
from labs.strategies.schedules import SCHEDULES, Order

VALUE = {"bf16": 2, "fp32": 4, "fp64": 8}


def bubble(*, schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """The idle share of the whole."""
    p, m, v = checked(schedule=schedule, stages=stages, micro_batches=micro_batches, chunks=chunks)
    work = {"gpipe": m, "1f1b": m, "interleaved": v * m, "zero-bubble": 3 * m}[schedule]
    return (p - 1) / (work + p - 1)


def in_flight(*, schedule: str, stages: int, micro_batches: int, rank: int = 0, chunks: int = 1) -> int:
    """The most micro-batches that a rank holds activations of; interleaved, each counts once for each chunk."""
    p, m, v = checked(schedule=schedule, stages=stages, micro_batches=micro_batches, chunks=chunks)
    most = {"gpipe": m, "1f1b": p - rank, "interleaved": p * v + p - 1 - 2 * rank, "zero-bubble": p}[schedule]
    return min(most, m * v)


def micro_batches_for(*, stages: int, bubble: float) -> int:
    """The fewest micro-batches with which 1F1B idles at most so large a share of the whole."""
    if not 0 < bubble < 1:
        raise ValueError(f"a share between 0 and 1, not {bubble}")
    # A hair above a whole number is a whole number that was not exact.
    return max(stages, -int(-((stages - 1) * (1 - bubble) / bubble - 1e-9) // 1))


def slots(*, schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> int:
    """The length of the timetable, in forwards through one chunk: 3 for each micro-batch and chunk, and the bubble."""
    p, m, v = checked(schedule=schedule, stages=stages, micro_batches=micro_batches, chunks=chunks)
    return 3 * m * v + (p - 1 if schedule == "zero-bubble" else 3 * (p - 1))


def message(*, micro_batch: int, sequence: int, hidden: int, precision: str = "bf16") -> int:
    """Bytes that go from a stage to the next for one micro-batch, and as many on the way back."""
    return micro_batch * sequence * hidden * VALUE[precision]


def tied_bytes(*, vocabulary: int, hidden: int, tensor: int = 1, precision: str = "bf16") -> int:
    """Bytes of the all-reduce of a tied table's gradient between first and last stage, counted twice its buffer, on one
    of `tensor` ranks that share out its rows.
    """
    return 2 * -(-vocabulary // tensor) * hidden * VALUE[precision]


def collectives(
    *, rank: int, stages: int, micro_batches: int, message: int, chunks: int = 1, tied: int = 0
) -> dict[str, Count]:
    """What a rank sends and receives in one step, by name. `tied` is the bytes of a weight that the first and the last
    stage share: an all-reduce of its gradient, counted twice its buffer.
    """
    last = stages * chunks - 1
    own = range(rank, stages * chunks, stages)
    neighbours = sum((stage > 0) + (stage < last) for stage in own)
    number = micro_batches * neighbours if stages > 1 else 0
    found = {}
    if number:
        found = {name: Count(count=number, bytes=number * message) for name in ("receive", "send")}
    if tied and stages > 1 and rank in (0, stages - 1):
        found["all_reduce"] = Count(count=1, bytes=2 * tied)
    return found


def checked(*, schedule: str, stages: int, micro_batches: int, chunks: int) -> tuple[int, int, int]:
    if schedule not in SCHEDULES:
        raise ValueError(f"a schedule is one of {', '.join(SCHEDULES)}, not {schedule}")
    if not 1 <= stages <= micro_batches:
        raise ValueError(f"{micro_batches} micro-batches do not fill {stages} stages")
    if schedule == "interleaved" and micro_batches % stages:
        raise ValueError(f"interleaving needs a multiple of {stages} micro-batches, not {micro_batches}")
    if chunks < 1 or (chunks > 1 and schedule != "interleaved"):
        raise ValueError(f"{schedule} with {chunks} chunks a rank")
    return stages, micro_batches, chunks


# --- activations


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Bytes that a stage keeps of one micro-batch: from forward to backward, and after a split backward, of these, what
    the gradients of the weights still need: the inputs of its linear layers.
    """

    backward: int
    weights: int


def kept(model: Model, layers: Sequence[int]) -> list[Kept]:
    """What each stage keeps, if it has so many of the model's layers. The first keeps the positions' indices as well,
    the last what the head and the loss need.

    Of the 16 (B, S, D) that a block keeps, 7 go into its linear layers: 1 to queries, keys and values, 1 to the
    product behind attention, 1 and 4 to the two of the network.
    """
    positions, last = 8 * model.sequence, len(layers) - 1
    return [
        Kept(
            backward=count * model.block("none")
            + (positions if stage == 0 else 0)
            + (model.around - positions if stage == last else 0),
            weights=(7 * count + (stage == last)) * model.stream,
        )
        for stage, count in enumerate(layers)
    ]


def activations(order: Order, kept_by_chunk: Sequence[Kept]) -> int:
    """The most bytes of activations that a rank keeps. Beside them is what is on its way: an input or a gradient that
    arrives before its turn, a result that is being sent, and what one layer needs while it works.
    """
    split = any(action.kind == "W" for action in order)
    held = peak = 0
    for action in order:
        chunk = kept_by_chunk[action.chunk]
        later = chunk.weights if split else 0
        held += {"F": chunk.backward, "B": later - chunk.backward, "W": -later}[action.kind]
        peak = max(peak, held)
    return peak
