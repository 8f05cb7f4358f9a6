"""What DeepSpeed 0.19 holds and moves on each rank, read from its source; without torch.

What it does otherwise than the paper, and than `labs/strategies`:

- Stage 1 and 2 (`runtime/zero/stage_1_and_2.py`) flatten all parameters of a group into one buffer, padded to a
  multiple of 2 N elements, and keep a master copy in fp32 also of fp32 parameters.
- Their "reduce_scatter" is an all-reduce of each bucket, of which a rank keeps its part
  (`use_multi_rank_bucket_allreduce`): 2 P on the wire where a reduce-scatter moves P.
- Stage 3 (`runtime/zero/stage3.py`) pads every parameter by itself to a multiple of N, and keeps gathered what it has
  gathered while no more than `stage3_max_live_parameters` are: a small model is gathered once a step, not twice.
- The bucket has its whole size from the start, however small the model is: 5e8 elements unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

from labs.planner.zero import ModelStates

BUCKET, LIVE = 500_000_000, 1_000_000_000
"""`reduce_bucket_size` and `stage3_max_live_parameters`, in elements, where the configuration does not say."""
MASTER, MOMENTS, COUNTER = 4, 8, 4
ELEMENT = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedStep:
    """Bytes on one rank as the optimizer step begins, and what one step's collectives move, by the unsharded buffer."""

    states: ModelStates
    bucket: int
    collectives: dict[str, int]

    @property
    def traffic(self) -> int:
        return sum(self.collectives.values())

    def as_dict(self) -> dict[str, object]:
        return {
            "states": asdict(self.states),
            "communication": self.bucket,
            "collectives": {name: {"bytes": count} for name, count in self.collectives.items()},
        }


def predict_deepspeed(
    parameters: Sequence[int],
    *,
    stage: int,
    ranks: int,
    rank: int = 0,
    precision: str = "fp32",
    bucket: int = BUCKET,
    live: int = LIVE,
    micro_batches: int = 1,
    offload: bool = False,
) -> DeepSpeedStep:
    """One optimizer step; `parameters` are the elements of each trained tensor, in the model's order, `bucket` and
    `live` as configured. With `offload` the optimizer's states and fp32 gradients rest on the host, and count all the
    same.

    A scalar or two for the norm and for overflow come on top of the collectives, less than 64 bytes.
    """
    element, whole = ELEMENT[precision], sum(parameters)
    if stage == 0:
        master = MASTER if precision != "fp32" else 0
        return DeepSpeedStep(
            states=ModelStates(
                parameters=element * whole,
                gradients=element * whole,
                optimizer_states=(master + MOMENTS) * whole + COUNTER * len(parameters),
            ),
            bucket=0,
            collectives={"all_reduce": 2 * element * whole},
        )
    if stage < 3:
        padded = -(-whole // (2 * ranks)) * 2 * ranks
        shard = padded // ranks
        held = element * padded
        # A gradient that crosses the border between two ranks' parts is kept whole by both.
        ends = list(accumulate(parameters))
        inside = (
            size
            for size, end in zip(parameters, ends, strict=True)
            if end > rank * shard and end - size < (rank + 1) * shard
        )
        gradients = MASTER * shard if offload else element * sum(inside)
        # Stage 1 adds the micro-batches up before it reduces; stage 2 reduces each.
        reduced = 2 * element * whole * (micro_batches if stage == 2 else 1)
        moved = {"all_reduce": reduced, "all_gather": element * padded if ranks > 1 else 0}
    else:
        shard = sum(-(-each // ranks) for each in parameters)
        padded, held = shard * ranks, element * shard
        gradients = held + (MASTER * shard if offload else 0)
        gathers = (1 if live >= whole else 2) * micro_batches if ranks > 1 else 0
        moved = {"all_gather": gathers * element * padded, "reduce_scatter": micro_batches * element * padded}
    return DeepSpeedStep(
        states=ModelStates(
            parameters=held,
            gradients=gradients,
            optimizer_states=(MASTER + MOMENTS) * shard + COUNTER,
        ),
        bucket=element * bucket,
        collectives={name: size for name, size in moved.items() if size},
    )


def traffic(*, parameters: int, stage: int, ranks: int, precision: str = "bf16", live: int = LIVE) -> int:
    """Bytes of one step's collectives of a model in one tensor, by the unsharded buffer."""
    return predict_deepspeed([parameters], stage=stage, ranks=ranks, precision=precision, live=live).traffic


def states(*, parameters: int, stage: int, ranks: int, precision: str = "bf16") -> int:
    """Bytes of model states on one rank between two steps, gradients included, with nothing to pad."""
    element = ELEMENT[precision]
    if stage == 0:
        return predict_deepspeed([parameters], stage=0, ranks=ranks, precision=precision).states.total
    shard = -(-parameters // ranks)
    return element * (shard if stage == 3 else parameters) + (element + MASTER + MOMENTS) * shard


def buckets(*, elements: int = BUCKET, precision: str = "bf16", buffers: int = 1) -> int:
    """Bytes of the reduce buckets of stage 1 or 2: two `buffers` where communication overlaps with backward."""
    return ELEMENT[precision] * elements * buffers


def accumulation(*, train: int, micro: int, gpus: int, tensor: int = 1, pipeline: int = 1) -> float:
    """Micro-batches of one optimizer step: train_batch_size is micro-batch x accumulation x data-parallel ranks."""
    return train / (micro * (gpus // (tensor * pipeline)))
