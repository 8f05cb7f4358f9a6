"""Checks `SplitNetwork`: what each rank holds, and its output and gradients beside one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises import network
from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks", ranks=3, group="more-ranks"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
PARTS = ("up_weight", "up_bias", "down_weight", "down_bias")


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    whole = network.Network(seed)
    split: Any = student["SplitNetwork"](whole.up, whole.down, group=group)
    held: dict[str, torch.nn.Parameter] = {}
    for name in PARTS:
        given = getattr(split, name, None)
        if not isinstance(given, torch.nn.Parameter):
            raise Found("shape", "no-part", name=name, got=kind(given))
        held[name] = given
    tensors = {f"held-{name}": each.detach().clone() for name, each in held.items()}
    windows = [name for name, each in held.items() if each.untyped_storage().nbytes() > each.nbytes]
    wanted = network.parameters(whole)
    if any(each.shape != network.part(wanted[name], name, 0, case.ranks).shape for name, each in held.items()):
        return Work(value={}, tensors=tensors)  # what does not fit together cannot be run
    x, grad = network.example(seed)
    x.requires_grad_()
    with Tracker() as tracker:
        y = split(x)
        if not isinstance(y, Tensor):
            raise Found("shape", "no-output", got=kind(y))
        tensors["y"] = y.detach().clone()
        if y.shape == grad.shape and y.requires_grad:
            y.backward(grad)
    found = {"x": x.grad, **{name: each.grad for name, each in held.items()}}
    tensors |= {f"grad-{name}": each.clone() for name, each in found.items() if each is not None}
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return Work(value={"windows": windows, "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    truth = network.twin(seed)
    parameters = network.parameters(network.Network(seed))
    branches = [network.branch(seed, rank, case.ranks) for rank in range(case.ranks)]
    for result in results:
        yield from held(case, parameters, result)
        yield from forward(case, truth, parameters["down_bias"], branches, result)
        yield from gradients(case, truth, branches, result)


def held(case: Case, parameters: dict[str, Tensor], result: Result) -> Iterator[Failure]:
    """This rank's part of each parameter."""
    rank, ranks = result.rank, case.ranks
    for name, whole in parameters.items():
        told: dict[str, Any] = {"name": name, "ranks": ranks}
        expected, got = network.part(whole, name, rank, ranks), result.tensors.get(f"held-{name}")
        if got is not None and got.shape == whole.shape != expected.shape:
            yield Failure(group="ownership", id="whole-kept", rank=rank, values={**told, "got": kind(got)})
        elif got is not None and whole.dim() == 2 and got.shape == whole.chunk(ranks, 1 - network.CUT[name])[0].shape:
            yield Failure(
                group="ownership",
                id="other-way",
                rank=rank,
                values={**told, "got": kind(got), "expected": kind(expected)},
            )
        elif failure := misshapen(got, expected, group="ownership", rank=rank, **told):
            yield failure
        elif got is not None:
            others = [network.part(whole, name, other, ranks) for other in range(ranks) if other != rank]
            meanings = {"other-part": others} if name in network.CUT else None
            if failure := different(got, expected, meanings or {}, group="ownership", rank=rank, **told):
                yield failure
            elif name in result.get("windows", default=[]):
                yield Failure(group="ownership", id="window-kept", rank=rank, values=told)


def forward(
    case: Case, truth: network.Run, bias: Tensor, branches: Sequence[network.Run], result: Result
) -> Iterator[Failure]:
    """The output, the same on every rank."""
    rank, ranks, own = result.rank, case.ranks, branches[result.rank].y
    told: dict[str, Any] = {"ranks": ranks}
    got = result.tensors.get("y")
    if failure := misshapen(got, truth.y, group="forward", rank=rank, **told):
        yield failure
        return
    assert got is not None
    without = truth.y - bias
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "partial": [own + bias, own],
        "bias-times": without + ranks * bias,
        "bias-missing": without,
        "mean": [without / ranks + bias, truth.y / ranks],
    }
    if failure := different(got, truth.y, meanings, group="forward", rank=rank, **told):
        yield failure


def gradients(case: Case, truth: network.Run, branches: Sequence[network.Run], result: Result) -> Iterator[Failure]:
    """The gradient of x, and this rank's part of each parameter's."""
    rank, ranks = result.rank, case.ranks
    wanted = {name: network.part(whole, name, rank, ranks) for name, whole in truth.gradients.items()}
    for name, expected in {**wanted, "x": truth.x_grad}.items():
        told: dict[str, Any] = {"name": name, "ranks": ranks}
        got = result.tensors.get(f"grad-{name}")
        if got is None:
            yield Failure(group="gradients", id="no-gradient", rank=rank, values=told)
        elif failure := misshapen(got, expected, group="gradients", rank=rank, **told):
            yield failure
        else:
            meanings: dict[str, Tensor] = {"times": expected * ranks, "divided": expected / ranks}
            if name == "x":
                own = branches[rank].x_grad
                meanings |= {"x-partial": own, "x-partial-times": own * ranks}
            if failure := different(got, expected, meanings, group="gradients", rank=rank, **told):
                yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """Two all-reduces of (B, S, D) are enough."""
    enough = 2 * 2 * network.example(seed)[0].nbytes
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
