"""Runs in the ranks: our layouts beside torch's own of the same kind (FSDP2 x parallelize_module x pipelining)."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.layout import Layout
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.pipeline import stages_of
from labs.strategies.schedules import schedule
from labs.strategies.tensor import Shard, part, shard_of
from labs.strategies.units import Recipe

SHAPE = Shape(layers=2, hidden=16, heads=2, sequence=8)
PLAN: dict[str, Any] = {
    "*.token": RowwiseParallel(input_layouts=Replicate()),
    "*.attention.qkv": ColwiseParallel(),
    "*.attention.out": RowwiseParallel(),
    "*.up": ColwiseParallel(),
    "*.down": RowwiseParallel(),
    "*.linear": ColwiseParallel(output_layouts=Replicate()),
}
MICRO_BATCHES = 2
STEPS = 3


def beside_torchs_own(layout: Layout) -> dict[str, float]:
    """The largest differences of losses and parameters after some steps, in fp64."""
    dtype = torch.float64
    here = layout.coordinates(dist.get_rank())
    mesh = mesh_of(layout, device="cpu")
    recipe = Recipe(master=dtype)
    model = GPT(SHAPE, seed=1, dtype=dtype)
    ours = Parallel(
        model.pieces,
        layout=layout,
        mesh=mesh,
        orders=schedule("1f1b", ranks=layout.pp, micro_batches=MICRO_BATCHES),
        hidden=SHAPE.hidden,
        length=SHAPE.sequence,
        loss=model.loss,
        recipe=recipe,
    )

    whole = GPT(SHAPE, seed=1, dtype=dtype)
    own = nn.Sequential(*stages_of(whole.pieces, stages=layout.pp)[here["pipeline"]])
    for module in own.modules():
        if hasattr(module, "qkv"):  # torch splits rows in one stretch: put a rank's queries, keys and values together
            weight, thirds = module.qkv.weight, Shard(dim=0, size=3 * SHAPE.hidden, sections=3)
            weight.data = torch.cat(
                [part(weight.data, thirds, rank=rank, ranks=layout.tp) for rank in range(layout.tp)]
            )
            module.heads //= layout.tp
    names = [name for name, _ in own.named_modules()]
    plan = {key: style for key, style in PLAN.items() if any(name.endswith(key[1:]) for name in names)}
    parallelize_module(own, mesh["tensor"], plan)
    fully_shard(own, mesh=mesh["data"])
    adam = torch.optim.Adam(own.parameters(), lr=recipe.lr, eps=recipe.eps)

    def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
        return whole.loss(logits.flatten(0, 1), targets.flatten())

    stage = PipelineStage(own, here["pipeline"], layout.pp, torch.device("cpu"), group=mesh.get_group("pipeline"))
    run = Schedule1F1B(stage, n_microbatches=MICRO_BATCHES, loss_fn=mean_loss)
    first, last = here["pipeline"] == 0, here["pipeline"] == layout.pp - 1
    worst = 0.0
    for step in range(STEPS):
        batch = global_batch(step, size=layout.dp * MICRO_BATCHES * 2, sequence=SHAPE.sequence)
        mine = micro_batches(batch, rank=here["data"], ranks=layout.dp, accumulate=MICRO_BATCHES)
        tokens, targets = (torch.cat(each) for each in zip(*mine, strict=True))
        losses: list[Tensor] = []
        run.step(*([tokens] if first else []), target=targets if last else None, losses=losses if last else None)
        adam.step()
        adam.zero_grad()
        loss = ours.train_step(mine)
        if loss is not None:
            worst = max(worst, abs(loss.item() - torch.stack(losses).mean().item()))
    parameters = 0.0
    for p, q in zip(ours.model.parameters(), own.parameters(), strict=True):
        assert isinstance(q, DTensor)
        theirs = q.full_tensor().detach()
        lies = shard_of(p)
        if lies.sections > 1:
            lies = Shard(dim=lies.dim, size=lies.size)
        mine_of = part(theirs, lies, rank=here["tensor"], ranks=layout.tp)
        parameters = max(parameters, (p.detach() - mine_of).abs().max().item())
    return {"loss": worst, "parameters": parameters}


if __name__ == "__main__":
    with this.group():
        layouts = [Layout(**each) for each in json.loads(sys.argv[1])]
        this.report([beside_torchs_own(layout) for layout in layouts])
