"""A layout under sequences as long as real ones: what a benchmark on sequences of one length does not ask.

All ranks wait for the slowest. A copy takes its micro-batches one after the other, and in a pipeline the longest of
them sets how long the filling and the emptying take; of all copies the slowest ends the step:

    step  =  max over copies of (sum of t_j + (p - 1) / v * max of t_j)        t_j  seconds of micro-batch j on a stage

With equal t_j that is m t (1 + (p - 1) / (v m)), the bubble of the planner. The sum and the maximum are exact for
stages of equal speed that take micro-batches in one order (a flow shop in which each job takes as long on every
machine); that chunks divide the maximum by v is carried over from equal lengths.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator
from labs.planner.links import axes, in_the_open
from labs.planner.memory import in_flight, memory
from labs.planner.throughput import LAYER, compute_seconds, step_flops

STEPS = 40
"""Batches that are drawn, of which the mean and the quantiles are taken."""


def lengths(count: int, *, mean: int, spread: float, most: int, seed: int = 0) -> list[int]:
    """Lengths of `count` sequences whose logarithm is normally distributed around `mean` with that `spread`, cut off at
    `most` tokens; `spread` 0 is the benchmark, in which all are equally long.
    """
    draw, middle = random.Random(seed), math.log(mean) - spread**2 / 2
    return [max(1, min(most, round(draw.lognormvariate(middle, spread)))) for _ in range(count)]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them does not exceed: p99 is `share` 0.99."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"a share of ({len(values)} values) above 0 and up to 1, not {share}")
    return sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds of one step, and the tokens that were trained in it (padding is none)."""

    seconds: float
    tokens: int


def step(plan: Configuration, drawn: Sequence[int], *, gpu: Accelerator, efficiency: float = LAYER) -> Step:
    """One batch with sequences of the lengths `drawn`, dealt out to the copies in turn. A micro-batch is padded to its
    longest sequence.
    """
    if len(drawn) != plan.global_batch:
        raise ValueError(f"{plan.global_batch} sequences make a batch, not {len(drawn)}")
    time_of = _times(plan, gpu=gpu, efficiency=efficiency)
    each, size = plan.micro_batch * plan.micro_batches, plan.micro_batch
    slowest = 0.0
    for copy in range(plan.dp):
        mine = drawn[copy * each : (copy + 1) * each]
        times = [time_of(max(mine[at : at + size])) for at in range(0, each, size)]
        slowest = max(slowest, copy_seconds(times, stages=plan.pp, chunks=plan.interleave))
    computing = compute_seconds(plan, gpu=gpu, efficiency=efficiency)
    sent = in_the_open(axes(plan, gpu=gpu), computing=computing)
    return Step(seconds=slowest + sent["data"] + sent["pipeline"], tokens=sum(drawn))


def copy_seconds(times: Sequence[float], *, stages: int, chunks: int = 1) -> float:
    """What one copy takes: its micro-batches one after the other, and the longest at each further stage."""
    return sum(times) + (stages - 1) / chunks * max(times)


def one_long(*, usual: float, count: int, longest: float, stages: int, chunks: int = 1) -> float:
    """The same where one of `count` micro-batches takes `longest` and all others `usual` seconds."""
    return copy_seconds([*[usual] * (count - 1), longest], stages=stages, chunks=chunks)


def _times(plan: Configuration, *, gpu: Accelerator, efficiency: float) -> Callable[[int], float]:
    """Seconds of a micro-batch on a stage, by the length to which it is padded. Operations are a polynomial of second
    degree in the length, so two lengths give it; what tensor ranks exchange grows with the tokens alone.
    """
    computing = compute_seconds(plan, gpu=gpu, efficiency=efficiency) / plan.micro_batches
    sent = in_the_open(axes(plan, gpu=gpu), computing=computing * plan.micro_batches)
    exchanged = (sent["tensor"] + sent["context"]) / plan.micro_batches
    usual = plan.length
    one, two = step_flops(plan), step_flops(replace(plan, sequence=2 * usual))
    square = (two - 2 * one) / 2 / one
    linear = 1 - square

    def seconds(length: int) -> float:
        share = length / usual
        return computing * (linear * share + square * share**2) + exchanged * share

    return seconds


def longest_bytes(plan: Configuration, *, longest: int) -> int:
    """Bytes of the fullest rank at the moment in which one of its micro-batches in flight has sequences of `longest`
    tokens and the others are as the plan says.
    """
    held, far = memory(plan), memory(replace(plan, sequence=longest))
    flying = in_flight(plan, stage=held.stage)
    more = far.bars.activations - held.bars.activations
    return held.total + round(more / flying) + far.bars.logits - held.bars.logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A layout over many batches: tokens a second in the mean, and quantiles of a step's seconds."""

    plan: Configuration
    tokens_per_second: float
    mean: float
    p50: float
    p99: float


def measured(
    plan: Configuration, *, gpu: Accelerator, spread: float, most: int, steps: int = STEPS, seed: int = 0
) -> Measured:
    """The same batches for every layout of the same batch size."""
    found = list(_steps(plan, gpu=gpu, spread=spread, most=most, steps=steps, seed=seed))
    seconds = [each.seconds for each in found]
    return Measured(
        plan=plan,
        tokens_per_second=sum(each.tokens for each in found) / sum(seconds),
        mean=sum(seconds) / len(seconds),
        p50=quantile(seconds, 0.5),
        p99=quantile(seconds, 0.99),
    )


def _steps(plan: Configuration, *, gpu: Accelerator, spread: float, most: int, steps: int, seed: int) -> Iterator[Step]:
    for number in range(steps):
        drawn = lengths(plan.global_batch, mean=plan.length, spread=spread, most=most, seed=1000 * seed + number)
        yield step(plan, drawn, gpu=gpu)
