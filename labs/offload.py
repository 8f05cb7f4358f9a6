"""The offload lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/offload.py --stage 1 --to file`.

Data parallelism or a stage of ZeRO, with Adam's states in host memory or in a file. Every rank reports where their
bytes are, what crosses between device and host, and how much of the process is in memory over the steps. `--cap 24`
leaves a large accelerator the memory of a workstation's: what fits with `--to memory` there and not with `--to device`
is the case of ZeRO-Offload (Ren et al. 2021).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import translations
from labs import training
from labs.data import micro_batches
from labs.model import GPT
from labs.options.offload import OffloadOptions
from labs.planner import peak
from labs.planner.offload import predict_offload
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.offload import FileRoom, HostRoom, NoRoom, Offloaded, Room, offload
from labs.strategies.units import Strategy
from labs.telemetry.categories import Bytes
from labs.telemetry.resident import resident
from labs.zero import STRATEGIES


class Noted:
    """A room that notes the most of the process's mapped memory, each time before a block is let go."""

    def __init__(self, room: Room, note: Callable[[], None]) -> None:
        self.room, self.note = room, note
        self.states, self.on_disk = room.states, room.on_disk

    def let_go(self, window: slice) -> None:
        self.note()
        self.room.let_go(window)


class Memory:
    """The process's resident memory: at the end of each step, and the most that was mapped within it."""

    def __init__(self) -> None:
        self.before = resident()
        self.steps: list[dict[str, int | None]] = []
        self.highest = 0

    def note(self) -> None:
        self.highest = max(self.highest, resident().mapped or 0)

    def end(self) -> None:
        now = resident()
        self.note()
        highest = None if now.mapped is None else self.highest
        self.steps.append({**now.as_dict(), "mapped_peak": highest})
        self.highest = 0


def folder_of(options: OffloadOptions) -> Path:
    """Where the file lies: as asked, else where temporary files are on a disk, not in memory."""
    if options.folder is not None:
        return Path(options.folder)
    kept = Path("/var/tmp")
    return kept if kept.is_dir() else Path(tempfile.gettempdir())


def capped(options: OffloadOptions) -> bool:
    """Whether this process may take no more than `--cap` GB of its accelerator: one that asks for more gets the error
    that a smaller one would give. On a CPU there is nothing to cap, which rank 0 says.
    """
    device = this.device()
    if options.cap is None:
        return False
    if device.type == "cpu":
        if this.number() == 0:
            text = translations.translator(translations.preferred())
            print(text("labs.offload-cap-needs-accelerator", cap=options.cap), flush=True)
        return False
    _, total = torch.accelerator.get_memory_info(device)
    share = min(1.0, options.cap * 1e9 / total)
    torch.get_device_module(device).set_per_process_memory_fraction(share, device)
    return True


def moved_away(strategy: Strategy, options: OffloadOptions, memory: Memory) -> list[Offloaded]:
    """The strategy's states, offloaded as asked. Raises CourseError where the disk cannot hold them."""
    if options.to == "device":
        return []
    folder = folder_of(options)
    make: Callable[[int, torch.dtype], Room] = partial(FileRoom, folder=folder)
    if options.to == "memory":
        make = partial(HostRoom, pinned=this.device().type != "cpu")
    try:
        return offload(strategy, lambda n, dtype: Noted(make(n, dtype), memory.note), block=options.block)
    except NoRoom as error:
        values = {"rank": this.number(), "folder": folder, "needed": error.needed, "free": error.free}
        raise translations.CourseError("labs.offload-no-room", **values) from error


def train(options: OffloadOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        if options.to == "memory" and device.type == "cpu" and rank == 0:
            text = translations.translator(translations.preferred())
            print(text("labs.offload-one-memory"), flush=True)
        is_capped = capped(options)
        model = training.model_of(options)
        pieces = pieces_of(model.pieces)
        tracker.name_axis(group, "data")
        strategy = STRATEGIES[options.stage](model, model.pieces, group=group, recipe=training.recipe_of(options))
        memory = Memory()
        away = moved_away(strategy, options, memory)
        moved = 0

        def step(number: int) -> float:
            nonlocal moved
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            before = away[0].wire.moved if away else 0
            loss = training.mean_over_ranks(strategy.train_step(mine), group)
            moved = away[0].wire.moved - before if away else 0
            memory.end()
            return loss

        report = training.steps(options, tracker, step)
    prediction = predict(
        pieces, stage=options.stage, ranks=ranks, precision=options.precision, micro_batches=options.accumulate
    )
    expected = predict_offload(
        pieces, stage=options.stage, ranks=ranks, precision=options.precision, block=options.block
    )
    states, buffers = (prediction.states, 0) if options.to == "device" else (expected.states, expected.buffers)
    return report | {
        "parameters": sum(piece.trained + piece.frozen for piece in pieces),
        "offloaded": {
            "to": options.to,
            "bytes": sum(each.room.states.nbytes for each in away),
            "on_disk": sum(each.room.on_disk for each in away),
            "moved": moved,
            "cap": options.cap if is_capped else None,
            "same_memory": options.to == "memory" and device.type == "cpu",
        },
        "resident": {"before": memory.before.as_dict(), "steps": memory.steps},
        "predicted": {
            **training.predicted(
                states,
                peak=peak.of_replica(
                    training.sizes_of(options, ranks=ranks),
                    pieces,
                    modes=["none"] * options.layers,
                    rest=states.total + buffers + training.read(options, ranks=ranks),
                    precision=options.precision,
                    ranks=ranks,
                    stage=options.stage,
                    tied=options.tied,
                    update=None if options.to == "device" else expected.block,
                ),
                axes={"data": prediction.collectives},
            ),
            "offloaded": 0 if options.to == "device" else expected.offloaded,
            "moved": 0 if options.to == "device" else expected.moved,
            "communication": prediction.communication + buffers,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
    }


def at_rest(options: OffloadOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank's device holds as the optimizer step begins; no rank is started for it."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    stage, precision = options.stage, options.precision
    if options.to == "device":
        states = predict(pieces, stage=stage, ranks=ranks, precision=precision).states
    else:
        states = predict_offload(pieces, stage=stage, ranks=ranks, precision=precision, block=options.block).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(OffloadOptions, train, training.reference)
