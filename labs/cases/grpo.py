"""The GRPO lab, an ordinary torchrun script: `torchrun --nproc-per-node 2 labs/cases/grpo.py --stage 3 --steps 100`.

A small policy learns from examples what an answer to a Countdown puzzle looks like, and then by reinforcement what a
right one is (Shao et al. 2024; DeepSeek-AI 2025, R1). In each step every rank

    transfer     gathers the policy's weights from the ZeRO shards into a generator of its own,
    generation   lets it write a group of outputs to each of the rank's questions,
    scoring      computes their rewards, advantages, and log probabilities before the update and under the reference,
    training     and updates the policy's shards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs import training
from labs.cases.countdown import COMPLETION, END, PROMPT, Puzzle, decode, drawn, encode, equation_reward, format_reward
from labs.cases.generation import generate, logits
from labs.cases.group_relative import Samples, advantages, grpo_loss, kl_estimate, log_probabilities, output_means
from labs.cases.rows import Row
from labs.checkpoint import told
from labs.data import mixed
from labs.model import GPT
from labs.options.grpo import GrpoOptions
from labs.planner.grpo import predict
from labs.planner.zero import pieces_of
from labs.runner import rank as this
from labs.strategies.checkpoint import Checkpoints
from labs.strategies.data_parallel import DataParallel
from labs.strategies.parts import Part, names_of, parts_of, places_of, shapes_in
from labs.strategies.units import MicroBatch, Recipe, Strategy, Unit
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker
from labs.telemetry.categories import Bytes
from labs.telemetry.events import event

STRATEGIES: dict[int, Any] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
WARM_UP_LR, WARM_UP_BATCH = 3e-3, 64
"""Of the supervised examples: those of one step on all ranks."""
MEASURED, EXAMPLES = 128, 4
"""Puzzles that are held out and measured before and after, and of how many of them rank 0 tells the output."""
MEANS = ("reward", "form", "right", "any")
"""The mean reward, its two parts, and the share of the questions to which at least one output of the group is right."""
PARTS = ("transfer", "generation", "scoring", "training")


class Supervised(nn.Module):
    """-log p of the examples' tokens: the mean over each one's own, then over the examples."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BS: Tensor, targets_BS: Tensor) -> Tensor:
        return -output_means(log_probabilities(logits(self.model, tokens_BS), targets_BS), mask_of(targets_BS)).mean()


class Reinforced(nn.Module):
    """The policy, which is trained, and the reference, which is not: a strategy shards both."""

    def __init__(self, policy: GPT, reference: GPT, *, epsilon: float, beta: float) -> None:
        super().__init__()
        self.policy, self.reference = policy, reference.requires_grad_(False)
        self.epsilon, self.beta = epsilon, beta

    @property
    def pieces(self) -> list[nn.Module]:
        return [*self.policy.pieces, *self.reference.pieces]

    def forward(self, tokens_BS: Tensor, samples: Samples) -> Tensor:
        log_policy_BS = log_probabilities(logits(self.policy, tokens_BS), samples.targets_BS)
        return grpo_loss(log_policy_BS, samples, epsilon=self.epsilon, beta=self.beta)


def mask_of(targets_BS: Tensor) -> Tensor:
    """1.0 where the target belongs to the output: after the prompt, up to the first end."""
    output_BS = torch.arange(targets_BS.size(1), device=targets_BS.device) >= PROMPT - 1
    ended_BS = ((targets_BS == END) & output_BS).cumsum(-1) - (targets_BS == END).long()
    return (output_BS & (ended_BS <= 0)).float()


