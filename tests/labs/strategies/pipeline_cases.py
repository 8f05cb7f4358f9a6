"""Runs in the ranks: a pipeline schedule beside one process, or beside torch's own, for every case in the list."""

from __future__ import annotations

import hashlib
import json
import sys
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.pipeline import Executor, PipelineParallel, stages_of
from labs.strategies.recompute import recompute
from labs.strategies.schedules import schedule
from labs.strategies.units import Recipe

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
HIDDEN, SEQUENCE, BATCH = 16, 8, 8
TORCHS: dict[str, Any] = {
    "gpipe": ScheduleGPipe,
    "1f1b": Schedule1F1B,
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
}


def model_of(case: dict[str, Any]) -> GPT:
    shape = Shape(layers=case["layers"], hidden=HIDDEN, heads=2, sequence=SEQUENCE, tied=case.get("tied", False))
    return GPT(shape, seed=1, dtype=DTYPES[case["precision"]])


def loss_of(model: GPT) -> Any:
    mean_loss = model.loss
    return lambda logits, targets: mean_loss(logits.flatten(0, 1), targets.flatten())


def orders_of(case: dict[str, Any], ranks: int) -> Any:
    return schedule(case["schedule"], ranks=ranks, micro_batches=case["micro_batches"], chunks=case.get("chunks", 1))


def run(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """Three steps beside one process with torch's own Adam over master copies."""
    ranks = dist.get_world_size(group)
    recipe = Recipe(master=DTYPES["fp64" if case["precision"] == "fp64" else "fp32"])
    model, twin = model_of(case), model_of(case)
    if case.get("recompute"):
        recompute(model, mode="full", every=1)
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in twin.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    orders = orders_of(case, ranks)
    strategy = PipelineParallel(
        model.pieces, orders=orders, hidden=HIDDEN, loss=loss_of(model), group=group, recipe=recipe
    )
    twins = dict(zip(model.parameters(), twin.parameters(), strict=True))
    mine = list(strategy.model.parameters())
    told, worst, gradients = 0, 0.0, 0.0
    for step in range(3):
        tokens, targets = global_batch(step, size=BATCH, sequence=SEQUENCE)
        loss = strategy.train_step(micro_batches((tokens, targets), rank=0, ranks=1, accumulate=case["micro_batches"]))
        expected = twin(tokens, targets)
        twin.zero_grad()
        expected.backward()
        for p, master in zip(twin.parameters(), masters, strict=True):
            assert p.grad is not None
            master.grad = p.grad.to(recipe.master)
        adam.step()
        for p, master in zip(twin.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
        if step == 0:  # Adam's first moment after one step is a tenth of the gradient
            for unit in strategy.trained:
                windows = unit.windows(unit.adam.state[unit.master]["exp_avg"])
                for window, p in zip(windows, unit.parameters, strict=True):
                    reference = twins[p].grad
                    assert reference is not None
                    gradients = max(gradients, (window * 10 - reference).abs().max().item())
        if loss is not None:
            told, worst = told + 1, max(worst, abs(loss.item() - expected.item()))
    parameters = max((p.double() - twins[p].double()).abs().max().item() for p in mine)
    shared = [p for p in mine if p is model.embedding.token.weight or p is model.head.linear.weight]
    return {
        "case": case,
        "steps_with_a_loss": told,
        "loss": worst,
        "gradients": gradients,
        "parameters": parameters,
        "left_over": sum(p.grad.count_nonzero().item() for p in mine if p.grad is not None),
        "shared": [hashlib.sha256(p.detach().view(torch.uint8).numpy().tobytes()).hexdigest() for p in shared]
        if case.get("tied")
        else [],
    }


def torch_case(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """The same stages under torch's executor and under ours: losses, gradients, and the order of actions."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    chunks, m = case.get("chunks", 1), case["micro_batches"]
    model, theirs = model_of(case), model_of(case)
    loss, orders = loss_of(model), orders_of(case, ranks)
    tokens, targets = global_batch(0, size=BATCH, sequence=SEQUENCE)

    def chunks_of(source: GPT) -> list[nn.Module]:
        return [nn.Sequential(*stage) for stage in stages_of(source.pieces, stages=ranks * chunks)[rank::ranks]]

    mine = chunks_of(model)
    executor = Executor(
        mine,
        orders=orders,
        group=group,
        shape=(BATCH // m, SEQUENCE, HIDDEN),
        dtype=DTYPES[case["precision"]],
    )
    losses_of = [partial(lambda targets, logits: loss(logits, targets), part) for part in targets.chunk(m)]
    ours = executor.step(tokens.chunk(m), losses_of)

    stages = [
        PipelineStage(chunk, rank + ranks * index, ranks * chunks, torch.device("cpu"), group=group)
        for index, chunk in enumerate(chunks_of(theirs))
    ]
    single = case["schedule"] in ("gpipe", "1f1b")
    other = TORCHS[case["schedule"]](stages[0] if single else stages, n_microbatches=m, loss_fn=loss)
    losses: list[Tensor] = []
    if rank == 0:
        other.step(tokens)
    elif rank == ranks - 1:
        other.step(target=targets, losses=losses)
    else:
        other.step()
    pairs = zip(nn.ModuleList(mine).parameters(), (p for s in stages for p in s.submod.parameters()), strict=True)
    gradients = 0.0
    for p, q in pairs:
        assert p.grad is not None
        assert q.grad is not None
        gradients = max(gradients, (p.grad - q.grad).abs().max().item())
    same = None
    if hasattr(other, "pipeline_order"):
        kinds = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "B", "BACKWARD_WEIGHT": "W"}
        same = [
            [
                f"{kinds[a.computation_type.name]}{a.microbatch_index} of stage {a.stage_index}"
                for a in other.pipeline_order[i]
                if a is not None and a.computation_type.name in kinds
            ]
            == [f"{a.kind}{a.micro_batch} of stage {a.chunk * ranks + i}" for a in order]
            for i, order in enumerate(orders)
        ]
    return {
        "case": case,
        "loss": None if ours is None else abs(ours.item() - torch.stack(losses).mean().item()),
        "gradients": gradients,
        "same_order": same,
    }


if __name__ == "__main__":
    with this.group() as world:
        cases = json.loads(sys.argv[1])
        this.report([torch_case(c, world) if c.get("torch") else run(c, world) for c in cases])
