"""What a checkpoint weighs, how often to save, and what failures cost (Young 1974; Daly 2006).

A save costs `cost` seconds of training, failures come `mtbf` seconds apart on average (mean time between failures) and
independently of each other, and a failure costs what was done since the last save and the `restart`.
"""

from __future__ import annotations

import math

from labs.planner.zero import PRECISIONS, STEP_COUNTER

RANDOM_STATE = 5056
"""Bytes of torch's generator of random numbers on the CPU."""


def checkpoint_bytes(*, parameters: int, precision: str = "bf16", tensors: int = 0, generators: int = 0) -> int:
    """Bytes of all that a run must keep: parameters and Adam's states, once, on however many ranks: 14 P in bf16 with
    fp32 master weights. Gradients are made anew. To the byte with Adam's step counter for each of `tensors` parameters
    and the random numbers of each of `generators` ranks.
    """
    cost = PRECISIONS[precision]
    return (cost.parameter + cost.optimizer_states) * parameters + STEP_COUNTER * tensors + RANDOM_STATE * generators


def lost_steps(*, done: int, interval: int) -> int:
    """Steps that are done again where a run fails after `done` of them and saves after every `interval`."""
    return done % interval


def cluster_mtbf(*, device_mtbf: float, devices: int) -> float:
    """Any of the devices ends the run, so failures come as many times as often."""
    return positive(device_mtbf, "device_mtbf") / positive(devices, "devices")


def young(*, cost: float, mtbf: float) -> float:
    """Seconds of training from one save to the next, with which saves and lost work together cost least:
    sqrt(2 cost mtbf) (Young 1974).
    """
    return math.sqrt(2 * positive(cost, "cost") * positive(mtbf, "mtbf"))


def daly(*, cost: float, mtbf: float) -> float:
    """The same to a higher order, for saves that are not short beside the mtbf (Daly 2006, equation 37)."""
    if positive(cost, "cost") >= 2 * positive(mtbf, "mtbf"):
        return mtbf
    share = math.sqrt(cost / (2 * mtbf))
    return young(cost=cost, mtbf=mtbf) * (1 + share / 3 + share**2 / 9) - cost


def lost_share(*, interval: float, cost: float, mtbf: float, restart: float = 0.0) -> float:
    """The share of the time that is no progress, to first order: each interval pays one save, and each failure half an
    interval and a restart: cost / interval + (interval / 2 + restart) / mtbf.
    """
    positive(interval, "interval")
    return positive(cost, "cost") / interval + (interval / 2 + restart) / positive(mtbf, "mtbf")


def goodput(*, interval: float, cost: float, mtbf: float, restart: float = 0.0) -> float:
    """The share of the time that is progress, with failures at any moment, in saves and restarts too (the complete
    model of Daly 2006): interval / (mtbf e^(restart / mtbf) (e^((interval + cost) / mtbf) - 1)).
    """
    length = (positive(interval, "interval") + positive(cost, "cost")) / positive(mtbf, "mtbf")
    return interval / (mtbf * math.exp(restart / mtbf) * math.expm1(length))


def positive(value: float, name: str) -> float:
    if not value > 0:
        raise ValueError(f"{name} is above zero, not {value}")
    return value
