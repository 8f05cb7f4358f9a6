"""The overlap lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/overlap.py --bandwidth 200`.

Data parallelism or a stage of ZeRO whose collectives run while the ranks compute, or with `--blocking` one after the
other. Every rank traces its last step and reports when it computed, when its collectives ran, and which share of them
computation hid. `--bandwidth` makes the link between the ranks slow enough to see it on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

import translations
from labs import training
from labs.data import micro_batches
from labs.link import Link
from labs.model import GPT
from labs.options.overlap import OverlapOptions
from labs.planner import peak
from labs.planner.overlap import buckets_of, communication_peak
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.overlap import OverlappedDataParallel, OverlappedZero1, OverlappedZero2, OverlappedZero3
from labs.strategies.units import Strategy
from labs.telemetry.categories import Bytes
from labs.telemetry.profiling import traced
from labs.telemetry.trace import Lanes
from labs.zero import STRATEGIES


def strategy_of(options: OverlapOptions) -> Callable[..., Strategy]:
    """The stage's strategy, with overlap or without."""
    if options.blocking:
        return STRATEGIES[options.stage]
    overlapped: dict[int, Callable[..., Strategy]] = {
        0: partial(OverlappedDataParallel, bucket=round(options.bucket * 1e6)),
        1: OverlappedZero1,
        2: partial(OverlappedZero2, buckets=options.buckets),
        3: partial(OverlappedZero3, ahead=options.ahead, buckets=options.buckets),
    }
    return overlapped[options.stage]


def train(options: OverlapOptions) -> dict[str, Any]:
    """What this rank reports."""
    device = this.device()
    slow = options.bandwidth is not None and device.type == "cpu"
    if options.bandwidth is not None and not slow and this.number() == 0:
        print(translations.translator(translations.preferred())("labs.overlap-link-of-device"), flush=True)
    link = Link(options.bandwidth * 1e6 if slow and options.bandwidth else None)
    found: list[Lanes] = []
    seconds: list[float] = []
    with this.group() as group, training.watched(options) as tracker, link:
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        model = training.model_of(options)
        pieces = pieces_of(model.pieces)
        tracker.name_axis(group, "data")
        if options.straggle and rank == ranks - 1:
            # Inside of the phase, as a slow GPU would be.
            model.register_forward_pre_hook(lambda *_: time.sleep(options.straggle))
        strategy = strategy_of(options)(model, model.pieces, group=group, recipe=training.recipe_of(options))

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            if number == options.steps - 1:
                with traced(found):
                    loss = strategy.train_step(mine)
            else:
                started = time.perf_counter()
                loss = strategy.train_step(mine)
                seconds.append(time.perf_counter() - started)
            return training.mean_over_ranks(loss, group)

        report = training.steps(options, tracker, step)
        hidden = training.mean_over_ranks(torch.tensor(found[0].hidden), group)
    prediction = predict(
        pieces, stage=options.stage, ranks=ranks, precision=options.precision, micro_batches=options.accumulate
    )
    collectives = {name: asdict(count) for name, count in prediction.collectives.items()}
    if options.stage == 0 and not options.blocking:
        least = round(options.bucket * 1e6)
        reduced = buckets_of(pieces, ranks=ranks, precision=options.precision, bucket=least)
        collectives = {"all_reduce": {"count": len(reduced), "bytes": 2 * sum(reduced)}}
    in_flight = communication_peak(
        pieces,
        stage=options.stage,
        ranks=ranks,
        precision=options.precision,
        ahead=options.ahead,
        buckets=options.buckets,
    )
    return report | {
        "parameters": sum(piece.trained + piece.frozen for piece in pieces),
        "step_seconds": sorted(seconds)[len(seconds) // 2],
        "hidden": found[0].hidden,
        "trace": found[0].as_dict(),
        "whole": {"hidden": hidden},
        "predicted": {
            **training.predicted(
                prediction.states,
                peak=peak.of_replica(
                    training.sizes_of(options, ranks=ranks),
                    pieces,
                    modes=["none"] * options.layers,
                    rest=prediction.states.total + training.read(options, ranks=ranks),
                    precision=options.precision,
                    ranks=ranks,
                    stage=options.stage,
                    tied=options.tied,
                    overlap=None if options.blocking else peak.Overlap(buckets=options.buckets, ahead=options.ahead),
                ),
                axes={"data": prediction.collectives},
            ),
            "communication": prediction.communication if options.blocking else in_flight,
            "collectives": collectives,
        },
    }


def at_rest(options: OverlapOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins: overlap changes nothing of it."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=options.stage, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(OverlapOptions, train, training.reference)
