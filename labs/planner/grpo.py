"""The bytes of GRPO: the lab's own, to the byte, and those of a published run.

GRPO has no value model: beside the policy with its gradients and optimizer states there are the reference, whose
weights are only read, and the generator's whole copy of the policy's weights (Shao et al. 2024, figure 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labs.planner import zero
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.inference import BYTES, Serving, step
from labs.planner.memory import Bars, memory
from labs.planner.models import Model, model
from labs.planner.recomputed import facts
from labs.planner.throughput import LAYER, step_flops
from labs.planner.zero import PRECISIONS, Count, ModelStates, Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Bytes of one rank at rest; of them the reference's and the generator's; the collectives of handing the weights to
    the generator, and of a whole step.
    """

    states: ModelStates
    reference: int
    generator: int
    transfer: dict[str, Count]
    collectives: dict[str, Count]


def predict(
    pieces: Sequence[Piece],
    *,
    stage: int,
    ranks: int,
    precision: str = "fp32",
    updates: int = 1,
    micro_batches: int = 1,
) -> Prediction:
    """Of a policy of these pieces, all of them trained, and a reference of the same size.

    In stage 3 a step gathers the policy's weights once for the generator and twice for each micro-batch of each update,
    and the reference's once, to score.
    """
    once = zero.predict(pieces, stage=stage, ranks=ranks, precision=precision, micro_batches=micro_batches)
    policy, cost = once.states, PRECISIONS[precision]
    reference = policy.parameters
    generator = cost.parameter * sum(piece.trained for piece in pieces)
    padded = [-(-piece.trained // ranks) * ranks for piece in pieces]
    whole = Count(count=len(padded), bytes=cost.parameter * sum(padded))
    collectives = {name: _times(updates, count) for name, count in once.collectives.items()}
    transfer: dict[str, Count] = {}
    if stage == 3:
        transfer = {"all_gather": whole}
        gathers = collectives["all_gather"]
        collectives["all_gather"] = Count(count=gathers.count + 2 * whole.count, bytes=gathers.bytes + 2 * whole.bytes)
    return Prediction(
        states=replace(policy, parameters=policy.parameters + reference + generator),
        reference=reference,
        generator=generator,
        transfer=transfer,
        collectives=collectives,
    )


def _times(times: int, count: Count) -> Count:
    return Count(count=times * count.count, bytes=times * count.bytes)


# --- what a learner computes by hand


def advantage(*, right: int, group_size: int) -> float:
    """Of a right output, where so many of its group are right, all of the same form: (1 - p) / sqrt(p (1 - p)).

    Zero where none or all of them are.
    """
    if right in (0, group_size):
        return 0.0
    return math.sqrt((group_size - right) / right)


def trainer_states(*, parameters: int, trainers: int) -> float:
    """Bytes of policy, gradients and Adam under ZeRO-3 on a trainer, and of the reference, sharded as well."""
    return (PRECISIONS["bf16"].total + PRECISIONS["bf16"].parameter) * parameters / trainers


def generation_seconds(*, parameters: int, bandwidth: float, tokens: int) -> float:
    """The least time to write so many tokens, in any number of sequences at once: each step reads all weights."""
    return tokens * PRECISIONS["bf16"].parameter * parameters / bandwidth


# --- a large model on a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """GRPO on `trainers` accelerators under ZeRO-3 beside one that only generates.

    In a step each trainer takes `accumulate` questions one after the other, with a group of outputs to each; the
    generator writes those of all trainers together. `reserved` is the share of its memory that it takes.
    """

    model: Model
    gpu: Accelerator
    trainers: int
    accumulate: int
    group_size: int
    prompt: int
    completion: int
    reserved: float

    @property
    def outputs(self) -> int:
        """Sampled in one step."""
        return self.trainers * self.accumulate * self.group_size

    @property
    def training(self) -> Configuration:
        """The trainers' own plan. A micro-batch is one group, and activations are recomputed."""
        return Configuration(
            model=self.model,
            dp=self.trainers,
            zero=3,
            micro_batch=self.group_size,
            micro_batches=self.accumulate,
            sequence=self.prompt + self.completion,
            recompute="full",
            stack=STACKS["deepspeed"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """Bytes on one trainer: what training itself takes, and the reference's shard."""

    bars: Bars
    reference: int

    @property
    def total(self) -> int:
        return self.bars.total + self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Bytes on the generator: the weights, the cache when all outputs are as long as they may be, and what it reserves
    in all.
    """

    weights: int
    cache: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """The least that the parts of a step can take; `transfer` hands the weights over once."""

    generation: float
    scoring: float
    training: float
    transfer: float

    @property
    def generation_share(self) -> float:
        return self.generation / (self.generation + self.scoring + self.training + self.transfer)


def trainer(plan: Plan) -> Trainer:
    """Of the reference's weights, in 16 bits, ZeRO-3 leaves each trainer an n-th as well."""
    shard = -(-plan.model.parameters // plan.trainers)
    return Trainer(bars=memory(plan.training, gpu=plan.gpu).bars, reference=shard * PRECISIONS["bf16"].parameter)


def generator(plan: Plan) -> Generator:
    serving = _serving(plan)
    at_once = plan.trainers * plan.group_size
    return Generator(
        weights=round(serving.weights),
        cache=round(serving.cache(sequences=at_once, positions=plan.prompt + plan.completion)),
        reserved=round(plan.reserved * plan.gpu.memory),
    )


def seconds(plan: Plan, *, completion: int | None = None) -> Seconds:
    """The roofline of a step whose outputs are `completion` tokens long, by default as long as they may be.

    To generate, weights and cache are read once for each token of the groups that are written together. To score, the
    policy before the update and the reference make a forward each, a third of training's operations without
    recomputation each. Scoring and training reach the share of the peak that a layer was measured to reach.
    """
    new = plan.completion if completion is None else completion
    serving, at_once = _serving(plan), plan.trainers * plan.group_size
    first = step(serving, sequences=at_once, tokens=plan.prompt, positions=plan.prompt).seconds
    each = step(serving, sequences=at_once, positions=plan.prompt + new // 2).seconds
    shorter = replace(plan.training, sequence=plan.prompt + new)
    rate = plan.gpu.peak * plan.trainers * LAYER
    whole = plan.model.parameters * BYTES["bf16"]
    return Seconds(
        generation=plan.accumulate * (first + (new - 1) * each),
        scoring=2 * step_flops(shorter, recompute="none") / 3 / rate,
        training=step_flops(shorter) / rate,
        transfer=whole / plan.gpu.link,
    )


def _serving(plan: Plan) -> Serving:
    return Serving(model=plan.model, gpu=plan.gpu, gpus=1)


def published_plan() -> Plan:
    """The published Mini-R1 run (hf_mini_r1). Its trainer, TRL 0.14, counted questions in `per_device_bs`, each with
    all its outputs, and had each micro-batch generated by itself.
    """
    known = facts("hf_mini_r1")
    recipe, launch = known["cfg"], known["launch"]
    return Plan(
        model=model("qwen-2.5-3b"),
        gpu=accelerator("h100-80"),
        trainers=launch["train_processes"],
        accumulate=recipe["per_device_bs"] * recipe["grad_accum"],
        group_size=recipe["generations"],
        prompt=recipe["max_prompt"],
        completion=recipe["max_completion"],
        reserved=recipe["vllm_mem"],
    )


def published_seconds() -> tuple[float, float]:
    """What a step of it was measured to take, from and to."""
    low, high = facts("hf_mini_r1")["step_time"]
    return float(low), float(high)
