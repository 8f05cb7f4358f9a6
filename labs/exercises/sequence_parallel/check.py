"""Checks `SequenceNetwork`: each rank's positions of the output, and every gradient, beside one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from labs.exercises import network
from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks", ranks=3, group="more-ranks"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
WHOLE = ("norm_weight", "norm_bias", "down_bias")
PARTS = (*network.CUT, *WHOLE)


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    model = network.Network(seed, norm=True)
    split: Any = student["SequenceNetwork"](model.norm, model.up, model.down, group=group)
    x, grad = (network.positions(each, rank, ranks).transpose(0, 1).contiguous() for each in network.example(seed))
    x.requires_grad_()
    tensors: dict[str, Tensor] = {}
    with Tracker() as tracker:
        y = split(x)
        if not isinstance(y, Tensor):
            raise Found("shape", "no-output", got=kind(y))
        tensors["y"] = y.detach().clone()
        if y.shape == grad.shape and y.requires_grad:
            y.backward(grad)
            if all(getattr(split, name).grad is not None for name in PARTS):
                split.finish_gradients()
    found = {"x": x.grad, **{name: getattr(split, name).grad for name in PARTS}}
    tensors |= {f"grad-{name}": each.detach().clone() for name, each in found.items() if each is not None}
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return Work(value={"collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    truth = network.twin(seed, norm=True)
    bias = network.parameters(network.Network(seed, norm=True))["down_bias"]
    branches = [network.branch(seed, rank, case.ranks, norm=True) for rank in range(case.ranks)]
    for result in results:
        yield from forward(case, truth, bias, branches, result)
        yield from gradients(case, seed, truth, branches, result)


def mine(whole_BSD: Tensor, case: Case, rank: int) -> Tensor:
    """A rank's positions, the sequence first."""
    return network.positions(whole_BSD, rank, case.ranks).transpose(0, 1)


def forward(
    case: Case, truth: network.Run, bias: Tensor, branches: Sequence[network.Run], result: Result
) -> Iterator[Failure]:
    """This rank's positions of the output."""
    rank, ranks = result.rank, case.ranks
    told: dict[str, Any] = {"ranks": ranks}
    expected, got = mine(truth.y, case, rank), result.tensors.get("y")
    if got is not None and len(got) == ranks * len(expected) > len(expected):
        yield Failure(group="shape", id="all-positions", rank=rank, values={**told, "got": kind(got)})
        return
    if failure := misshapen(got, expected, group="shape", rank=rank, **told):
        yield failure
        return
    assert got is not None
    own = mine(branches[rank].y, case, rank)
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "partial": [own + bias, own],
        "bias-times": expected + (ranks - 1) * bias,
        "bias-missing": expected - bias,
        "other-positions": [mine(truth.y, case, other) for other in range(ranks) if other != rank],
    }
    if failure := different(got, expected, meanings, group="forward", rank=rank, **told):
        yield failure


def gradients(
    case: Case, seed: int, truth: network.Run, branches: Sequence[network.Run], result: Result
) -> Iterator[Failure]:
    """The gradient of this rank's x, of its part of each matrix, and of what all ranks have whole."""
    rank, ranks = result.rank, case.ranks
    step = network.S // ranks
    own = network.twin(seed, norm=True, positions=slice(rank * step, (rank + 1) * step))
    expected = {name: network.part(whole, name, rank, ranks) for name, whole in truth.gradients.items()}
    for name, whole in {**expected, "x": mine(truth.x_grad, case, rank)}.items():
        told: dict[str, Any] = {"name": name, "ranks": ranks}
        group = "replicated" if name in WHOLE else "gradients"
        got = result.tensors.get(f"grad-{name}")
        if got is None:
            yield Failure(group=group, id="no-gradient", rank=rank, values=told)
            continue
        if failure := misshapen(got, whole, group=group, rank=rank, **told):
            yield failure
            continue
        meanings: dict[str, Tensor | Sequence[Tensor]] = {}
        if name == "x":
            meanings["nothing"] = torch.zeros_like(whole)
            meanings["x-partial"] = mine(branches[rank].x_grad, case, rank)
        elif name in network.CUT:
            others = [network.part(truth.gradients[name], name, other, ranks) for other in range(ranks)]
            meanings["own-positions"] = network.part(own.gradients[name], name, rank, ranks)
            meanings["parts-summed"] = torch.stack(others).sum(0)
        else:
            meanings["partial-norm"] = partial(name, case, seed, rank)
            meanings["mean-of-parts"] = whole / ranks
        if failure := different(got, whole, meanings, group=group, rank=rank, **told):
            yield failure


def partial(name: str, case: Case, seed: int, rank: int) -> Tensor:
    """What a rank's own positions give of the gradient of something that all ranks have whole."""
    model, (x, grad) = network.Network(seed, norm=True), network.example(seed)
    normed = model.norm(x)
    back = torch.autograd.grad(model.down(F.gelu(model.up(normed))), normed, grad)[0]
    terms = {"norm_weight": back * F.layer_norm(x, x.shape[-1:]), "norm_bias": back, "down_bias": grad}
    return network.positions(terms[name], rank, case.ranks).sum((0, 1))


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """Two reduce-scatters and two all-gathers of (S, B, D), and the small all-reduces."""
    enough = 4 * network.example(seed)[0].nbytes + 3 * 2 * 8 * network.D
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
