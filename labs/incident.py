"""The incident lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/incident.py --kind bad-gradient`.

Ranks train with data parallelism and save a checkpoint now and then. In one step something goes wrong on one rank, or
with the data. Alarms over every rank's own numbers find it; where it has spoiled the model, the run goes back to the
last good checkpoint. `--reference` trains on one process as if nothing had happened.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs import training
from labs.data import micro_batches
from labs.model import GPT
from labs.options.incident import IncidentOptions
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.alarms import Alarm, Monitor, Monitored
from labs.strategies.checkpoint import Checkpoints, steps_in
from labs.strategies.parts import Part, names_of, parts_of, places_of, shapes_in
from labs.telemetry.categories import Bytes
from labs.telemetry.events import event

DELAY = 0.3
"""Seconds that a straggler takes longer for its own part of a step."""
SCALE = 1024
"""A gradient is so many times too large: as where one rank has not taken out the scale of its loss."""


class Incident(Monitored):
    """Data parallelism in which `fault` happens to this rank's own part of a step."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.fault: Callable[[Incident], None] | None = None

    def before_the_mean(self) -> None:
        if self.fault is not None:
            self.fault(self)


def slow(_: Incident) -> None:
    time.sleep(DELAY)


def wrong_scale(incident: Incident) -> None:
    for unit in incident.trained:
        unit.gradients.mul_(SCALE)


def batch_of(options: IncidentOptions, step: int, *, ranks: int, skipped: int | None = None) -> tuple[Tensor, Tensor]:
    """The global batch of a step. With `skipped`, the data of that step and of those after it is the next step's."""
    place = step + 1 if skipped is not None and step >= skipped else step
    tokens, targets = training.batch_of(options, place, ranks=ranks)
    if options.kind == "loss-spike" and place == options.at:
        return torch.zeros_like(tokens), torch.zeros_like(targets)  # a file that was never written: zeros
    return tokens, targets


class Run:
    """What the ranks of a run have together: the model, its checkpoints, the alarms, and what has happened."""

    def __init__(self, options: IncidentOptions, *, group: dist.ProcessGroup, folder: Path) -> None:
        self.options, self.group = options, group
        self.rank, self.ranks, self.device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        self.pieces, self.names = pieces_of(model.pieces), names_of(model)
        self.strategy = Incident(model, model.pieces, group=group, recipe=training.recipe_of(options))
        self.checkpoints = Checkpoints(folder, keep=options.steps)
        self.monitor = Monitor(group)
        self.alarm: Alarm | None = None
        self.skipped: int | None = None
        self.rolled_back_to: int | None = None
        self.lost_seconds = 0.0

    def parts(self) -> list[Part]:
        """The model states of this rank, by their places in the whole model."""
        units = self.strategy.units
        return parts_of(units, places_of(shapes_in(units), self.names))

    def train(self, number: int) -> float:
        """Step `number`, a second time where an alarm has sent the run back; the loss of the whole batch."""
        started = time.perf_counter()
        loss = self.step(number)
        alarm = self.monitor.look(self.strategy, loss, step=number)
        if alarm is not None and self.alarm is None:
            self.alarm = alarm
            self.tell(alarm)
            if alarm.kind == "straggler":
                self.lost_seconds = sum(waited(seconds) for seconds in alarm.evidence["seconds"])
            else:
                loss = self.again(number)
                self.lost_seconds = time.perf_counter() - started
        if (number + 1) % self.options.save_every == 0:
            self.save(number + 1)
        return training.mean_over_ranks(loss, self.group)

    def step(self, number: int) -> Tensor:
        event("step", step=number)
        options, hurt = self.options, self.alarm is None and self.rank == self.options.culprit
        self.strategy.fault = None
        if hurt and options.kind == "straggler" and number >= options.at:
            self.strategy.fault = slow
        elif hurt and options.kind == "bad-gradient" and number == options.at:
            self.strategy.fault = wrong_scale
        batch = batch_of(options, number, ranks=self.ranks, skipped=self.skipped)
        mine = micro_batches(batch, rank=self.rank, ranks=self.ranks, accumulate=options.accumulate, device=self.device)
        loss = self.strategy.train_step(mine)
        event("trained", step=number + 1)
        return loss

    def again(self, number: int) -> Tensor:
        """Back to the last checkpoint before the fault, then the steps from there on; data that is bad is left out."""
        self.checkpoints.wait()
        good = max(each for each in steps_in(self.checkpoints.folder) if each <= number)
        self.checkpoints.load(self.parts(), step=good)
        self.rolled_back_to = good
        self.monitor.forget(steps=good)
        if self.options.kind == "loss-spike":
            self.skipped = number
        event("resumed", step=good)
        for each in range(good, number + 1):
            loss = self.step(each)
            self.monitor.look(self.strategy, loss, step=each)
        return loss

    def save(self, step: int) -> None:
        """What the ranks have after so many steps."""
        event("saving", step=step)
        self.checkpoints.save(self.parts(), {}, step=step, then=lambda: event("saved", step=step))

    def tell(self, alarm: Alarm) -> None:
        if alarm.rank in (self.rank, None):
            event("alarm", kind=alarm.kind, step=alarm.step)


def waited(seconds: list[float]) -> float:
    """How long all ranks together waited in a step for the slowest one."""
    return sum(max(seconds) - own for own in seconds)


def train(options: IncidentOptions) -> dict[str, Any]:
    """What this rank reports."""
    own = tempfile.TemporaryDirectory(prefix="shardwise-", dir=os.environ.get("SHARDWISE_RUN"))
    with this.group() as group, training.watched(options) as tracker, own as place:
        event("started")
        folder = [place]  # rank 0's, on a disk that all ranks see
        dist.broadcast_object_list(folder, src=0, group=group)
        run = Run(options, group=group, folder=Path(folder[0]))
        run.save(0)
        report = training.steps(options, tracker, run.train)
        run.checkpoints.wait()
        event("finished")
        dist.barrier(group=group)  # before rank 0's folder goes
    states = predict(run.pieces, stage=0, ranks=run.ranks, precision=options.precision).states
    return report | {
        "parameters": sum(piece.trained + piece.frozen for piece in run.pieces),
        "predicted": {"states": asdict(states)},
        "whole": {
            "alarm": None if run.alarm is None else asdict(run.alarm),
            "rolled_back_to": run.rolled_back_to,
            "lost": lost(run),
        },
    }


def lost(run: Run) -> dict[str, Any]:
    """What the incident has cost: steps done again, the time that took or that ranks waited, and data left out."""
    back = run.alarm is not None and run.rolled_back_to is not None
    return {
        "steps": run.alarm.step + 1 - run.rolled_back_to if back else 0,  # type: ignore[union-attr, operator]
        "seconds": run.lost_seconds,
        "skipped_data_of_step": run.skipped,
    }


def reference(options: IncidentOptions, *, ranks: int) -> list[float]:
    """Losses on one process, which nothing happens to: of a spike, the bad data is left out."""
    skipped = options.at if options.kind == "loss-spike" else None

    def gradients(model: GPT, step: int) -> float:
        loss: Tensor = model(*batch_of(options, step, ranks=ranks, skipped=skipped))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    return training.alone(options, gradients)


def at_rest(options: IncidentOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=0, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(IncidentOptions, train, reference)
