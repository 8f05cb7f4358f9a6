"""What torch's FSDP2 and tensor parallelism hold and send, to the byte, by axis: the labs' GPT on one rank of a stage.

d data and t tensor ranks; a stage has l of the layers; D hidden, V vocabulary, S positions, B sequences

states      4 + 4 + 8 bytes of every d-th row of a parameter, which is a t-th of the matrix already
data        a piece's parameters gathered in the stack's precision, its gradients reduced in the precision of these
tensor      4 B S D a layer; with sequence parallelism as much in two halves (what was gathered is kept)
pipeline    B S D a boundary, each way
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner import pipeline
from labs.planner.configuration import Configuration
from labs.planner.layout import Traffic, moved, plus
from labs.planner.zero import STEP_COUNTER, Count, ModelStates

FP32 = 4
Shape = tuple[int, int]  # rows, and elements of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Model states at rest on the first rank of a stage, and the collectives of one step by axis."""

    states: ModelStates
    axes: Traffic


def predict(plan: Configuration, *, stage: int) -> Prediction:
    """The first rank of a stage. Every parameter is padded to as many rows on each rank."""
    groups = pieces(plan, stage)
    shards = [sum(-(-rows // plan.dp) * each for rows, each in group) for group in groups]
    held = sum(shards)
    states = ModelStates(
        parameters=FP32 * held,
        gradients=FP32 * held,
        optimizer_states=2 * FP32 * held + STEP_COUNTER * sum(map(len, groups)),
    )
    axes = {"data": _data(plan, shards), "tensor": _tensor(plan, stage), "pipeline": _pipeline(plan, stage)}
    return Prediction(states=states, axes={axis: counts for axis, counts in axes.items() if counts})


def pieces(plan: Configuration, stage: int) -> list[list[Shape]]:
    """The shapes of the parameters on a tensor rank, by what is gathered at once."""
    d, t = plan.model.hidden, plan.tp
    first, last, tied = stage == 0, stage == plan.pp - 1, plan.model.tied and plan.pp == 1
    table: Shape = (plan.vocabulary // t, d)
    norm: list[Shape] = [(d, 1), (d, 1)]
    block = [(3 * d // t, d), (d, d // t), (d, 1), (4 * d // t, d), (4 * d // t, 1), (d, 4 * d // t), (d, 1)]
    positions: Shape = (plan.length // t if plan.sequence_parallel and t > 1 else plan.length, d)
    found = [norm + norm + block] * plan.layers[stage]
    if tied:
        return [[table, positions, *norm], *found]
    return [[table, positions]] * first + found + [[*norm, table]] * last


def _data(plan: Configuration, shards: list[int]) -> dict[str, Count]:
    """ZeRO-1 and 2 gather once a step, ZeRO-3 for each forward and each backward; ZeRO-1 reduces once."""
    if plan.dp == 1:
        return {}
    whole, m, number = plan.dp * sum(shards), plan.micro_batches, len(shards)
    gathers, scatters = (2 * m if plan.zero == 3 else 1), (m if plan.zero >= 2 else 1)
    return {
        "all_gather": Count(count=gathers * number, bytes=gathers * whole * plan.stack.parameter),
        "reduce_scatter": Count(count=scatters * number, bytes=scatters * whole * plan.stack.gradient),
    }


def _tensor(plan: Configuration, stage: int) -> dict[str, Count]:
    """What goes through the split products, three numbers for each prediction of the loss, and with sequence
    parallelism the gradients of norms and of positions.
    """
    if plan.tp == 1:
        return {}
    first, last, layers, m = stage == 0, stage == plan.pp - 1, plan.layers[stage], plan.micro_batches
    again = plan.recompute == "full"
    predictions = FP32 * plan.micro_batch * plan.length
    found: dict[str, Count] = {"all_reduce": moved("all_reduce", predictions, 3 * m * last)}
    if not plan.sequence_parallel:
        times = (5 if again else 4) * layers + first + last
        found["all_reduce"] = plus(found["all_reduce"], moved("all_reduce", _stream(plan), times * m))
        return found
    for name, more in (("all_gather", 2), ("reduce_scatter", 1)):
        times = (4 + more * again) * layers + first + last
        positions = moved(name, plan.length * plan.model.hidden * plan.stack.parameter, m * first)
        found[name] = plus(moved(name, _stream(plan), times * m), positions)
    reductions = m if plan.zero >= 2 else 1
    value = plan.stack.gradient if plan.zero <= 1 < m else plan.stack.parameter
    norms = moved("all_reduce", plan.model.hidden * value, (4 * layers + 2 * last) * reductions)
    found["all_reduce"] = plus(found["all_reduce"], norms)
    return {name: count for name, count in found.items() if count.count}


def _pipeline(plan: Configuration, stage: int) -> dict[str, Count]:
    """The gradient of a table on two stages is added up when it is a shard already, in fp32."""
    table = -(-(plan.vocabulary // plan.tp) // plan.dp) * plan.model.hidden * FP32
    return pipeline.collectives(
        rank=stage,
        stages=plan.pp,
        micro_batches=plan.micro_batches,
        message=_stream(plan) // (plan.tp if plan.sequence_parallel else 1),
        tied=table if plan.model.tied else 0,
    )


def _stream(plan: Configuration) -> int:
    """Bytes of the activations of one micro-batch, B S D, in the precision of the gathered parameters."""
    return plan.micro_batch * plan.length * plan.model.hidden * plan.stack.parameter
