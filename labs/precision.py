"""The lab of mixed precision, an ordinary torchrun script: `torchrun --nproc-per-node 2 labs/precision.py`.

Every rank trains the course's GPT with data parallelism in one precision, with or without a scale on the loss. It
reports the scale of each step, which steps were skipped, which share of the gradients became zero, and which share of
the parameters moved at all. `--reference` trains the same in fp32 on one process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs import training
from labs.data import micro_batches
from labs.model import GPT, parameter_count
from labs.options.precision import PrecisionOptions
from labs.planner import peak
from labs.planner.zero import PRECISIONS, STEP_COUNTER, ModelStates, pieces_of, predict
from labs.runner import rank as this
from labs.strategies.precision import LossScaler, MixedPrecision, eight_bits
from labs.strategies.units import Recipe
from labs.telemetry.categories import Bytes, Count


def train(options: PrecisionOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        tracker.name_axis(group, "data")
        if options.precision == "fp8":
            eight_bits(model)
        dynamic, fixed = options.dynamic, options.fixed_scale
        scaler = LossScaler(
            scale=2.0**16 if fixed is None else fixed, dynamic=dynamic, interval=options.growth_interval, group=group
        )
        strategy = MixedPrecision(model, model.pieces, group=group, recipe=recipe_of(options), scaler=scaler)
        scales: list[float] = []
        skipped: list[int] = []

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            scales.append(scaler.scale)
            loss = training.mean_over_ranks(strategy.train_step(mine), group)
            if strategy.skipped:
                skipped.append(number)
            return loss

        report = training.steps(options, tracker, step)
    states, moves = states_of(options, ranks=ranks)
    moves["all_reduce"] += Count(count=1, bytes=8)  # whether a gradient overflows on any rank: one fp32 number
    return report | {
        "parameters": parameter_count(model),
        "predicted": {
            **training.predicted(states, peak=fullest(options, states, ranks=ranks), axes={"data": moves}),
            "communication": 0,
            "collectives": {name: count.as_dict() for name, count in moves.items()},
        },
        "whole": {
            "loss_scale": {"scales": scales, "skipped": skipped},
            "underflow": {
                "scale": scales[-1],
                "zero": underflow(options, ranks=ranks, scale=scales[-1]),
                "unscaled": underflow(options, ranks=ranks, scale=1.0),
            },
            "moved": moved(model, options),
        },
    }


def fullest(options: PrecisionOptions, states: ModelStates, *, ranks: int) -> int:
    """What the formula says that a rank holds at the most. In the optimizer's step all gradients are copied to fp32 at
    once. Beside them is what asks the largest unit whether all of it is finite (the absolute values, and one byte for
    each of three answers), or the copy of its gradients in the precision of the optimizer, where that is another.
    """
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    units = [-(-piece.trained // ranks) * ranks for piece in pieces]
    precision = "fp32" if options.precision == "fp32" else "bf16"
    again = PRECISIONS[precision].parameter if options.no_masters and precision == "bf16" else 0
    return peak.of_replica(
        training.sizes_of(options, ranks=ranks),
        pieces,
        modes=["none"] * options.layers,
        rest=states.total + training.read(options, ranks=ranks),
        precision=precision,
        ranks=ranks,
        update=peak.copies(units, precision=precision, together=True) + max(4 + 3, again) * max(units),
    )


def recipe_of(options: PrecisionOptions) -> Recipe:
    """Adam in fp32, or in the parameters' own precision where there are no master weights."""
    recipe = training.recipe_of(options)
    return replace(recipe, master=training.DTYPES[options.precision]) if options.no_masters else recipe


def underflow(options: PrecisionOptions, *, ranks: int, scale: float) -> float:
    """Of the gradients of the first batch that are not zero in fp32, the share that is zero in this precision."""
    batch = training.batch_of(options, 0, ranks=ranks)

    def gradients(precision: str) -> Tensor:
        model = GPT(training.shape_of(options), seed=options.seed, dtype=training.DTYPES[precision])
        if precision == "fp8":
            eight_bits(model)
        (model(*batch) * scale).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    exact, found = gradients("fp32"), gradients(options.precision)
    there = exact != 0
    return float((found[there] == 0).double().mean())


def moved(model: GPT, options: PrecisionOptions) -> float:
    """The share of the parameters that are no longer what they were before the first step."""
    before = GPT(training.shape_of(options), seed=options.seed, dtype=training.DTYPES[options.precision])
    pairs = zip(before.parameters(), model.parameters(), strict=True)
    changed = sum(int((a != b.cpu()).sum()) for a, b in pairs)
    return changed / parameter_count(before)


def states_of(options: PrecisionOptions, *, ranks: int) -> tuple[ModelStates, dict[str, Count]]:
    """By the formula: 2 + 2 + 12 bytes a parameter for all 16-bit formats, without master weights 2 + 2 + 4; and the
    all-reduces of the gradients.
    """
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    precision = "fp32" if options.precision == "fp32" else "bf16"
    told = predict(pieces, stage=0, ranks=ranks, precision=precision)
    moves = {name: Count(count=each.count, bytes=each.bytes) for name, each in told.collectives.items()}
    if precision == "fp32" or not options.no_masters:
        return told.states, moves
    counters = STEP_COUNTER * len(pieces)
    own = (told.states.optimizer_states - counters) // 3 + counters
    return replace(told.states, optimizer_states=own), moves


def reference(options: PrecisionOptions, *, ranks: int) -> list[float]:
    """Losses of the same training in fp32."""
    return training.reference(replace(options, precision="fp32"), ranks=ranks)


def at_rest(options: PrecisionOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins."""
    states, _ = states_of(options, ranks=ranks)
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(PrecisionOptions, train, reference)
