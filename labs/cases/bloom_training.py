"""BLOOM's training in small, an ordinary torchrun script: `torchrun --nproc-per-node 8 labs/cases/bloom_training.py`.

BLOOM-176B was trained on 8 data, 12 pipeline and 4 tensor ranks, and every block was recomputed in backward (Le Scao et
al. 2022, section 3.3). Here each axis has two ranks; after the last step each rank saves its part of the model.
`--reference` trains the same on one process.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs import layout as layout_lab
from labs import training
from labs.cases.bloom import Bloom, BloomShape, split_slopes
from labs.cases.rows import Row
from labs.catalogue import run_lab
from labs.data import micro_batches
from labs.model import parameter_count
from labs.options.bloom_training import BloomTrainingOptions
from labs.planner.layout import Training, states, traffic
from labs.runner import rank as this
from labs.strategies.checkpoint import Checkpoints, contents, read_whole
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.parts import Part, names_of, parts_of, places_of, shapes_in
from labs.telemetry.categories import Bytes

MODEL = "model."
"""What the names of parameters begin with in a checkpoint."""


def shape_of(options: BloomTrainingOptions) -> BloomShape:
    return BloomShape(layers=options.layers, hidden=options.hidden, heads=options.heads, sequence=options.sequence)


def model_of(options: BloomTrainingOptions) -> Bloom:
    """The whole model, the same on every rank."""
    with record_function("parameters"):
        dtype = training.DTYPES[options.precision]
        return Bloom(shape_of(options), seed=options.seed, dtype=dtype).to(this.device())


class Run:
    """One rank of the run: its part of the model on the mesh, and where each of its parameters lies in the whole."""

    def __init__(self, options: BloomTrainingOptions, *, ranks: int) -> None:
        self.options, self.ranks, self.device = options, ranks, this.device()
        layout = options.checked(ranks=ranks).shape()
        self.here = layout.coordinates(dist.get_rank())
        model = model_of(options)
        self.parameters, names = parameter_count(model), names_of(model)
        self.strategy = Parallel(
            model.pieces,
            layout=layout,
            mesh=mesh_of(layout, device=self.device.type),
            orders=options.orders(),
            hidden=options.hidden,
            length=options.sequence,
            loss=model.loss,
            recipe=training.recipe_of(options),
            recomputed=options.recompute,
        )
        split_slopes(self.strategy.model, rank=self.here["tensor"], ranks=layout.tp)
        self.names = {p: names[p] for p in self.strategy.model.parameters()}  # the others go

    def step(self, number: int) -> float | None:
        """The loss of the whole batch, on ranks of the last stage."""
        batch, options = training.batch_of(self.options, number, ranks=self.ranks), self.options
        mine = micro_batches(
            batch, rank=self.here["data"], ranks=options.dp, accumulate=options.micro_batches, device=self.device
        )
        loss = self.strategy.train_step(mine)
        return None if loss is None else training.mean_over_ranks(loss, self.strategy.data)

    def parts(self) -> list[Part]:
        """The model states of this rank. The first stage saves the tied weight for both."""
        copies = {tied.weight for tied in self.strategy.tied if tied.ranks[0] != self.here["pipeline"]}
        shapes = shapes_in(self.strategy.units)
        return parts_of(self.strategy.units, places_of(shapes, self.names, rank=self.here["tensor"], copies=copies))


def train(options: BloomTrainingOptions) -> dict[str, Any]:
    """What this rank reports."""
    given = (
        nullcontext(options.checkpoints)
        if options.checkpoints
        else tempfile.TemporaryDirectory(prefix="shardwise-", dir=os.environ.get("SHARDWISE_RUN"))
    )
    with this.group() as group, training.watched(options) as tracker, given as place:
        folder = [place]  # rank 0's, on a disk that all ranks see
        dist.broadcast_object_list(folder, src=0, group=group)
        run = Run(options, ranks=dist.get_world_size(group))
        for axis, own in run.strategy.groups.items():
            tracker.name_axis(own, axis)
        report = training.steps(options, tracker, run.step)
        checkpoints = Checkpoints(Path(str(folder[0])))
        checkpoints.save(run.parts(), {"step": options.steps}, step=options.steps)
        checkpoints.wait()
        saved = checkpoint_of(options, Path(str(folder[0]))) if dist.get_rank(group) == 0 else {}
        dist.barrier(group=group)  # before rank 0's folder goes
    return report | {
        "parameters": run.parameters,
        "coordinates": run.here,
        "predicted": predicted(options, rank=report["rank"]),
        "whole": layout_lab.whole_run(options) | {"checkpoint": saved},
    }


def checkpoint_of(options: BloomTrainingOptions, folder: Path) -> dict[str, Any]:
    """What was saved, and the loss of the batch after the last one by the whole model as one process loads it."""
    boxes = [box for box in contents(folder, options.steps) if box.name.startswith(MODEL)]
    model = loaded(options, folder, step=options.steps)
    with torch.no_grad():
        loss = model(*training.batch_of(options, options.steps, ranks=options.ranks()))
    return {
        "files": len({box.file for box in boxes}),
        "boxes": len(boxes),
        "bytes": sum(box.bytes for box in boxes),
        "next_loss": loss.item(),
    }


def loaded(options: BloomTrainingOptions, folder: Path, *, step: int) -> Bloom:
    """The whole model out of the parts that the ranks have saved."""
    model = Bloom(shape_of(options), dtype=training.DTYPES[options.precision])
    found, _ = read_whole(folder, step)
    weights = {name.removeprefix(MODEL): tensor for name, tensor in found.items() if name.startswith(MODEL)}
    with torch.no_grad():
        for p, name in names_of(model).items():
            p.copy_(weights[name])
    return model


def trained(options: BloomTrainingOptions) -> Training:
    """What the formulas are asked about."""
    return replace(layout_lab.trained(options), tied=True, query_biases=True, positions=False, embedding_norm=True)


def predicted(options: BloomTrainingOptions, *, rank: int) -> dict[str, Any]:
    """What the formulas say of a rank."""
    return {
        "states": asdict(states(trained(options), rank)),
        "axes": {
            axis: {name: asdict(count) for name, count in counts.items()}
            for axis, counts in traffic(trained(options), rank).items()
        },
    }


def reference(options: BloomTrainingOptions, *, ranks: int) -> list[float]:
    """Losses of the same training on one process."""
    return training.reference(options, ranks=ranks, model=model_of(options))


def results() -> list[Row]:
    """For the table of all cases."""
    data = run_lab("bloom-training").data
    losses: list[float] = data["ranks"][-1]["losses"]
    apart = max(abs(a - b) for a, b in zip(losses, data["reference_losses"], strict=True))
    states = [sum(each["bytes"]["rest"][name] for name in each["predicted"]["states"]) for each in data["ranks"]]
    foretold = [sum(each["predicted"]["states"].values()) for each in data["ranks"]]
    return [
        Row(name="bloom-losses-apart", value=apart),
        Row(name="bloom-states-fullest", value=max(states), unit="B"),
        Row(name="bloom-states-formula", value=max(foretold), unit="B"),
        Row(name="bloom-checkpoint", value=data["checkpoint"]["bytes"], unit="B"),
        Row(name="bloom-files", value=data["checkpoint"]["files"]),
    ]


def at_rest(options: BloomTrainingOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    held = states(trained(options), rank)
    return Bytes(parameters=held.parameters, gradients=held.gradients, optimizer_states=held.optimizer_states)


if __name__ == "__main__":
    training.main(BloomTrainingOptions, train, reference)