def padded(written: Sequence[Sequence[int]], length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens (B, length) with ends after them and, one further on, targets."""
    rows = [[*each, *[END] * (length + 1 - len(each))] for each in written]
    whole = torch.tensor(rows, device=device)
    return whole[:, :-1], whole[:, 1:]


# --- first: what an answer looks like


class WarmUp:
    """Supervised training with data parallelism, from examples that are solved puzzles."""

    def __init__(self, options: GrpoOptions, group: dist.ProcessGroup) -> None:
        self.options, self.group = options, group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.model = training.model_of(options)
        module, recipe = Supervised(self.model), Recipe(lr=WARM_UP_LR, master=training.recipe_of(options).master)
        names = names_of(self.model)
        self.strategy = DataParallel(module, self.model.pieces, group=group, recipe=recipe)
        self.parts = parts_of(self.strategy.units, places_of(shapes_in(self.strategy.units), names))

    def step(self, number: int) -> None:
        options = self.options
        for unit in self.strategy.trained:
            for settings in unit.adam.param_groups:
                settings["lr"] = WARM_UP_LR * min(1.0, (number + 1) / 50, 2 * (1 - number / options.warm_up))
        each = -(-WARM_UP_BATCH // self.ranks)
        solved = islice(drawn(f"warm-up {options.seed} {number}"), self.rank * each, (self.rank + 1) * each)
        written = [encode(puzzle.prompt + said) for puzzle, said in solved]
        self.strategy.train_step([padded(written, options.sequence, this.device())])


def warmed_up(options: GrpoOptions, group: dist.ProcessGroup) -> GPT:
    """A model that has learned from examples. With `keep`, it goes on where it was interrupted."""
    run = WarmUp(options, group)
    first, kept = 0, None
    if options.keep is not None:
        kept = Checkpoints(Path(options.keep, "warm-up"))
        if kept.latest() is not None:
            first = int(kept.load(run.parts)["step"])
    for number in range(first, options.warm_up):
        run.step(number)
        if kept is not None and ((number + 1) % 200 == 0 or number + 1 == options.warm_up):
            kept.save(run.parts, {"step": number + 1}, step=number + 1)
    if kept is not None:
        kept.wait()
    return run.model


# --- then: what a right one is


class Run:
    """What a rank has while it learns by reinforcement."""

    def __init__(self, options: GrpoOptions, *, group: dist.ProcessGroup) -> None:
        self.options, self.group, self.device = options, group, this.device()
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        with told():
            start = warmed_up(options, group)
        policy, reference, self.generator = (copy_of(start, options) for _ in range(3))
        self.generator.requires_grad_(False)
        self.module = Reinforced(policy, reference, epsilon=options.epsilon, beta=options.beta)
        self.pieces = pieces_of(policy.pieces)
        names, recipe = names_of(self.module), training.recipe_of(options)
        self.copies = dict(zip(policy.parameters(), self.generator.parameters(), strict=True))
        strategy = STRATEGIES[options.stage](self.module, self.module.pieces, group=group, recipe=recipe)
        self.strategy = cast("Strategy", strategy)
        self.places = places_of(shapes_in(self.strategy.units), names)
        self.curve: list[dict[str, float]] = []
        self.start: dict[str, Any] = {}
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.kept: Checkpoints | None = None
        if options.keep is not None:
            with told():
                self.kept = Checkpoints(Path(options.keep, "grpo"))

    def parts(self) -> list[Part]:
        return parts_of(self.strategy.units, self.places)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begun

    def step(self, number: int) -> float:
        """One round of samples, and the updates that they make; the mean loss of the last update."""
        options, questions = self.options, self.options.global_batch(self.ranks)
        mine = slice(self.rank * questions // self.ranks, (self.rank + 1) * questions // self.ranks)
        puzzles = [puzzle for puzzle, _ in islice(drawn(f"train {options.seed} {number}"), questions)]
        with self.timed("transfer"):
            self.transfer()
        with self.timed("generation"):
            outputs_BT = self.sample(puzzles, mine, seed=mixed(options.seed, number))
        with self.timed("scoring"):
            samples, rewards_QG2 = self.score(puzzles[mine], outputs_BT)
        with self.timed("training"):
            batches = [samples.part(k, options.accumulate) for k in range(options.accumulate)]
            for _ in range(options.updates):
                pairs = [(each.tokens_BS, each) for each in batches]
                loss = self.strategy.train_step(cast("list[MicroBatch]", pairs))
        mean = training.mean_over_ranks(loss, self.group)
        self.tell(number, samples, rewards_QG2)
        return mean

    def transfer(self) -> None:
        """The policy's weights, whole, into the generator: one unit at a time, gathered where it is sharded."""
        for unit in self.strategy.units:
            if unit.trainable:
                with whole(unit):
                    for p in unit.parameters:
                        self.copies[p].copy_(p)

    def sample(self, puzzles: Sequence[Puzzle], mine: slice, *, seed: int) -> Tensor:
        """A group of outputs (B, T) to each of this rank's puzzles. The random numbers are those of all puzzles, and a
        rank takes its own: what is written does not depend on the number of ranks.
        """
        size, source = (len(puzzles), self.options.group_size, COMPLETION), torch.Generator().manual_seed(seed)
        chances_BT = torch.rand(size, generator=source)[mine].flatten(0, 1).to(self.device)
        prompts = [encode(each.prompt) for each in self.asked(puzzles[mine])]
        return generate(self.generator, torch.tensor(prompts, device=self.device), chances_BT=chances_BT, end=END)

    def asked(self, puzzles: Sequence[Puzzle]) -> list[Puzzle]:
        """Each as often as outputs to it are sampled."""
        return [each for each in puzzles for _ in range(self.options.group_size)]

    def rewards(self, puzzles: Sequence[Puzzle], outputs_BT: Tensor) -> Tensor:
        """Of each output (Q, G, 2): for its form, and for being right."""
        pairs = zip(outputs_BT.tolist(), self.asked(puzzles), strict=True)
        written = [(decode(output), puzzle) for output, puzzle in pairs]
        found = [(format_reward(said), equation_reward(said, puzzle)) for said, puzzle in written]
        return torch.tensor(found, device=self.device).view(len(puzzles), -1, 2)

    def score(self, puzzles: Sequence[Puzzle], outputs_BT: Tensor) -> tuple[Samples, Tensor]:
        """What there is to learn from the outputs, and their rewards (Q, G, 2)."""
        rewards_QG2 = self.rewards(puzzles, outputs_BT)
        pairs = zip(self.asked(puzzles), outputs_BT.tolist(), strict=True)
        written = [encode(puzzle.prompt) + output for puzzle, output in pairs]
        tokens_BS, targets_BS = padded(written, self.options.sequence, self.device)
        with torch.no_grad():
            old_BS = log_probabilities(logits(self.generator, tokens_BS), targets_BS)
            reference_BS = log_probabilities(logits(self.module.reference, tokens_BS), targets_BS)
        samples = Samples(
            tokens_BS=tokens_BS,
            targets_BS=targets_BS,
            mask_BS=mask_of(targets_BS),
            advantages_B=advantages(rewards_QG2.sum(-1)).flatten(),
            old_BS=old_BS,
            reference_BS=reference_BS,
        )
        return samples, rewards_QG2

    def tell(self, number: int, samples: Samples, rewards_QG2: Tensor) -> None:
        """A point of the curve, over all ranks. `kl` and `length` are those of the samples, before the update."""
        kl = output_means(kl_estimate(samples.old_BS, samples.reference_BS), samples.mask_BS).mean()
        told = torch.stack([*means(rewards_QG2), kl, samples.mask_BS.sum(-1).mean()]) / self.ranks
        point = dict(zip((*MEANS, "kl", "length"), self.over_ranks(told), strict=True))
        self.curve.append(point)
        if self.rank == 0:
            event("rewarded", step=number, **point)

    def measure(self) -> dict[str, Any]:
        """Mean rewards on puzzles that no training has seen, and what was written to the first of them."""
        self.transfer()
        mine = slice(self.rank, MEASURED, self.ranks)
        puzzles = [puzzle for puzzle, _ in islice(drawn("measured", apart=True), MEASURED)]
        outputs_BT = self.sample(puzzles, mine, seed=0)
        rewards_QG2 = self.rewards(puzzles[mine], outputs_BT)
        told = self.over_ranks(torch.stack(means(rewards_QG2)) * len(rewards_QG2) / MEASURED)
        first = outputs_BT[:: self.options.group_size].tolist()
        said = [
            {"prompt": puzzle.prompt, "completion": decode(output)}
            for puzzle, output in zip(puzzles[mine][:EXAMPLES], first, strict=False)
        ]
        return {**dict(zip(MEANS, told, strict=True)), "said": said}

    def over_ranks(self, values: Tensor) -> list[float]:
        """Their sums, for the report only."""
        with record_function("report"):
            values = values.double()
            dist.all_reduce(values, group=self.group)
        return [float(each) for each in values]

    # --- interrupted, and going on

    def resume(self) -> int:
        """How many steps are done: those of the latest checkpoint, from which the run goes on."""
        if self.kept is None or self.kept.latest() is None:
            return 0
        with told():
            progress = self.kept.load(self.parts())
        self.curve = list(progress["curve"])
        self.seconds = dict(progress["seconds"])
        self.start = dict(progress["start"])
        event("resumed", step=len(self.curve))
        for number, point in enumerate(self.curve if self.rank == 0 else ()):
            event("rewarded", step=number, **point)
        return len(self.curve)

    def save(self) -> None:
        """All that it takes to go on: the states, and the curve so far."""
        if self.kept is not None:
            progress = {"curve": [*self.curve], "seconds": dict(self.seconds), "start": self.start}
            with told():
                self.kept.save(self.parts(), progress, step=len(self.curve))


@contextmanager
def whole(unit: Unit) -> Iterator[None]:
    """Within it the unit's parameters are whole on every rank."""
    sharded = not unit.gathered
    if sharded:
        unit.gather()
    yield
    if sharded:
        unit.free()


def copy_of(model: GPT, options: GrpoOptions) -> GPT:
    with record_function("parameters"):
        copied = training.model_of(options)
    copied.load_state_dict(model.state_dict())
    return copied


def means(rewards_QG2: Tensor) -> list[Tensor]:
    """In the order of `MEANS`."""
    right_QG = rewards_QG2[..., 1]
    return [rewards_QG2.sum(-1).mean(), *rewards_QG2.mean((0, 1)), right_QG.amax(-1).mean()]


def train(options: GrpoOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        run = Run(options, group=group)
        first = run.resume()
        if first == 0:
            run.start = run.measure()

        def step(number: int) -> float:
            loss = run.step(number)
            if (number + 1) % options.save_every == 0:
                run.save()
            return loss

        report = training.steps(options, tracker, step, first=first)
        moved = counted(tracker, run)
        end = run.measure()
        if run.kept is not None:
            with told():
                run.kept.wait()
    prediction = predict(
        run.pieces,
        stage=options.stage,
        ranks=run.ranks,
        precision=options.precision,
        updates=options.updates,
        micro_batches=options.accumulate,
    )
    return report | {
        "parameters": sum(piece.trained for piece in run.pieces),
        "moved": moved,
        "predicted": asdict(prediction),
        "whole": {
            "curve": run.curve,
            "start": run.start,
            "end": end,
            "parts": run.seconds,
            "generation_share": run.seconds["generation"] / sum(run.seconds.values()),
            "results": [row.as_dict() for row in rows(run, end, moved)],
        },
    }


def counted(tracker: Tracker, run: Run) -> dict[str, dict[str, int]]:
    """What handing the weights to the generator moves, counted once by itself."""
    tracker.reset_collectives()
    run.transfer()
    return {name: count.as_dict() for name, count in tracker.collectives.items()}


def rows(run: Run, end: Mapping[str, Any], moved: Mapping[str, Mapping[str, int]]) -> list[Row]:
    """What the run has found."""
    shares = {"right": "share", "any": "share", "reward": ""}
    measured = [
        Row(name=f"grpo-{name}-{when}", value=found[name], unit=unit)
        for name, unit in shares.items()
        for when, found in (("before", run.start), ("after", end))
    ]
    return [
        *measured,
        Row(name="grpo-kl", value=run.curve[-1]["kl"]),
        Row(name="grpo-transfer", value=sum(count["bytes"] for count in moved.values()), unit="B"),
        Row(name="grpo-generation", value=run.seconds["generation"] / sum(run.seconds.values()), unit="share"),
    ]


def at_rest(options: GrpoOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; no rank is started for it."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=options.stage, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(GrpoOptions, train)
