"""A device mesh in numbers: where a rank stands, what an axis sends, and the norm of a gradient that lies on it.

rank = (i_p d + i_d) t + i_t      the tensor axis runs fastest, as in Megatron (Narayanan et al. 2021, section 3)
"""

from __future__ import annotations

from math import sqrt

from labs.planner.layout import Training, traffic
from labs.strategies.layout import Layout


def rank_at(*, dp: int, tp: int, pipeline: int, data: int, tensor: int) -> int:
    """The rank at these coordinates, each from 0 on."""
    return Layout(pp=pipeline + 1, dp=dp, tp=tp).rank_at(pipeline=pipeline, data=data, tensor=tensor)


def axis_bytes(
    *,
    axis: str,
    dp: int,
    pp: int,
    tp: int,
    layers: int,
    hidden: int,
    sequence: int,
    micro_batch: int,
    micro_batches: int,
    rank: int = 0,
) -> int:
    """Bytes that a rank of the layout lab moves on an axis in one step, in fp32; an all-reduce counts twice."""
    training = Training(
        layout=Layout(dp=dp, pp=pp, tp=tp),
        layers=layers,
        hidden=hidden,
        sequence=sequence,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
    )
    return sum(count.bytes for count in traffic(training, rank).get(axis, {}).values())


def norm(*, split: float, whole: float, tp: int, pp: int) -> float:
    """The norm of a gradient: on each rank `split` is the sum of squares of its own parts of what the tensor axis
    splits, `whole` that of what all tensor ranks of its stage have. Every value once; data ranks hold copies.
    """
    return sqrt(pp * (tp * split + whole))
