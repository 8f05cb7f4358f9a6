"""The lab of activation checkpointing, a torchrun script: `torchrun --nproc-per-node 4 labs/recompute.py`.

With `--recompute full`, `selective` or `every` blocks run again in backward. Every rank trains the course's GPT with
data parallelism, and reports the bytes of activations that it kept between forward and backward, their peak, and the
operations that ran again. `--reference` does the work of all ranks on one process, one after the other, and recomputes
nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from labs import training
from labs.data import micro_batches
from labs.model import GPT, VOCABULARY, parameter_count
from labs.options.recompute import RecomputeOptions
from labs.planner import activations, peak
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.recompute import recompute
from labs.telemetry.categories import Bytes


def train(options: RecomputeOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        recompute(model, mode=options.recompute, every=options.every)
        tracker.name_axis(group, "data")
        strategy = DataParallel(model, model.pieces, group=group, recipe=training.recipe_of(options))
        kept: list[int] = []
        model.register_forward_hook(lambda *_: kept.append(tracker.now.activations))

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            kept.clear()
            torch.manual_seed(chance(options, step=number, rank=rank))
            return training.mean_over_ranks(strategy.train_step(mine), group)

        report = training.steps(options, tracker, step)
    sizes, mode, every = sizes_of(options, ranks=ranks), options.recompute, options.every
    prediction = predict(pieces_of(model.pieces), stage=0, ranks=ranks, precision=options.precision)
    highest, counted = report["bytes"]["peak"]["activations"], flops(options, ranks=ranks)
    return report | {
        "parameters": parameter_count(model),
        "predicted": {
            **training.predicted(
                prediction.states,
                peak=peak.of_replica(
                    training.sizes_of(options, ranks=ranks),
                    pieces_of(model.pieces),
                    modes=sizes.modes(mode, every),
                    rest=prediction.states.total + training.read(options, ranks=ranks),
                    precision=options.precision,
                    ranks=ranks,
                ),
                axes={"data": prediction.collectives},
            ),
            "communication": prediction.communication,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
        "whole": {
            "activations": {
                "kept": {"measured": kept[0], "formula": sizes.kept(mode, every)},
                "peak": {"measured": highest, "formula": sizes.peak(mode, every)},
            },
            "forward_flops": {"measured": counted["forward"], "formula": sizes.forward_flops},
            "recomputed_flops": {
                "measured": counted["recomputed"],
                "formula": sizes.recomputed_flops(mode, every),
            },
        },
    }


def chance(options: RecomputeOptions, *, step: int, rank: int) -> int:
    """The seed of a rank's dropout in a step."""
    return ((options.seed * 1_000_003 + step) * 1_009 + rank) % 2**63


def sizes_of(options: RecomputeOptions, *, ranks: int) -> activations.Model:
    """What decides on one rank's activations in one micro-batch."""
    return activations.Model(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.sequence,
        batch=options.sequences_at_once(ranks),
        value=training.DTYPES[options.precision].itemsize,
        vocabulary=VOCABULARY,
        dropout=options.dropout > 0,
        fused=options.fused,
    )


def flops(options: RecomputeOptions, *, ranks: int) -> dict[str, int]:
    """Operations of the products in one micro-batch, counted by torch while it runs on tensors without values: of
    forward, and of what runs again in backward.
    """

    def counted(mode: str) -> tuple[int, int]:
        with torch.device("meta"):
            model = GPT(training.shape_of(options))
            tokens = torch.zeros(options.sequences_at_once(ranks), options.sequence, dtype=torch.long)
        recompute(model, mode=mode, every=options.every)
        with FlopCounterMode(display=False) as counter:
            loss: Tensor = model(tokens, tokens)
            forward = counter.get_total_flops()
            loss.backward()  # type: ignore[no-untyped-call]
            return forward, counter.get_total_flops()

    forward, without = counted("none")
    _, total = counted(options.recompute)
    return {"forward": forward, "recomputed": total - without}


def reference(options: RecomputeOptions, *, ranks: int) -> list[float]:
    """Losses of one process that does the work of each rank in turn, with that rank's dropout."""

    def gradients(model: GPT, step: int) -> float:
        batch, losses = training.batch_of(options, step, ranks=ranks), []
        for rank in range(ranks):
            torch.manual_seed(chance(options, step=step, rank=rank))
            for tokens, targets in micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate):
                loss: Tensor = model(tokens, targets) / (ranks * options.accumulate)
                loss.backward()  # type: ignore[no-untyped-call]
                losses.append(loss.item())
        return sum(losses)

    return training.alone(options, gradients)


def at_rest(options: RecomputeOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins: model states, and no activations."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=0, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(RecomputeOptions, train, reference)
