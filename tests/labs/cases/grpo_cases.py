"""Runs in the ranks: an update from the same samples beside a twin on one process, for each case; what the generator is
given; and a run of the lab that is killed on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.cases import grpo
from labs.cases.countdown import drawn
from labs.cases.generation import logits
from labs.cases.group_relative import Samples, kl_estimate, log_probabilities
from labs.model import GPT, Shape
from labs.options.grpo import GrpoOptions
from labs.planner.grpo import predict
from labs.runner import rank as this
from labs.strategies.units import Recipe, whole_parameters
from labs.telemetry import Tracker

SIZES = Shape(layers=2, hidden=36, heads=3, sequence=12)
OUTPUTS, EPSILON, BETA, LR = 8, 0.2, 0.05, 1e-3


def model(seed: int) -> GPT:
    return GPT(SIZES, seed=seed, dtype=torch.float64)


def shared_samples() -> Samples:
    """The same on every rank: outputs of different lengths, of a policy that was not quite the one that is trained."""
    chance = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, 256, (OUTPUTS, SIZES.sequence + 1), generator=chance)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    ends = torch.randint(5, SIZES.sequence + 1, (OUTPUTS, 1), generator=chance)
    places = torch.arange(SIZES.sequence)
    with torch.no_grad():
        old = log_probabilities(logits(model(1), inputs), targets)
        old = old + 0.3 * torch.randn(old.shape, generator=chance, dtype=torch.float64)
        reference = log_probabilities(logits(model(2), inputs), targets)
    return Samples(
        tokens_BS=inputs,
        targets_BS=targets,
        mask_BS=((places >= 4) & (places < ends)).double(),
        advantages_B=torch.randn(OUTPUTS, generator=chance, dtype=torch.float64),
        old_BS=old,
        reference_BS=reference,
    )


def plain_loss(policy: GPT, samples: Samples) -> Tensor:
    """Equation 3 of DeepSeekMath, an output at a time."""
    losses = []
    for i in range(OUTPUTS):
        scores = logits(policy, samples.tokens_BS[i : i + 1])[0].log_softmax(-1)
        log_p = scores.gather(-1, samples.targets_BS[i][:, None])[:, 0]
        ratio, gain = (log_p - samples.old_BS[i]).exp(), samples.advantages_B[i]
        surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - EPSILON, 1 + EPSILON) * gain)
        kl = kl_estimate(log_p, samples.reference_BS[i])
        losses.append(-(surrogate - BETA * kl)[samples.mask_BS[i] == 1].mean())
    return torch.stack(losses).mean()


def update(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """Two updates from the same samples, by a strategy and by the twin."""
    rank, ranks, accumulate = dist.get_rank(group), dist.get_world_size(group), case["accumulate"]
    samples = shared_samples()
    policy = model(1)
    module = grpo.Reinforced(policy, model(2), epsilon=EPSILON, beta=BETA)
    recipe = Recipe(master=torch.float64, lr=LR)
    strategy = grpo.STRATEGIES[case["stage"]](module, module.pieces, group=group, recipe=recipe)
    twin = model(1)
    adam = torch.optim.Adam(twin.parameters(), lr=recipe.lr, eps=recipe.eps)
    worst = 0.0
    for _ in range(2):
        mine = samples.part(rank, ranks)
        parts = [mine.part(k, accumulate) for k in range(accumulate)]
        loss = strategy.train_step([(each.tokens_BS, each) for each in parts])
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        adam.zero_grad()
        expected = plain_loss(twin, samples)
        expected.backward()
        adam.step()
        worst = max(worst, abs(loss.item() - expected.item()))
    with whole_parameters(strategy.units):
        pairs = zip(policy.parameters(), twin.parameters(), strict=True)
        parameters = max((a - b).abs().max().item() for a, b in pairs)
        pairs = zip(module.reference.parameters(), model(2).parameters(), strict=True)
        reference = max((a - b).abs().max().item() for a, b in pairs)
    return {"case": case, "loss": worst, "parameters": parameters, "reference": reference}


def first_ratio(options: GrpoOptions, group: dist.ProcessGroup) -> dict[str, Any]:
    """Log probabilities before the first update and after, under the policy as it is trained; weights and bytes of the
    generator.
    """
    with Tracker() as tracker:
        run = grpo.Run(options, group=group)
        tracker.reset_collectives()
        run.transfer()
        transfer = {name: [count.count, count.bytes] for name, count in tracker.collectives.items()}
        with record_function("report"), whole_parameters(run.strategy.units):
            pairs = zip(run.module.policy.parameters(), run.generator.parameters(), strict=True)
            weights = all(torch.equal(a, b) for a, b in pairs)
        mine = [puzzle for puzzle, _ in islice(drawn("a test"), 4)]
        outputs = run.sample(mine, slice(None), seed=1)
        samples, _ = run.score(mine, outputs)

        def ratio() -> Tensor:
            with torch.no_grad():
                scores = logits(run.module.policy, samples.tokens_BS)
                return (log_probabilities(scores, samples.targets_BS) - samples.old_BS).exp()

        before = ratio()
        moving = replace(samples, advantages_B=torch.linspace(-1, 1, len(samples.advantages_B)).to(samples.old_BS))
        run.strategy.train_step([(moving.tokens_BS, moving)])  # type: ignore[list-item]
        after = ratio()
    predicted = predict(run.pieces, stage=options.stage, ranks=run.ranks, precision=options.precision)
    return {
        "transfer": transfer,
        "predicted": {name: [count.count, count.bytes] for name, count in predicted.transfer.items()},
        "weights": weights,
        "before": bool((before == 1).all()),
        "after": (after - 1).abs().max().item(),
    }


def main() -> None:
    task, words = sys.argv[1], sys.argv[2:]
    if task == "killed":
        place, words = int(words[0]), words[1:]
        step = grpo.Run.step

        def dying(run: grpo.Run, number: int) -> float:
            if number == place and this.number() == this.world_size() - 1:
                assert run.kept is not None
                run.kept.wait()
                os.kill(os.getpid(), signal.SIGKILL)
            return step(run, number)

        grpo.Run.step = dying  # type: ignore[method-assign]
        this.report(grpo.train(GrpoOptions.parse(words)))
        return
    with this.group() as group:
        if task == "updates":
            this.report([update(case, group) for case in json.loads(words[0])])
        else:
            this.report(first_ratio(GrpoOptions.parse(words), group))


if __name__ == "__main__":
    main()
    this.leave()
