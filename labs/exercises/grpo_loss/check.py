"""Checks `GrpoLoss.loss`: its value on each rank, and its gradient by the log probabilities of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import Case, Failure, Result, Student, Work, different, generator, kind, misshapen, same
from labs.telemetry import Tracker

CASES = (
    Case(name="each group on one rank", ranks=2),
    Case(name="all outputs to one question alike", ranks=2),
    Case(name="groups over several ranks", ranks=3, group="together"),
)
GROUP_SIZE = {"groups over several ranks": 6}
"""By case; 4 where nothing else is said. A rank has 4 outputs."""
OUTPUTS, TOKENS = 4, 5
EPSILON, BETA = 0.2, 0.3
GROUPS = {
    "own": "advantages",
    "all-one-group": "advantages",
    "raw-rewards": "advantages",
    "not-scaled": "advantages",
    "no-clip": "ratio",
    "clip-alone": "ratio",
    "the-larger": "ratio",
    "old-is-reference": "ratio",
    "no-kl": "divergence",
    "kl-adds": "divergence",
    "kl-plain": "divergence",
    "kl-turned": "divergence",
    "token-mean": "means",
    "mask-ignored": "means",
    "padding-counts": "means",
    "upwards": "means",
}
"""The group of points of each thing that a wrong gradient can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    log_policy: Tensor
    log_old: Tensor
    log_reference: Tensor
    mask: Tensor
    rewards: Tensor


def inputs(case: Case, seed: int, rank: int) -> Inputs:
    """A rank's outputs. Half of the ratios lie beyond the clip."""
    chance = generator(seed, CASES.index(case), rank)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=chance, dtype=torch.float64)

    policy = normal(OUTPUTS, TOKENS) * 0.5 - 2
    lengths = torch.tensor([[TOKENS], [2], [3], [1]])
    rewards = torch.randint(0, 3, (OUTPUTS,), generator=chance).double()
    rewards[:2] = torch.tensor([0.0, 2.0])  # so that no group is without a difference by chance
    if case.name == "all outputs to one question alike" and rank == 1:
        rewards[:] = 1.0
    return Inputs(
        log_policy=policy,
        log_old=policy - 0.3 * normal(OUTPUTS, TOKENS),
        log_reference=policy + 0.6 * normal(OUTPUTS, TOKENS),
        mask=(torch.arange(TOKENS) < lengths).double(),
        rewards=rewards,
    )


def size_of(case: Case) -> int:
    return GROUP_SIZE.get(case.name, 4)


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    given = inputs(case, seed, dist.get_rank(group))
    policy = given.log_policy.clone().requires_grad_()
    own: Any = student["GrpoLoss"](group_size=size_of(case), epsilon=EPSILON, beta=BETA, group=group)
    with Tracker() as tracker:
        found = own.loss(policy, given.log_old, given.log_reference, given.mask, given.rewards)
        moved = sum(count.bytes for count in tracker.collectives.values())
    if not isinstance(found, Tensor):
        return Work(value={"kind": kind(found), "moved": moved})
    tensors = {"loss": found.detach().clone()}
    if found.requires_grad and found.numel() == 1:
        found.backward()  # type: ignore[no-untyped-call]
        if policy.grad is not None:
            tensors["gradient"] = policy.grad
    return Work(value={"kind": "tensor", "moved": moved}, tensors=tensors)


# --- what is right, and what is wrong in a way that has a name


def loss(case: Case, seed: int, rank: int, policy: Tensor, *, wrong: str = "") -> Tensor:
    """The loss of a rank, or what comes out where one thing in it is `wrong`."""
    given = inputs(case, seed, rank)
    mask = torch.ones_like(given.mask) if wrong == "mask-ignored" else given.mask
    gain = advantages(case, seed, rank, wrong)[:, None]
    before = given.log_reference if wrong == "old-is-reference" else given.log_old
    ratio = (policy - before).exp()
    clipped = ratio.clamp(1 - EPSILON, 1 + EPSILON)
    surrogate = {
        "no-clip": ratio * gain,
        "clip-alone": clipped * gain,
        "the-larger": torch.max(ratio * gain, clipped * gain),
    }.get(wrong, torch.min(ratio * gain, clipped * gain))
    log_ratio = given.log_reference - policy
    right = log_ratio.exp() - log_ratio - 1
    kl = {
        "no-kl": torch.zeros_like(right),
        "kl-adds": -right,
        "kl-plain": -log_ratio,
        "kl-turned": (-log_ratio).exp() + log_ratio - 1,
    }.get(wrong, right)
    tokens = (surrogate - BETA * kl) * mask
    if wrong == "token-mean":
        return -tokens.sum() / mask.sum()
    each: Tensor = tokens.mean(-1) if wrong == "padding-counts" else tokens.sum(-1) / mask.sum(-1)
    return each.mean() if wrong == "upwards" else -each.mean()


def advantages(case: Case, seed: int, rank: int, wrong: str = "") -> Tensor:
    """A rank's own part of the advantages."""
    rewards = [inputs(case, seed, each).rewards for each in range(case.ranks)]
    size = size_of(case)
    if wrong == "raw-rewards":
        return rewards[rank]
    if wrong == "own":
        return normalised(rewards[rank], len(rewards[rank]))
    if wrong == "all-one-group":
        return normalised(torch.cat(rewards), len(rewards) * OUTPUTS).chunk(case.ranks)[rank]
    everyone = torch.cat(rewards)
    if wrong == "not-scaled":
        groups = everyone.view(-1, size)
        return (groups - groups.mean(-1, keepdim=True)).flatten().chunk(case.ranks)[rank]
    return normalised(everyone, size).chunk(case.ranks)[rank]


def normalised(rewards: Tensor, size: int) -> Tensor:
    groups = rewards.view(-1, size)
    centred = groups - groups.mean(-1, keepdim=True)
    return (centred / (groups.std(-1, correction=0, keepdim=True) + 1e-4)).flatten()


def both(case: Case, seed: int, rank: int, *, wrong: str = "") -> tuple[Tensor, Tensor]:
    """The loss and its gradient."""
    policy = inputs(case, seed, rank).log_policy.requires_grad_()
    value = loss(case, seed, rank, policy, wrong=wrong)
    (gradient,) = torch.autograd.grad(value, policy)
    return value.detach(), gradient


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for result in results:
        rank = result.rank
        value, expected = both(case, seed, rank)
        got = result.tensors.get("loss")
        if got is None:
            yield Failure(group="shape", id="no-number", rank=rank, values={"got": result.get("kind", default="")})
            continue
        if failure := misshapen(got, value, group="shape", rank=rank):
            yield failure
            continue
        gradient = result.tensors.get("gradient")
        if gradient is None:
            yield Failure(group="shape", id="no-gradient", rank=rank)
            continue
        meanings = {wrong: both(case, seed, rank, wrong=wrong)[1] for wrong in GROUPS}
        told = {"size": size_of(case), "outputs": OUTPUTS}
        if failure := different(gradient, expected, meanings, group="means", rank=rank, **told):
            yield replace(failure, group=GROUPS.get(failure.id, "means"))
        elif not same(got, value):
            numbers = {"got": f"{float(got):.6g}", "expected": f"{float(value):.6g}"}
            yield Failure(group="means", id="value", rank=rank, values=numbers)


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """One number for each output is enough to judge a group."""
    expected = 8 * OUTPUTS * case.ranks
    moved = int(results[0].get("moved", default=0))
    if moved > 4 * expected:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": expected})
