"""The bytes of GRPO: the lab's own, to the byte, and those of a published run.

GRPO has no value model: beside the policy with its gradients and optimizer states there are the reference, whose
weights are only read, and the generator's whole copy of the policy's weights (Shao et al. 2024, figure 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labs.planner import zero
from labs.planner.zero import PRECISIONS, Count, ModelStates, Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Bytes of one rank at rest; of them the reference's and the generator's; the collectives of handing the weights to
    the generator, and of a whole step.
    """

    states: ModelStates
    reference: int
    generator: int
    transfer: dict[str, Count]
    collectives: dict[str, Count]


def predict(
    pieces: Sequence[Piece],
    *,
    stage: int,
    ranks: int,
    precision: str = "fp32",
    updates: int = 1,
    micro_batches: int = 1,
) -> Prediction:
    """Of a policy of these pieces, all of them trained, and a reference of the same size.

    In stage 3 a step gathers the policy's weights once for the generator and twice for each micro-batch of each update,
    and the reference's once, to score.
    """
    once = zero.predict(pieces, stage=stage, ranks=ranks, precision=precision, micro_batches=micro_batches)
    policy, cost = once.states, PRECISIONS[precision]
    reference = policy.parameters
    generator = cost.parameter * sum(piece.trained for piece in pieces)
    padded = [-(-piece.trained // ranks) * ranks for piece in pieces]
    whole = Count(count=len(padded), bytes=cost.parameter * sum(padded))
    collectives = {name: _times(updates, count) for name, count in once.collectives.items()}
    transfer: dict[str, Count] = {}
    if stage == 3:
        transfer = {"all_gather": whole}
        gathers = collectives["all_gather"]
        collectives["all_gather"] = Count(count=gathers.count + 2 * whole.count, bytes=gathers.bytes + 2 * whole.bytes)
    return Prediction(
        states=replace(policy, parameters=policy.parameters + reference + generator),
        reference=reference,
        generator=generator,
        transfer=transfer,
        collectives=collectives,
    )


def _times(times: int, count: Count) -> Count:
    return Count(count=times * count.count, bytes=times * count.bytes)
