"""What the options of a decision cost beside each other: bytes, seconds, days and money for each, and what a slower one
costs more over a whole run.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner.configuration import Configuration
from labs.planner.fsdp_units import of_equal_units
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.memory import memory
from labs.planner.offload import states_offloaded
from labs.planner.throughput import throughput
from labs.planner.zero import PRECISIONS, STAGES, model_states


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to train on one machine: the bytes of its fullest rank, seconds a step, and days and cost of a run of so
    many tokens.
    """

    plan: Configuration
    bytes: int
    fits: bool
    seconds: float
    days: float
    cost: float


def option(plan: Configuration, *, gpu: Accelerator, tokens: float, price: float) -> Option:
    """`price` is what an accelerator costs an hour."""
    held = memory(plan, gpu=gpu)
    told = throughput(plan, gpu=gpu, tokens=tokens, price=price)
    assert told.days is not None
    assert told.cost is not None
    return Option(
        plan=plan,
        bytes=held.total,
        fits=bool(held.fits),
        seconds=told.seconds_per_step,
        days=told.days,
        cost=told.cost,
    )


def extra_cost(*, slower: float, faster: float, steps: int, gpus: int, price: float) -> float:
    """What a run costs more with `slower` seconds a step in the place of `faster`, in the currency of `price`, which is
    for an accelerator and hour.
    """
    return (slower - faster) * steps * gpus * price / 3600


def steps_to_pay(*, work: float, slower: float, faster: float, gpus: int, price: float) -> float:
    """After how many steps a faster layout has paid for `work`, which it costs to get it running."""
    return work / extra_cost(slower=slower, faster=faster, steps=1, gpus=gpus, price=price)


def host_bytes(*, parameters: int, precision: str = "bf16") -> int:
    """Of one GPU in the host's memory, where states and gradients rest there: 14 bytes a parameter in bf16."""
    return states_offloaded(parameters=parameters, precision=precision) + PRECISIONS[precision].gradient * parameters


def lowest_stage(*, parameters: int, ranks: int, room: float, precision: str = "bf16") -> int:
    """The lowest stage of ZeRO whose model states fit into `room` bytes on each rank. Raises ValueError where none
    does.
    """
    for stage in STAGES:
        if model_states(parameters=parameters, stage=stage, ranks=ranks, precision=precision).total <= room:
            return stage
    raise ValueError("no stage fits")


def fsdp_bytes(*, parameters: int, units: int, ranks: int, sharding: str = "free") -> int:
    """Of FSDP2 with shards in fp32 and gathers in bf16: model states, and gathered parameters with their buffers at the
    most, on one rank. Nothing for activations.
    """
    told = of_equal_units(parameters=parameters, units=units, sharding=sharding, ranks=ranks)
    return told.states.total + told.gathered


def reached(*, name: str) -> float:
    """The share of an accelerator's peak in bf16 that the best product which anyone measured has reached. Raises
    ValueError where none is known.
    """
    gpu = accelerator(name)
    if gpu.achieved is None:
        raise ValueError(f"no product of {gpu.title} is known")
    return gpu.achieved / gpu.peak
