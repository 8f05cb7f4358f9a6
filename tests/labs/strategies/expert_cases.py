"""Runs in the ranks: experts spread over them beside one process that holds all of them, in a layer by itself, with a
rank that has no tokens, and in training. Reports the largest differences.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.planner import expert as formula
from labs.planner.zero import pieces_of
from labs.runner import rank as this
from labs.strategies.expert import ExpertParallel, MixtureOfExperts, add_experts, mixtures, parallelize
from labs.strategies.units import Recipe
from labs.telemetry import Tracker

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
SHAPE = Shape(layers=2, hidden=12, heads=2, sequence=8)
BALANCE = 0.05


def worst(ours: Tensor, expected: Tensor) -> float:
    return (ours.double() - expected.double()).abs().max().item() if ours.numel() else 0.0


def layer(group: dist.ProcessGroup, *, top: int, factor: float, uneven: bool) -> dict[str, Any]:
    """One layer in fp64. With `uneven`, rank r brings 4 r tokens, so that rank 0 brings none."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    counts = [4 * r if uneven else 8 for r in range(ranks)]
    experts = 2 * ranks
    torch.manual_seed(0)
    twin = MixtureOfExperts(hidden=6, features=10, experts=experts, top=top, factor=factor, tokens=max(*counts, 1))
    for p in twin.parameters():
        torch.nn.init.normal_(p, std=0.5)
    twin.double()
    ours = copy.deepcopy(twin)
    parallelize(ours, group=group)
    inputs = [torch.randn(count, 6, dtype=torch.float64).requires_grad_() for count in counts]
    douts = [torch.randn(count, 6, dtype=torch.float64) for count in counts]

    outputs = [twin(x) for x in inputs]
    torch.autograd.backward(outputs, douts)
    x = inputs[rank].detach().clone().requires_grad_()
    out = ours(x)
    load = ours.take_load()
    torch.autograd.backward(out, douts[rank])
    dx = inputs[rank].grad
    assert x.grad is not None
    assert dx is not None
    found = {"forward": worst(out, outputs[rank]), "dx": worst(x.grad, dx)}
    for p, whole in zip(ours.experts.parameters(), twin.experts.parameters(), strict=True):
        assert p.grad is not None
        assert whole.grad is not None
        found["dexperts"] = max(found.get("dexperts", 0.0), worst(p.grad, whole.grad.chunk(ranks)[rank]))
    router = ours.router.weight.grad
    assert router is not None
    assert twin.router.weight.grad is not None
    dist.all_reduce(router, group=group)
    found["drouter"] = worst(router, twin.router.weight.grad)
    return {"found": found, "wanted": int(load.wanted_E.sum()), "balance": load.balance.item()}


def model_of(precision: str, experts: int, tokens: int, top: int) -> GPT:
    model = GPT(SHAPE, dtype=DTYPES[precision])
    add_experts(model.blocks, experts=experts, tokens=tokens, top=top, factor=1.0, seed=3)
    return model


def training(group: dist.ProcessGroup, *, precision: str, top: int, accumulate: int) -> dict[str, Any]:
    """Losses, parameters and who wanted which expert over a few steps, beside torch's own Adam on one process."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    parts, experts = ranks * accumulate, 2 * ranks
    tokens = 24 // parts * SHAPE.sequence
    recipe = Recipe(master=torch.float64 if precision == "fp64" else torch.float32)
    ours, twin = (model_of(precision, experts, tokens, top) for _ in range(2))
    inner = [mixture.experts for mixture in mixtures(ours)]
    pieces = pieces_of([*inner, *ours.pieces])
    states, all_reduce = formula.states(
        pieces[len(inner) :], [piece.trained for piece in pieces[: len(inner)]], ranks=ranks, precision=precision
    )
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in twin.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    all_to_all = formula.all_to_alls(
        layers=SHAPE.layers,
        hidden=SHAPE.hidden,
        tokens=tokens,
        experts=experts,
        top=top,
        factor=1.0,
        precision=precision,
        micro_batches=accumulate,
    )
    found: dict[str, Any] = {"loss": 0.0, "wanted": []}
    with Tracker() as tracker:
        tracker.adopt(ours.parameters(), "parameters")
        parallelize(ours, group=group)
        strategy = ExpertParallel(ours, ours.pieces, group=group, recipe=recipe, balance=BALANCE)
        for step in range(4):
            tracker.reset_collectives()
            batch = global_batch(step, size=24, sequence=SHAPE.sequence)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=accumulate)
            loss = strategy.train_step(mine).double()
            found["moved"] = {name: [c.count, c.bytes] for name, c in tracker.collectives.items()}
            dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
            wanted = strategy.wanted.flatten(0, 1)
            everyone = wanted.new_empty(ranks * len(wanted), experts)
            dist.all_gather_single(everyone, wanted, group=group)
            found["loss"] = max(found["loss"], abs(loss.item() - twin_step(twin, masters, adam, batch, parts, found)))
            found["wanted"][-1] = worst(everyone, found["wanted"][-1])
        found["rest"] = tracker.rest.as_dict()
    found["predicted"] = {
        "moved": {name: [c.count, c.bytes] for name, c in (("all_to_all", all_to_all), ("all_reduce", all_reduce))},
        "rest": [states.parameters, states.gradients, states.optimizer_states],
    }
    found["dense"] = found["experts"] = 0.0
    for (name, p), whole in zip(ours.named_parameters(), twin.parameters(), strict=True):
        kind = "experts" if ".experts." in name else "dense"
        own = whole.chunk(ranks)[rank] if kind == "experts" else whole
        found[kind] = max(found[kind], worst(p.detach(), own.detach()))
    return found


def twin_step(
    twin: GPT,
    masters: list[Tensor],
    adam: torch.optim.Adam,
    batch: tuple[Tensor, Tensor],
    parts: int,
    found: dict[str, Any],
) -> float:
    """One step of one process that holds all experts; each part's tokens have their own places. Gives its loss."""
    twin.zero_grad()
    total, wanted = 0.0, []
    for each in micro_batches(batch, rank=0, ranks=1, accumulate=parts):
        loss = twin(*each)
        loads = [mixture.take_load() for mixture in mixtures(twin)]
        torch.autograd.backward((loss + BALANCE * torch.stack([load.balance for load in loads]).sum()) / parts)
        total += loss.item() / parts
        wanted += [load.wanted_E for load in loads]
    for p, master in zip(twin.parameters(), masters, strict=True):
        assert p.grad is not None
        master.grad = p.grad.to(master.dtype)
    adam.step()
    for p, master in zip(twin.parameters(), masters, strict=True):
        p.data.copy_(master.detach())
    found["wanted"].append(torch.stack(wanted))
    return total


if __name__ == "__main__":
    with this.group() as world:
        report: dict[str, Any] = {"layer": [], "training": []}
        for top, factor, uneven in itertools.product((1, 2), (0.5, 1.0, 2.0), (False, True)):
            case: dict[str, Any] = {"top": top, "factor": factor, "uneven": uneven}
            report["layer"].append([case, layer(world, **case)])
        for precision, top in itertools.product(DTYPES, (1, 2)):
            case = {"precision": precision, "top": top, "accumulate": top}
            report["training"].append([case, training(world, **case)])
        this.report(report)
