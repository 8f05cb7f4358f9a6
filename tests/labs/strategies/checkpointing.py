"""Runs in the ranks: trains and saves, or loads what other ranks have saved, for every case in the list.

Reports a digest of every tensor of the whole model, put together from all ranks' parts without the checkpoint, and how
far the run is from the one that was not interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.checkpoint import assembled, digests
from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies import parts
from labs.strategies.checkpoint import Checkpoints
from labs.strategies.data_parallel import DataParallel
from labs.strategies.layout import Layout
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.parts import Part
from labs.strategies.schedules import schedule
from labs.strategies.tensor_parallel import TensorParallel
from labs.strategies.units import Recipe
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3

STAGES = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
BATCH, SEQUENCE, BEFORE, AFTER = 12, 8, 2, 2
CPU = torch.device("cpu")
Steps = Callable[[tuple[Tensor, Tensor]], None]


def build(case: dict[str, Any], group: dist.ProcessGroup) -> tuple[Steps, Callable[[], list[Part]]]:
    """A step on a global batch, and the rank's parts."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    dropout = {"dropout": 0.1, "fused": False} if case.get("dropout") else {}
    shape = Shape(layers=2, hidden=24, heads=12, sequence=SEQUENCE, tied=case.get("tied", False), **dropout)
    model = GPT(shape, seed=1, dtype=DTYPES[case.get("precision", "fp32")])
    if case.get("frozen"):
        model.blocks[0].requires_grad_(False)
        model.blocks[1].down.requires_grad_(False)
    names, kind = parts.names_of(model), case["kind"]
    if kind == "tensor":
        tensor = TensorParallel(model, group=group, recipe=Recipe())
        shapes = {p: tuple(p.shape) for p in tensor.parameters}
        places = parts.places_of(shapes, names, rank=rank)
        held = (tensor.parameters, tensor.masters, tensor.adam, places)
        return lambda batch: (tensor.train_step([batch]), None)[1], lambda: [*parts.parts_of_parameters(*held)]
    if kind == "layout":
        layout = Layout(**case["layout"])
        strategy = Parallel(
            model.pieces,
            layout=layout,
            mesh=mesh_of(layout, device="cpu"),
            orders=schedule("1f1b", ranks=layout.pp, micro_batches=2),
            hidden=shape.hidden,
            length=SEQUENCE,
            loss=model.loss,
            recipe=Recipe(),
        )
        copies = {tied.weight for tied in strategy.tied if tied.ranks[0] != dist.get_rank(strategy.pipeline)}
        places = parts.places_of(
            parts.shapes_in(strategy.units), names, rank=dist.get_rank(strategy.tensor), copies=copies
        )
        data, dp = layout.coordinates(rank)["data"], layout.dp

        def on_mesh(batch: tuple[Tensor, Tensor]) -> None:
            strategy.train_step(micro_batches(batch, rank=data, ranks=dp, accumulate=2))

        return on_mesh, lambda: parts.parts_of(strategy.units, places)
    zero = STAGES[case["stage"]](model, model.pieces, group=group, recipe=Recipe())
    places = parts.places_of(parts.shapes_in(zero.units), names)

    def on_data(batch: tuple[Tensor, Tensor]) -> None:
        zero.train_step(micro_batches(batch, rank=rank, ranks=ranks))

    return on_data, lambda: parts.parts_of(zero.units, places)


def batch_of(step: int) -> tuple[Tensor, Tensor]:
    return global_batch(step, size=BATCH, sequence=SEQUENCE)


def save(case: dict[str, Any], folder: Path, group: dist.ProcessGroup) -> dict[str, Any]:
    step, held = build(case, group)
    rank = dist.get_rank(group)
    torch.manual_seed(rank)
    checkpoints = Checkpoints(folder)
    for number in range(BEFORE):
        step(batch_of(number))
    now = assembled(held(), group)
    checkpoints.save([*held(), *parts.random_states(CPU, rank=rank)], {"step": BEFORE}, step=BEFORE)
    for number in range(BEFORE, BEFORE + AFTER):  # goes on while the checkpoint is written
        step(batch_of(number))
    checkpoints.wait()
    end = assembled(held(), group)
    if rank == 0:
        torch.save(end, folder / "end.pt")
    return {"saved": digests(now), "end": digests(end), "bytes": sum(t.nbytes for t in now.values())}


def load(case: dict[str, Any], folder: Path, group: dist.ProcessGroup) -> dict[str, Any]:
    step, held = build(case, group)
    random = parts.random_states(CPU, rank=dist.get_rank(group))
    progress = Checkpoints(folder).load([*held(), *random])
    parts.set_random_states(random, CPU)
    loaded = digests(assembled(held(), group))
    for number in range(progress["step"], BEFORE + AFTER):
        step(batch_of(number))
    end, worst = assembled(held(), group), 0.0
    for name, there in torch.load(folder / "end.pt").items() if end else ():
        if name.startswith("model."):
            worst = max(worst, (end[name].double() - there.double()).abs().max().item())
    return {"saved": loaded, "end": digests(end), "worst": worst}


if __name__ == "__main__":
    with this.group() as world:
        work = {"save": save, "load": load}[sys.argv[1]]
        place, cases = Path(sys.argv[2]), json.loads(sys.argv[3])
        this.report([work(case, place / case["folder"], world) for case in cases])
