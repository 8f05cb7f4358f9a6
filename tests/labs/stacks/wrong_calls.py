"""Runs in the ranks: what FSDP2 does when a table is in two units, and when the optimizer was made first."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from labs.data import global_batch
from labs.model import GPT, Shape
from labs.runner import rank as this

SHAPE: dict[str, Any] = {"layers": 1, "hidden": 16, "heads": 2, "sequence": 8}


def sharded(model: GPT, mesh: DeviceMesh) -> GPT:
    for piece in model.pieces:
        fully_shard(piece, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def tied(mesh: DeviceMesh) -> str:
    try:
        sharded(GPT(Shape(tied=True, **SHAPE)), mesh)(*global_batch(0, size=2, sequence=8))
    except ValueError as error:
        return str(error)
    return ""


def optimizer_first(mesh: DeviceMesh) -> list[float]:
    model = GPT(Shape(**SHAPE))
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    sharded(model, mesh)
    losses = []
    for _ in range(3):
        loss = model(*global_batch(0, size=2, sequence=8))
        loss.backward()
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    with this.group() as group:
        mesh = DeviceMesh.from_group(group, "cpu")
        this.report({"tied": tied(mesh), "losses": optimizer_first(mesh)})
    this.leave()
