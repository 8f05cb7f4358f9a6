"""The ZeRO lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/zero.py --stage 2`.

Every rank trains the course's GPT with data parallelism (stage 0) or a stage of ZeRO, watched by the tracker, and
reports its losses, the bytes it held and what its collectives moved. `--reference` trains the same on one process,
without any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from labs import training
from labs.data import micro_batches
from labs.model import GPT
from labs.options.zero import ZeroOptions
from labs.planner import peak
from labs.planner.zero import Piece, Prediction, pieces_of, predict
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import Strategy
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry.categories import Bytes

STRATEGIES: dict[int, Callable[..., Strategy]] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}


def train(options: ZeroOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        pieces = pieces_of(model.pieces)
        tracker.name_axis(group, "data")
        strategy = STRATEGIES[options.stage](model, model.pieces, group=group, recipe=training.recipe_of(options))

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            return training.mean_over_ranks(strategy.train_step(mine), group)

        report = training.steps(options, tracker, step)
    prediction = predict(
        pieces, stage=options.stage, ranks=ranks, precision=options.precision, micro_batches=options.accumulate
    )
    return report | {
        "parameters": sum(piece.trained + piece.frozen for piece in pieces),
        "predicted": {
            **training.predicted(
                prediction.states,
                peak=fullest(options, pieces, prediction, ranks=ranks),
                axes={"data": prediction.collectives},
            ),
            "communication": prediction.communication,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
    }


def fullest(options: ZeroOptions, pieces: Sequence[Piece], prediction: Prediction, *, ranks: int) -> int:
    """What the formula says that a rank holds at the most."""
    return peak.of_replica(
        training.sizes_of(options, ranks=ranks),
        pieces,
        modes=["none"] * options.layers,
        rest=prediction.states.total + training.read(options, ranks=ranks),
        precision=options.precision,
        ranks=ranks,
        stage=options.stage,
        tied=options.tied,
    )


def at_rest(options: ZeroOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=options.stage, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(ZeroOptions, train, training.reference)
