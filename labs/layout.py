"""The layout lab, an ordinary torchrun script: `torchrun --nproc-per-node 8 labs/layout.py --dp 2 --pp 2 --tp 2`.

Every rank trains its part of the course's GPT at its place on the device mesh, watched by the tracker: losses on the
last stage, the bytes it held, and what it sent on each axis. `--reference` trains the same on one process, without any
of it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch.distributed as dist

from labs import training
from labs.data import micro_batches
from labs.model import VOCABULARY, parameter_count
from labs.options.layout import LayoutOptions
from labs.planner import peak
from labs.planner.layout import Training, pieces, states, traffic, true_positions, whole
from labs.runner import rank as this
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.schedules import bubble, in_flight, layers_of, timetable
from labs.telemetry.categories import Bytes


def train(options: LayoutOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        layout = options.checked(ranks=ranks).shape()
        here = layout.coordinates(rank)
        model = training.model_of(options)
        parameters = parameter_count(model)
        strategy = Parallel(
            model.pieces,
            layout=layout,
            mesh=mesh_of(layout, device=device.type),
            orders=options.orders(),
            hidden=options.hidden,
            length=options.sequence,
            loss=model.loss,
            recipe=training.recipe_of(options),
            recomputed=options.recompute,
        )
        for axis, own in strategy.groups.items():
            tracker.name_axis(own, axis)
        del model  # the layers of other stages, the other parts of each matrix

        def step(number: int) -> float | None:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(
                batch, rank=here["data"], ranks=layout.dp, accumulate=options.micro_batches, device=device
            )
            loss = strategy.train_step(mine)
            return None if loss is None else training.mean_over_ranks(loss, strategy.data)

        report = training.steps(options, tracker, step)
    return report | {
        "parameters": parameters,
        "coordinates": here,
        "predicted": predicted(options, rank=rank),
        "whole": whole_run(options),
    }


def trained(options: LayoutOptions) -> Training:
    """What the formulas are asked about."""
    return Training(
        layout=options.shape(),
        layers=options.layers,
        hidden=options.hidden,
        sequence=options.sequence,
        micro_batch=options.sequences_at_once(options.ranks()),
        micro_batches=options.micro_batches,
        precision=options.precision,
        vocabulary=VOCABULARY,
        tied=options.tied,
        recompute=options.recompute,
    )


def predicted(options: LayoutOptions, *, rank: int) -> dict[str, Any]:
    """What the formulas say of a rank."""
    moved = traffic(trained(options), rank)
    return training.predicted(states(trained(options), rank), peak=fullest(options, rank=rank), axes=moved) | {
        "axes": {axis: {name: asdict(count) for name, count in counts.items()} for axis, counts in moved.items()},
    }


def fullest(options: LayoutOptions, *, rank: int) -> int:
    """What the formula says that a rank holds at the most. What a tensor rank has whole is summed in one buffer with
    sequence parallelism; a context rank also keeps its own positions of every micro-batch.
    """
    told, layout, ranks = trained(options), options.shape(), options.ranks()
    here, local = layout.coordinates(rank), layout.positions(options.sequence)
    sizes = replace(
        training.sizes_of(options, ranks=ranks),
        positions=local,
        vocabulary=told.vocabulary_rows,
        filled=(here["tensor"] + 1) * told.vocabulary_rows > VOCABULARY,
        tensor=layout.tp,
        sequence_parallel=layout.sequence and layout.tp > 1,
        context=layout.cp,
        chosen=true_positions(told, rank) < local,
    )
    own = peak.shares(sequences=told.micro_batch * told.micro_batches, positions=local) if layout.cp > 1 else 0
    every = layers_of(layers=options.layers, stages=layout.pp * layout.chunks)
    shared = layout.dp * layout.cp
    units = [-(-piece.trained // shared) * (1 if layout.zero else shared) for piece in pieces(told, rank)]
    summed = whole(told, rank) * told.value if sizes.sequence_parallel else 0
    return peak.of_stage(
        peak.chunks(sizes, [options.recompute] * options.layers, every)[here["pipeline"] :: layout.pp],
        orders=options.orders(),
        place=here["pipeline"],
        message=sizes.outer,
        rest=states(told, rank).total + training.read(options, ranks=ranks) + own,
        tied=sizes.table if options.tied and layout.pp == 1 else 0,
        update=max(summed, peak.copies(units, precision=options.precision)),
    )


def whole_run(options: LayoutOptions) -> dict[str, Any]:
    """The groups of each axis, and what is counted from the schedule: rank by rank, of the stage that it has."""
    orders, layout = options.orders(), options.shape()
    table = timetable(orders)
    stages = [layout.coordinates(rank)["pipeline"] for rank in range(layout.ranks())]
    return {
        "groups": {axis: layout.groups(axis) for axis in layout.degrees()},
        "timetable": [[None if slot is None else str(slot) for slot in table[stage]] for stage in stages],
        "bubble": bubble(table),
        "in_flight": [in_flight(orders[stage]) for stage in stages],
    }


def at_rest(options: LayoutOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    held = states(trained(options), rank)
    return Bytes(parameters=held.parameters, gradients=held.gradients, optimizer_states=held.optimizer_states)


if __name__ == "__main__":
    training.main(LayoutOptions, train, training.reference)
