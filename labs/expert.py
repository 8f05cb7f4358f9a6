"""The expert lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/expert.py --experts 8`.

Every rank trains the course's GPT on its own examples; in place of its two-layer networks stand mixtures of experts,
spread over the ranks. A rank reports what every lab reports; the whole run also tells how many tokens wanted each
expert in the last step, and how many found no place.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs import training
from labs.data import micro_batches
from labs.model import GPT
from labs.options.expert import ExpertOptions
from labs.planner import expert as formula
from labs.planner import peak
from labs.planner.operations import Mixture
from labs.planner.zero import Count, ModelStates, pieces_of
from labs.runner import rank as this
from labs.strategies import expert
from labs.telemetry.categories import Bytes


def train(options: ExpertOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        tracker.name_axis(group, "expert")
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = model_of(options, ranks=ranks)
        parameters = sum(p.numel() for p in model.parameters())
        states, all_reduce = states_of(model, options, ranks=ranks)
        expert.parallelize(model, group=group)
        pieces = pieces_of([*(each.experts for each in expert.mixtures(model)), *model.pieces])
        strategy = expert.ExpertParallel(
            model, model.pieces, group=group, recipe=training.recipe_of(options), balance=options.balance
        )

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            return training.mean_over_ranks(strategy.train_step(mine), group)

        report = training.steps(options, tracker, step)
        places = strategy.mixtures[0].places
        wanted_LE = strategy.wanted.sum(0)
        dropped_L = (strategy.wanted - places).clamp(min=0).sum((0, 2))
        with record_function("report"):
            for counted in (wanted_LE, dropped_L):
                dist.all_reduce(counted, group=group)
    all_to_all = formula.all_to_alls(
        layers=options.layers,
        hidden=options.hidden,
        tokens=options.tokens(ranks),
        experts=options.experts,
        top=options.top,
        factor=options.capacity,
        precision=options.precision,
        micro_batches=options.accumulate,
    )
    collectives = {"all_to_all": all_to_all, "all_reduce": all_reduce}
    mixture = Mixture(experts=options.experts, places=places, top=options.top, ranks=ranks)
    return report | {
        "parameters": parameters,
        "predicted": {
            **training.predicted(
                states,
                peak=peak.of_replica(
                    replace(training.sizes_of(options, ranks=ranks), mixture=mixture),
                    pieces,
                    modes=["none"] * options.layers,
                    rest=states.total + training.read(options, ranks=ranks),
                    precision=options.precision,
                    ranks=ranks,
                ),
                axes={"expert": collectives},
            ),
            "collectives": {name: asdict(count) for name, count in collectives.items()},
        },
        "whole": {"tokens": wanted_LE.tolist(), "dropped": dropped_L.tolist(), "places": places},
    }


def model_of(options: ExpertOptions, *, ranks: int) -> GPT:
    """The whole model with all experts, the same on every rank."""
    with record_function("parameters"):
        model = training.model_of(options)
        expert.add_experts(
            model.blocks,
            experts=options.experts,
            tokens=options.tokens(ranks),
            top=options.top,
            factor=options.capacity,
            seed=options.seed,
        )
    return model


def states_of(model: GPT, options: ExpertOptions, *, ranks: int) -> tuple[ModelStates, Count]:
    """The formula for a model with all experts."""
    experts = [mixture.experts for mixture in expert.mixtures(model)]
    pieces = pieces_of([*experts, *model.pieces])
    sizes = [piece.trained for piece in pieces[: len(experts)]]
    return formula.states(pieces[len(experts) :], sizes, ranks=ranks, precision=options.precision)


def at_rest(options: ExpertOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    with torch.device("meta"):
        model = GPT(training.shape_of(options))
        expert.add_experts(model.blocks, experts=options.experts, tokens=1)
    states, _ = states_of(model, options, ranks=ranks)
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


def reference(options: ExpertOptions, *, ranks: int) -> list[float]:
    """Losses of one process that holds all experts and takes the ranks' examples part by part, since every rank's
    tokens have places of their own: torch's own Adam, nothing between ranks.
    """
    recipe = training.recipe_of(options)
    model = model_of(options, ranks=ranks)
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in model.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    parts = ranks * options.accumulate
    losses = []
    for step in range(options.steps):
        batch = training.batch_of(options, step, ranks=ranks)
        model.zero_grad()
        losses.append(0.0)
        for tokens, targets in micro_batches(batch, rank=0, ranks=1, accumulate=parts):
            loss = model(tokens, targets) / parts
            unbalanced = sum(mixture.take_load().balance for mixture in expert.mixtures(model)) / parts
            (loss + options.balance * unbalanced).backward()
            losses[-1] += loss.item()
        for p, master in zip(model.parameters(), masters, strict=True):
            master.grad = None if p.grad is None else p.grad.to(recipe.master)
        adam.step()
        for p, master in zip(model.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
    return losses


if __name__ == "__main__":
    training.main(ExpertOptions, train, reference)
