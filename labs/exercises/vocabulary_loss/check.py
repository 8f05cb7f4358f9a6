"""Checks `vocabulary_loss`: the loss of each prediction, and the gradient of this rank's logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, generator, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="2 ranks, large logits", ranks=2, group="large"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
N, V = 8, 12
LARGE = 2000.0
"""exp of it is more than float64 can hold."""


def example(seed: int, case: Case) -> tuple[Tensor, Tensor]:
    """Logits (N, V) and targets (N); with every part of the vocabulary among the targets."""
    chance = generator(seed, 5, case.ranks)
    logits = torch.randn(N, V, generator=chance, dtype=torch.float64) * 2
    if case.group == "large":
        logits += LARGE
    return logits, torch.arange(N) * V // N


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    logits, targets = example(seed, case)
    mine = logits.chunk(case.ranks, 1)[dist.get_rank(group)].clone()
    with Tracker() as tracker:
        given: Any = student["vocabulary_loss"](mine, targets.clone(), group=group)
        if not isinstance(given, tuple) or [isinstance(each, Tensor) for each in given] != [True, True]:
            raise Found("shape", "no-pair", got=kind(given))
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    tensors = {"loss": given[0].detach().clone(), "grad": given[1].detach().clone()}
    return Work(value={"collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for result in results:
        found = list(loss(case, seed, result))
        yield from found or gradient(case, seed, result)


def loss(case: Case, seed: int, result: Result) -> Iterator[Failure]:
    """The loss of each prediction, and not their mean."""
    (logits, targets), ranks, told = example(seed, case), case.ranks, {"ranks": case.ranks}
    got, expected = result.tensors.get("loss"), F.cross_entropy(logits, targets, reduction="none")
    if got is not None and got.numel() == 1:
        yield Failure(group="shape", id="one-number", rank=result.rank, values={**told, "got": kind(got)})
        return
    if failure := misshapen(got, expected, group="loss", rank=result.rank, **told):
        yield failure
        return
    assert got is not None
    mine = logits.chunk(ranks, 1)[result.rank]
    top = logits.amax(-1)
    hit = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    owner = targets // (V // ranks) == result.rank
    own_tops = torch.stack([part.amax(-1) for part in logits.chunk(ranks, 1)])
    shifted = sum((part - part.amax(-1, keepdim=True)).exp().sum(-1) for part in logits.chunk(ranks, 1))
    assert isinstance(shifted, Tensor)
    owners_top = own_tops.gather(0, (targets // (V // ranks)).unsqueeze(0)).squeeze(0)
    whole_sum = expected + hit - top
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "own-vocabulary": [
            (mine - top.unsqueeze(-1)).exp().sum(-1).log() - (hit - top),
            (mine - top.unsqueeze(-1)).exp().sum(-1).log() - (hit - top) * owner,
        ],
        "hit-own": whole_sum - (hit - top) * owner,
        "hit-missing": whole_sum,
        "hit-unshifted": [expected - top, whole_sum - hit * owner],
        "own-top": [
            shifted.log() - (hit - owners_top),
            shifted.log() - (hit - owners_top) * owner,
        ],
    }
    if failure := different(got, expected, meanings, group="loss", rank=result.rank, **told):
        yield failure


def gradient(case: Case, seed: int, result: Result) -> Iterator[Failure]:
    """softmax minus one-hot, this rank's columns."""
    (logits, targets), ranks, told = example(seed, case), case.ranks, {"ranks": case.ranks}
    softmax = logits.softmax(-1)
    expected = (softmax - F.one_hot(targets, V)).chunk(ranks, 1)[result.rank]
    got = result.tensors.get("grad")
    if failure := misshapen(got, expected, group="gradient", rank=result.rank, **told):
        yield failure
        return
    assert got is not None
    mine = softmax.chunk(ranks, 1)[result.rank]
    row = targets - result.rank * (V // ranks)
    clamped = [row.clamp(0, V // ranks - 1), row.where((row >= 0) & (row < V // ranks), 0), targets % (V // ranks)]
    own = mine / mine.sum(-1, keepdim=True)
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "no-one-hot": mine,
        "one-hot-everywhere": [mine - F.one_hot(each, V // ranks) for each in clamped],
        "own-softmax": [own, own - (mine - expected)],
        "mean-gradient": expected / N,
    }
    if failure := different(got, expected, meanings, group="gradient", rank=result.rank, **told):
        yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """Three numbers a token, each all-reduced."""
    enough = 3 * 2 * 8 * N
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
