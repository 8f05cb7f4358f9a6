"""Runs in the ranks: every kind of incident over several seeds, and none; what the alarms made of it."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from labs.incident import Run
from labs.options.incident import KINDS, IncidentOptions
from labs.runner import rank as this

NEVER = 99


def main() -> None:
    found = []
    with this.group() as group, tempfile.TemporaryDirectory() as own:
        folder = [own]
        dist.broadcast_object_list(folder, src=0, group=group)
        for seed in range(4):
            for kind, at in [*((kind, 8) for kind in KINDS), (KINDS[0], NEVER)]:
                culprit = seed % dist.get_world_size(group)
                options = IncidentOptions(kind=kind, seed=seed, at=at, culprit=culprit, steps=11)
                run = Run(options, group=group, folder=Path(folder[0], f"{seed}-{kind}-{at}"))
                run.save(0)
                losses = [run.train(number) for number in range(options.steps)]
                run.checkpoints.wait()
                alarm = None if run.alarm is None else asdict(run.alarm)
                case = {"kind": kind, "seed": seed, "at": at, "culprit": culprit, "losses": losses}
                found.append(case | {"alarm": alarm, "rolled_back_to": run.rolled_back_to})
        found.append({"kind": "flipped bit", "alarm": flipped(group, Path(folder[0], "flipped"))})
        dist.barrier(group=group)
    this.report(found)


def flipped(group: dist.ProcessGroup, folder: Path) -> dict[str, object] | None:
    """One bit of one parameter is wrong on rank 2 after an update: no norm and no loss shows it."""
    run = Run(IncidentOptions(at=NEVER), group=group, folder=folder)
    for number in range(2):
        loss = run.step(number)
    if run.rank == 2:
        run.strategy.units[1].whole.view(torch.int32)[5] ^= 1
    alarm = run.monitor.look(run.strategy, loss, step=1)
    return None if alarm is None else asdict(alarm)


if __name__ == "__main__":
    main()
