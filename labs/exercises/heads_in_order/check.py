"""Checks `qkv_of_rank(weight, heads=, rank=, ranks=)`: its rows for several numbers of heads and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, generator, kind, misshapen

CASES = (
    Case(name="whole", ranks=1, communicates=False),
    Case(name="2 ranks", ranks=1, communicates=False),
    Case(name="4 ranks", ranks=1, communicates=False, group="more-ranks"),
)
TENSOR = {"whole": 1, "2 ranks": 2, "4 ranks": 4}
"""Ranks of the tensor axis in each case; one process asks for each of them in turn."""
HEADS, FEATURES = 4, 3
"""Heads, and features of each."""


def example(seed: int) -> Tensor:
    width = HEADS * FEATURES
    return torch.randn(3 * width, width, generator=generator(seed, 11), dtype=torch.float64)


def by_head(weight: Tensor) -> Tensor:
    return weight.view(3, HEADS, FEATURES, -1).transpose(0, 1).reshape(weight.shape)


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    weight, ranks = example(seed), TENSOR[case.name]
    tensors = {}
    for rank in range(ranks):
        given = student["qkv_of_rank"](weight.clone(), heads=HEADS, rank=rank, ranks=ranks)
        if not isinstance(given, Tensor):
            raise Found("shape", "no-tensor", got=kind(given))
        tensors[str(rank)] = given.detach().clone()
    return Work(value={"ranks": ranks}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    weight, ranks = example(seed), TENSOR[case.name]
    right = by_head(weight)
    for rank in range(ranks):
        got, expected = result.tensors.get(str(rank)), right.chunk(ranks)[rank]
        told: dict[str, object] = {"ranks": ranks, "heads": HEADS, "asked": rank}
        group = "order" if ranks == 1 else "part"
        if failure := misshapen(got, expected, group="shape", rank=0, **told):
            yield failure
            return
        assert got is not None
        kinds, parts = weight.view(3, HEADS * FEATURES, -1), weight.view(3, HEADS, FEATURES, -1)
        meanings: dict[str, Tensor | Sequence[Tensor]] = {
            "as-it-was": weight.chunk(ranks)[rank],
            "by-kind": kinds.chunk(ranks, 1)[rank].reshape(got.shape),
            "by-feature": kinds.transpose(0, 1).reshape(weight.shape).chunk(ranks)[rank],
            "features-first": parts.permute(2, 1, 0, 3).reshape(weight.shape).chunk(ranks)[rank],
            "other-rank": [part for other, part in enumerate(right.chunk(ranks)) if other != rank],
            "alternating": right.view(-1, ranks, right.size(1))[:, rank],
        }  # fmt: skip
        if ranks == 1:
            meanings = {name: meanings[name] for name in ("as-it-was", "by-feature", "features-first")}
        if failure := different(got, expected, meanings, group=group, rank=0, **told):
            yield failure
            return


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
