"""Runs in the ranks: one strategy beside the unsharded twin, for every case in the list it is given. Reports the
largest differences.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel, NaiveDataParallel
from labs.strategies.units import Recipe, whole_parameters
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker

STAGES = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
SIZES = Shape(layers=2, hidden=36, heads=3, sequence=16)
BATCH = 12


def model_of(case: dict[str, Any]) -> GPT:
    model = GPT(
        Shape(layers=2, hidden=36, heads=3, sequence=16, tied=case.get("tied", False)),
        seed=1,
        dtype=DTYPES[case["precision"]],
    )
    if case.get("frozen"):
        model.blocks[0].requires_grad_(False)
        model.embedding.position.requires_grad_(False)
        model.blocks[1].down.requires_grad_(False)
    return model


class Twin:
    """The same model on one process: torch's own Adam over master copies."""

    def __init__(self, case: dict[str, Any], recipe: Recipe) -> None:
        self.model, self.recipe = model_of(case), recipe
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in self.trained]
        self.adam = torch.optim.Adam(self.masters, lr=recipe.lr, eps=recipe.eps)

    def step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = self.model(*batch)
        self.model.zero_grad()
        loss.backward()
        self.gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in self.trained]
        for gradient, master in zip(self.gradients, self.masters, strict=True):
            master.grad = gradient.to(self.recipe.master)
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.masters, self.recipe.clip)
        self.adam.step()
        for p, master in zip(self.trained, self.masters, strict=True):
            p.data.copy_(master.detach())
        return loss.detach()


def build(case: dict[str, Any], model: GPT, group: dist.ProcessGroup, recipe: Recipe) -> Any:
    if case["stage"] == "naive":
        return NaiveDataParallel(model, group=group, recipe=recipe)
    return STAGES[case["stage"]](model, model.pieces, group=group, recipe=recipe)


def gradient_difference(strategy: Any, twin: Twin, batch: tuple[Tensor, Tensor], mine: Any) -> float:
    """Before any update: what the ranks' gradients, reduced, differ from the twin's. Adam's first moment after one
    step is a tenth of the gradient.
    """
    strategy.train_step(mine)
    twin.step(batch)
    worst = 0.0
    for unit in strategy.trained:
        moment = unit.adam.state[unit.master]["exp_avg"]
        whole = torch.empty(unit.padded, dtype=moment.dtype) if moment.numel() < unit.padded else moment
        if moment.numel() < unit.padded:
            dist.all_gather_single(whole, moment)
        for window, p in zip(unit.windows(whole), unit.parameters, strict=True):
            index = next(i for i, q in enumerate(strategy.model.parameters()) if q is p)
            reference = list(twin.model.parameters())[index]
            place = next(i for i, q in enumerate(twin.trained) if q is reference)
            ours = twin.adam.state[twin.masters[place]]["exp_avg"]
            worst = max(worst, (window - ours).abs().max().item() * 10)
    return worst


def run(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    recipe = Recipe(master=DTYPES["fp64" if case["precision"] == "fp64" else "fp32"], clip=case.get("clip"))
    steps, accumulate = case.get("steps", 10), case.get("accumulate", 1)
    twin = Twin(case, recipe)
    with Tracker() as tracker:
        with record_function("parameters"):
            model = model_of(case)
        pieces = pieces_of(model.pieces)
        strategy = build(case, model, group, recipe)
        worst_loss, gradients, losses = 0.0, None, []
        for step in range(steps):
            if step == 1:
                tracker.reset_peak()
            tracker.reset_collectives()
            batch = global_batch(step, size=BATCH, sequence=SIZES.sequence)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=accumulate)
            if step == 0 and case["stage"] != "naive" and "clip" not in case:
                with record_function("report"):
                    gradients = gradient_difference(strategy, twin, batch, mine)
                continue
            loss = strategy.train_step(mine)
            with record_function("report"):
                expected = twin.step(batch)
                loss = loss.double()
                dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
            losses.append(loss.item())
            worst_loss = max(worst_loss, abs(loss.item() - expected.item()))
        measured = {"rest": tracker.rest.as_dict(), "peak": tracker.peak.as_dict()}
        collectives = {name: [c.count, c.bytes] for name, c in tracker.collectives.items()}

    def compare() -> float:
        pairs = zip(model.parameters(), twin.model.parameters(), strict=True)
        return max((a.double() - b.double()).abs().max().item() for a, b in pairs)

    if case["stage"] == "naive":
        parameters, predicted = compare(), None
    else:
        rested = [p.numel() for p in model.parameters()]
        with whole_parameters(strategy.units):
            parameters = compare()
        prediction = predict(
            pieces, stage=case["stage"], ranks=ranks, precision=case["precision"], micro_batches=accumulate
        )
        states = prediction.states
        predicted = {
            "states": [states.parameters, states.gradients, states.optimizer_states],
            "communication": prediction.communication,
            "collectives": {name: [c.count, c.bytes] for name, c in prediction.collectives.items()},
            "elements_at_rest": sum(rested),
        }
    return {
        "case": case,
        "loss": worst_loss,
        "losses": losses,
        "gradients": gradients,
        "parameters": parameters,
        "measured": measured,
        "collectives": collectives,
        "predicted": predicted,
    }


def torch_case(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """torch's own: FSDP2 or ZeroRedundancyOptimizer under DDP, beside our stage of the same kind, in fp32."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    recipe = Recipe()
    ours, theirs = model_of(case), model_of(case)
    strategy = build(case, ours, group, recipe)
    trained: nn.Module = theirs
    if case["torch"] == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (ranks,))
        for piece in theirs.pieces:
            fully_shard(piece, mesh=mesh)
        fully_shard(theirs, mesh=mesh)
        adam: torch.optim.Optimizer = torch.optim.Adam(theirs.parameters(), lr=recipe.lr, eps=recipe.eps)
    else:
        trained = DistributedDataParallel(theirs)
        adam = ZeroRedundancyOptimizer(
            theirs.parameters(), optimizer_class=torch.optim.Adam, lr=recipe.lr, eps=recipe.eps
        )
    worst = 0.0
    for step in range(10):
        batch = global_batch(step, size=BATCH, sequence=SIZES.sequence)
        mine = micro_batches(batch, rank=rank, ranks=ranks)
        loss = trained(*mine[0])
        adam.zero_grad()
        loss.backward()
        adam.step()
        worst = max(worst, abs(strategy.train_step(mine).item() - loss.item()))
    with whole_parameters(strategy.units):
        pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
        parameters = max(
            (a.detach() - (b.full_tensor() if hasattr(b, "full_tensor") else b).detach()).abs().max().item()
            for a, b in pairs
        )
    return {"case": case, "loss": worst, "parameters": parameters}


if __name__ == "__main__":
    with this.group() as world:
        cases = json.loads(sys.argv[1])
        this.report([torch_case(c, world) if "torch" in c else run(c, world) for c in cases])
