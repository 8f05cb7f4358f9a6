"""Checks `recompute(function, x)`: what is kept between forward and backward, and the gradients that come of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from labs.exercises.trial import Case, Failure, Result, Student, Work, different, generator, kind, misshapen, same
from labs.strategies.tensor import Copy, Reduce
from labs.telemetry import Tracker

CASES = (
    Case(name="plain", ranks=1, communicates=False),
    Case(name="dropout", ranks=1, group="random", communicates=False),
    Case(name="input without gradient", ranks=1, group="leaf", communicates=False),
    Case(name="2 ranks, a sum inside", ranks=2, group="ranks"),
)
EXAMPLES, FEATURES, HIDDEN = 32, 8, 256
SPARE = 16_384
"""Bytes that may be kept beside x: the states of generators, not values that the function computed."""


class Block(nn.Module):
    """Two linear layers with gelu between them; a share of the hidden values dropped; a sum over ranks at the end."""

    def __init__(self, seed: int, *, dropout: float, group: Any) -> None:
        super().__init__()
        chance = generator(seed, 1)
        self.up = nn.Parameter(torch.randn(FEATURES, HIDDEN, generator=chance, dtype=torch.float64) * 0.3)
        self.down = nn.Parameter(torch.randn(HIDDEN, FEATURES, generator=chance, dtype=torch.float64) * 0.3)
        self.dropout, self.group, self.calls = dropout, group, 0
        self.needs: list[bool] = []  # of each call, whether its input needs a gradient

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.needs.append(x.requires_grad)
        if self.group is not None:
            x = Copy.apply(x, self.group)  # type: ignore[no-untyped-call]
        hidden = F.dropout(F.gelu(x @ self.up), self.dropout)
        y: Tensor = hidden @ self.down
        if self.group is not None:
            y = Reduce.apply(y, self.group)  # type: ignore[no-untyped-call]
        return y


def inputs(seed: int) -> tuple[Tensor, Tensor]:
    """x, and the gradient of y that backward begins with."""
    chance = generator(seed, 2)
    x, grad = torch.randn(2, EXAMPLES, FEATURES, generator=chance, dtype=torch.float64).unbind()
    return x, grad


def dropout_of(case: Case) -> float:
    return 0.4 if case.group in ("random", "ranks") else 0.0


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup | None) -> Work:
    recompute = student["recompute"]
    block = Block(seed, dropout=dropout_of(case), group=group)
    x, grad = inputs(seed)
    x.requires_grad_(case.group != "leaf")
    told: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    torch.manual_seed(seed)
    gc.disable()  # what only the garbage collector would find counts as held
    with Tracker() as tracker:
        before = tracker.now.total
        y = recompute(block, x)
        if not isinstance(y, Tensor):
            return Work(value={"kind": kind(y)})
        told["kept"] = tracker.now.total - before - y.nbytes
        told["graph"] = y.requires_grad
        torch.rand(5)  # what comes after this function draws as well
        tensors["y"] = y.detach().clone()
        if y.requires_grad and y.shape == grad.shape:
            try:
                y.backward(grad)  # type: ignore[no-untyped-call]
            except (IndexError, KeyError, RuntimeError):
                if block.needs.count(block.needs[0]) == block.calls:
                    raise
                return Work(value={"graph": True, "other-need": True}, tensors=tensors)
        made = [p.grad.nbytes for p in (x, block.up, block.down) if p.grad is not None]
        told["left"] = tracker.now.total - before - y.nbytes - sum(made)
    gc.enable()
    told["calls"] = block.calls
    for name, parameter in (("x", x), ("up", block.up), ("down", block.down)):
        if parameter.grad is not None:
            tensors[name] = parameter.grad.clone()
    tensors["next"] = torch.rand(3, dtype=torch.float64)
    return Work(value=told, tensors=tensors)


def twin(case: Case, seed: int, *, run: int) -> dict[str, Tensor]:
    """What plain forward and backward give. `run` 2: with the random numbers of a second run."""
    block = Block(seed, dropout=dropout_of(case), group=None)
    x, grad = inputs(seed)
    x.requires_grad_(case.group != "leaf")
    torch.manual_seed(seed)
    for _ in range(run):
        y = block(x)
        torch.rand(5)
    ranks = case.ranks  # each has the same summand, and backward sums the same gradient of x once a rank
    tensors = {"y": y.detach() * ranks}
    y.backward(grad)
    for name, parameter, times in (("x", x, ranks), ("up", block.up, 1), ("down", block.down, 1)):
        if parameter.grad is not None:
            tensors[name] = parameter.grad * times
    tensors["next"] = torch.rand(3, dtype=torch.float64)
    return tensors


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    truth, second = twin(case, seed, run=1), twin(case, seed, run=2)
    for result in results:
        yield from compare_rank(result, truth, second)


def compare_rank(result: Result, truth: dict[str, Tensor], second: dict[str, Tensor]) -> Iterator[Failure]:
    rank = result.rank
    y = result.tensors.get("y")
    if failure := misshapen(y, truth["y"], group="forward", rank=rank):
        yield failure
        return
    assert y is not None
    if failure := different(y, truth["y"], {}, group="forward", rank=rank):
        yield failure
    if not result.get("graph", default=False):
        yield Failure(group="gradients", id="no-graph", rank=rank)
        return
    if result.get("other-need", default=False):
        yield Failure(group="gradients", id="other-need", rank=rank)
        return
    yield from kept(result)
    yield from gradients(result, truth, second)
    drawn = result.tensors.get("next")
    if drawn is None or not same(drawn, truth["next"]):
        yield Failure(group="random", id="random-after", rank=rank)


def kept(result: Result) -> Iterator[Failure]:
    """What is held between forward and backward, and how often the function has run after it."""
    rank, bytes_, calls = result.rank, int(result.get("kept", default=0)), int(result.get("calls", default=0))
    told = {"bytes": bytes_, "calls": calls}
    if calls < 2:
        yield Failure(group="ownership", id="ran-once", rank=rank, values=told)
    elif bytes_ > SPARE:
        yield Failure(group="ownership", id="kept", rank=rank, values=told)
    elif calls > 2:
        yield Failure(group="ownership", id="ran-often", rank=rank, values=told)


def gradients(result: Result, truth: dict[str, Tensor], second: dict[str, Tensor]) -> Iterator[Failure]:
    rank = result.rank
    for name in ("down", "up", "x"):
        if name not in truth:
            continue
        got = result.tensors.get(name)
        if got is None or not bool(got.any()):
            yield Failure(group="gradients", id="input-dropped" if name == "x" else "parameters-dropped", rank=rank)
            continue
        if failure := misshapen(got, truth[name], group="gradients", rank=rank):
            yield failure
            continue
        meanings: dict[str, Tensor | Sequence[Tensor]] = {"twice": 2 * truth[name]}
        if not same(second[name], truth[name]):
            meanings["other-random-numbers"] = second[name]
        if failure := different(got, truth[name], meanings, group="gradients", rank=rank):
            yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    left = int(results[0].get("left", default=0))
    if left > SPARE:
        yield Failure(group="ownership", id="left-over", values={"bytes": left})
