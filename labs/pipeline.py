"""The pipeline lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/pipeline.py --schedule 1f1b`.

Every rank holds some layers of the course's GPT and runs its part of the schedule, watched by the tracker. It reports
the bytes it held, what it sent and received, and, on the rank of the last stage, its losses. `--reference` trains the
same on one process, without any of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labs import training
from labs.data import micro_batches
from labs.model import GPT, VOCABULARY, parameter_count
from labs.options.pipeline import PipelineOptions
from labs.planner import peak
from labs.planner import pipeline as planner
from labs.planner.activations import Model
from labs.planner.zero import ModelStates, Piece, pieces_of, predict
from labs.runner import rank as this
from labs.strategies.pipeline import PipelineParallel, stages_of
from labs.strategies.schedules import bubble, in_flight, layers_of, timetable
from labs.telemetry.categories import Bytes


def train(options: PipelineOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        tracker.name_axis(group, "pipeline")
        model = training.model_of(options)
        parameters, mean_loss = parameter_count(model), model.loss
        strategy = PipelineParallel(
            model.pieces,
            orders=options.orders(ranks),
            hidden=options.hidden,
            loss=lambda logits, targets: mean_loss(logits.flatten(0, 1), targets.flatten()),
            group=group,
            recipe=training.recipe_of(options),
        )
        del model  # the layers of the other ranks

        def step(number: int) -> float | None:
            batch = training.batch_of(options, number, ranks=ranks)
            whole = micro_batches(batch, rank=0, ranks=1, accumulate=options.micro_batches, device=device)
            loss = strategy.train_step(whole)
            return None if loss is None else loss.item()

        report = training.steps(options, tracker, step)
    return report | {
        "parameters": parameters,
        "predicted": predicted(options, ranks=ranks, rank=rank),
        "whole": whole_run(options, ranks=ranks),
    }


def whole_run(options: PipelineOptions, *, ranks: int) -> dict[str, Any]:
    """What is counted from the schedule, and how the model is cut."""
    orders = options.orders(ranks)
    table = timetable(orders)
    stages = ranks * options.chunks_a_rank
    return {
        "timetable": [[None if slot is None else str(slot) for slot in row] for row in table],
        "bubble": bubble(table),
        "in_flight": [in_flight(order) for order in orders],
        "stages": [
            {"rank": stage % ranks, "layers": layers, "parameters": parameters}
            for stage, (layers, parameters) in enumerate(
                zip(layers_of(layers=options.layers, stages=stages), sizes(options, stages=stages), strict=True)
            )
        ],
    }


def predicted(options: PipelineOptions, *, ranks: int, rank: int) -> dict[str, Any]:
    """What the formulas say of this rank."""
    micro_batch, value = options.sequences_at_once(ranks), planner.VALUE[options.precision]
    message = planner.message(
        micro_batch=micro_batch, sequence=options.sequence, hidden=options.hidden, precision=options.precision
    )
    sent = planner.collectives(
        rank=rank,
        stages=ranks,
        micro_batches=options.micro_batches,
        message=message,
        chunks=options.chunks_a_rank,
        tied=VOCABULARY * options.hidden * value if options.tied else 0,
    )
    order = options.orders(ranks)[rank]
    shape: dict[str, Any] = {"schedule": options.schedule, "stages": ranks, "micro_batches": options.micro_batches}
    return {
        **training.predicted(
            states(options, ranks=ranks, rank=rank),
            peak=fullest(options, message=message, ranks=ranks, rank=rank),
            axes={"pipeline": sent} if sent else {},
        ),
        "collectives": {name: asdict(count) for name, count in sent.items()},
        "activations": planner.activations(order, kept(options, ranks=ranks)[rank::ranks]),
        "bubble": planner.bubble(**shape, chunks=options.chunks_a_rank),
        "in_flight": planner.in_flight(**shape, rank=rank, chunks=options.chunks_a_rank),
    }


def fullest(options: PipelineOptions, *, message: int, ranks: int, rank: int) -> int:
    """What the formula says that a rank holds at the most."""
    sizes = training.sizes_of(options, ranks=ranks)
    layers = layers_of(layers=options.layers, stages=ranks * options.chunks_a_rank)
    units = [piece.trained for piece in own_pieces(options, ranks=ranks, rank=rank)]
    return peak.of_stage(
        peak.chunks(sizes, ["none"] * options.layers, layers)[rank::ranks],
        orders=options.orders(ranks),
        place=rank,
        message=message,
        rest=states(options, ranks=ranks, rank=rank).total + training.read(options, ranks=ranks),
        tied=sizes.table if options.tied and ranks == 1 else 0,
        update=peak.copies(units, precision=options.precision),
    )


def meta_stages(options: PipelineOptions, *, stages: int) -> list[list[nn.Module]]:
    """The model's pieces by stage, without memory."""
    with torch.device("meta"):
        return stages_of(GPT(training.shape_of(options)).pieces, stages=stages)


def sizes(options: PipelineOptions, *, stages: int) -> list[int]:
    """Parameters of each stage; a tied weight counts on both stages that have it."""
    return [parameter_count(nn.ModuleList(stage)) for stage in meta_stages(options, stages=stages)]


def own_pieces(options: PipelineOptions, *, ranks: int, rank: int) -> list[Piece]:
    """Of the pieces of a rank's stages."""
    mine = meta_stages(options, stages=ranks * options.chunks_a_rank)[rank::ranks]
    return pieces_of([piece for stage in mine for piece in stage])


def states(options: PipelineOptions, *, ranks: int, rank: int) -> ModelStates:
    """Model states of a rank: the formula of one process, on the pieces of its stages alone."""
    return predict(own_pieces(options, ranks=ranks, rank=rank), stage=0, ranks=1, precision=options.precision).states


def kept(options: PipelineOptions, *, ranks: int) -> list[planner.Kept]:
    """Bytes of activations that each stage keeps of one micro-batch."""
    model = Model(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.sequence,
        batch=options.sequences_at_once(ranks),
        value=planner.VALUE[options.precision],
        vocabulary=VOCABULARY,
        fused=True,
    )
    return planner.kept(model, layers_of(layers=options.layers, stages=ranks * options.chunks_a_rank))


def at_rest(options: PipelineOptions, *, ranks: int, rank: int = 0) -> Bytes:
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    held = states(options, ranks=ranks, rank=rank)
    return Bytes(parameters=held.parameters, gradients=held.gradients, optimizer_states=held.optimizer_states)


if __name__ == "__main__":
    training.main(PipelineOptions, train, training.reference)
