"""The context lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/context.py --order naive`.

All ranks train the course's GPT on the same sequences, each on its own positions, with ring attention. A rank reports
what every lab reports; the whole run also tells the work of each rank in each turn of the ring, and who waits.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist

from labs import training
from labs.data import micro_batches
from labs.model import GPT
from labs.options.context import ContextOptions
from labs.planner import context as formula
from labs.planner import peak
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies import context
from labs.strategies.data_parallel import DataParallel
from labs.telemetry.categories import Bytes


def train(options: ContextOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        tracker.name_axis(group, "context")
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        pieces = pieces_of(model.pieces)
        ring = context.parallelize(model, group=group, length=options.sequence, order=options.order)
        # All ranks hold all parameters, so gradients are treated as in data parallelism.
        strategy = DataParallel(model, model.pieces, group=group, recipe=training.recipe_of(options))

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            whole = micro_batches(batch, rank=0, ranks=1, accumulate=options.accumulate, device=device)
            loss = strategy.train_step([ring.share(tokens, targets) for tokens, targets in whole])
            return training.mean_over_ranks(loss, group)

        report = training.steps(options, tracker, step)

    prediction = predict(pieces, stage=0, ranks=ranks, precision=options.precision, micro_batches=options.accumulate)
    ring_alone = formula.collectives(
        layers=options.layers,
        hidden=options.hidden,
        sequence=options.sequence,
        batch=options.sequences_at_once(ranks),
        ranks=ranks,
        order=options.order,
        precision=options.precision,
        micro_batches=options.accumulate,
    )
    places = ring.places
    shared = peak.shares(sequences=options.sequences_at_once(ranks) * options.accumulate, positions=places.local)
    work = [[places.work(rank, (rank - turn) % ranks) for turn in range(ranks)] for rank in range(ranks)]
    return report | {
        "parameters": sum(piece.trained + piece.frozen for piece in pieces),
        "predicted": {
            **training.predicted(
                prediction.states,
                peak=peak.of_replica(
                    replace(
                        training.sizes_of(options, ranks=ranks),
                        positions=places.local,
                        context=ranks,
                        order=options.order,
                        place=rank,
                    ),
                    pieces,
                    modes=["none"] * options.layers,
                    rest=prediction.states.total + training.read(options, ranks=ranks) + shared,
                    precision=options.precision,
                    ranks=ranks,
                ),
                axes={"context": prediction.collectives | ring_alone},
            ),
            "collectives": {name: asdict(count) for name, count in (prediction.collectives | ring_alone).items()},
            "idle": formula.idle(formula.work(sequence=options.sequence, ranks=ranks, order=options.order)),
        },
        "whole": {"work": work, "waits": formula.waits(work), "idle": formula.idle(work)},
    }


def at_rest(options: ContextOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins: what it would hold alone."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=0, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(ContextOptions, train, training.reference)
