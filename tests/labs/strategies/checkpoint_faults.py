"""Runs in 2 ranks: all that may be wrong with a checkpoint, one after the other. Each rank reports what was said,
and whether the last good checkpoint still loads, to the bit.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from labs.checkpoint import assembled, digests
from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies import parts
from labs.strategies.checkpoint import CheckpointError, Checkpoints, LoadPlanner, contents, latest, read_whole, steps_in
from labs.strategies.parts import Part
from labs.strategies.units import Recipe
from labs.strategies.zero_3 import Zero3

SIZES = {"layers": 2, "hidden": 24, "heads": 2, "sequence": 8}


def held(**sizes: int) -> tuple[Zero3, list[Part]]:
    model = GPT(Shape(**SIZES | sizes), seed=dist.get_rank() if not sizes else 0)
    strategy = Zero3(model, model.pieces, group=dist.group.WORLD, recipe=Recipe())
    return strategy, parts.parts_of(
        strategy.units, parts.places_of(parts.shapes_in(strategy.units), parts.names_of(model))
    )


def said(action: Callable[[], Any]) -> list[Any]:
    try:
        action()
    except CheckpointError as error:
        return [error.problem, str(error), error.values.get("file") or error.values.get("rank")]
    return [None, "", None]


def together(action: Callable[[], None]) -> None:
    """On rank 0 alone, while the other waits."""
    dist.barrier()
    if dist.get_rank() == 0:
        action()
    dist.barrier()


def faults(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    checkpoints = Checkpoints(folder)
    _, mine = held()
    found["nothing there"] = said(lambda: checkpoints.load(mine))
    checkpoints.save(mine, {"step": 3}, step=3)
    checkpoints.wait()
    good = digests(assembled(mine, dist.group.WORLD))

    def still_good() -> bool:
        _, fresh = held(layers=2)
        progress = checkpoints.load(fresh)
        return progress == {"step": 3} and digests(assembled(fresh, dist.group.WORLD)) == good

    checkpoints.save(mine, {"step": 3}, step=3)
    found["over the latest"] = [*said(checkpoints.wait), still_good()]
    found["larger"] = [*said(lambda: checkpoints.load(held(layers=3)[1])), still_good()]
    found["smaller"] = [*said(lambda: checkpoints.load(held(layers=1)[1])), still_good()]
    found["wider"] = [*said(lambda: checkpoints.load(held(hidden=32)[1])), still_good()]

    if dist.get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    checkpoints.save(mine, {"step": 4}, step=4)
    found["disk full"] = [*said(checkpoints.wait), still_good(), sorted(each.name for each in folder.iterdir())]
    if dist.get_rank() == 1:
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )

    def interrupted() -> None:
        """More ranks were saving a later one when they were killed, and it even had its name already."""
        shutil.copytree(folder / "step-3", folder / "saving-5")
        shutil.copy(folder / "step-3" / "__0_0.distcp", folder / "saving-5" / "__3_0.distcp")
        shutil.copytree(folder / "step-3", folder / "step-5")

    together(interrupted)
    found["interrupted"] = [None, "", None, still_good()]
    checkpoints.save(mine, {"step": 5}, step=5)
    checkpoints.wait()
    found["after it"] = [sorted(each.name for each in folder.rglob("*"))]

    file = folder / "step-5" / "__1_0.distcp"
    content = file.read_bytes()

    def flip() -> None:
        file.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])

    together(flip)
    found["one bit"] = said(lambda: checkpoints.load(mine))
    together(lambda: os.truncate(file, 1000))
    found["cut off"] = said(lambda: checkpoints.load(mine))
    together(file.unlink)
    found["missing"] = said(lambda: checkpoints.load(mine))
    found["roll back to none"] = said(lambda: checkpoints.roll_back(4))
    checkpoints.roll_back(3)
    found["rolled back"] = [latest(folder), steps_in(folder), still_good()]
    together(lambda: (folder / "step-3" / "SHA256SUMS").write_text(""))
    found["no sums"] = said(lambda: checkpoints.load(mine))
    together(lambda: (folder / "latest").write_text("st"))
    found["torn marker"] = said(lambda: checkpoints.load(mine))
    return found


def torchs_own(folder: Path) -> dict[str, Any]:
    """FSDP2 loads what ZeRO-3 has saved, and ZeRO-3 what FSDP2 has."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batch = micro_batches(global_batch(0, size=4, sequence=8), rank=rank, ranks=ranks)
    strategy, mine = held(layers=2)
    strategy.train_step(batch)
    checkpoints = Checkpoints(folder)
    checkpoints.save(mine, {}, step=1)
    checkpoints.wait()
    ours = assembled(mine, dist.group.WORLD)

    model = GPT(Shape(**SIZES), seed=5)
    mesh = init_device_mesh("cpu", (ranks,))
    for piece in model.pieces:
        fully_shard(piece, mesh=mesh)
    fully_shard(model, mesh=mesh)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6)
    model(*batch[0]).backward()
    adam.step()  # so that there are states
    state = {"model": get_model_state_dict(model), "optim": {"state": get_optimizer_state_dict(model, adam)["state"]}}
    load(state, storage_reader=FileSystemReader(folder / "step-1"))
    theirs = {f"model.{name}": each.full_tensor() for name, each in state["model"].items()}
    for name, states in state["optim"]["state"].items():
        for kind, each in states.items():
            theirs[f"optim.state.{name}.{kind}"] = each.full_tensor() if kind != "step" else each

    save(state, storage_writer=FileSystemWriter(folder / "fsdp2"))
    _, fresh = held(hidden=24)
    load({}, storage_reader=FileSystemReader(folder / "fsdp2"), planner=LoadPlanner(fresh))
    back = assembled(fresh, dist.group.WORLD)
    whole = read_whole(folder, 1)[0] if rank == 0 else {}
    return {
        "ours": digests(ours),
        "theirs": digests(theirs) if rank == 0 else {},
        "back": digests(back),
        "whole": digests(whole),
        "boxes": len(contents(folder, 1)),
    }


if __name__ == "__main__":
    with this.group():
        place = Path(sys.argv[1])
        this.report({"faults": faults(place / "faults"), "torch": torchs_own(place / "torch")})
