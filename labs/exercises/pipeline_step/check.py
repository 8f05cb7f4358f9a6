"""Checks `pipeline_step(stage, order)`: the loss, and the gradients that each rank is left with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises import stages
from labs.exercises.trial import Case, Failure, Result, Student, Work, different, kind, misshapen, same
from labs.strategies.schedules import one_f_one_b
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2, micro_batches=2),
    Case(name="5 micro-batches", ranks=2, micro_batches=5, group="micro-batches"),
    Case(name="4 ranks", ranks=4, micro_batches=5, group="more-ranks"),
    Case(name="a shared weight", ranks=3, micro_batches=3, group="shared"),
)


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    own = stages.stage(seed, micro=case.micro_batches, shared=case.group == "shared", group=group)
    order = one_f_one_b(rank=own.number, ranks=own.stages, micro_batches=case.micro_batches)
    with Tracker() as tracker:
        loss = student["pipeline_step"](own, order)
    tensors = {name: p.grad.clone() for name, p in own.chunk.named_parameters() if p.grad is not None}
    if isinstance(loss, Tensor):
        tensors["loss"] = loss.detach().clone().as_subclass(torch.Tensor)
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return Work(value={"loss": kind(loss), "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    shared = case.group == "shared"
    truth = stages.twin(seed, stages=case.ranks, micro=case.micro_batches, shared=shared)
    for result in results:
        yield from gradients(case, truth, result, shared=shared)
        yield from losses(case, truth, result)


def gradients(case: Case, truth: stages.Truth, result: Result, *, shared: bool) -> Iterator[Failure]:
    """Each parameter's gradient on this rank, beside one process."""
    for name in ("weight", "bias"):
        got = result.tensors.get(name)
        parts = truth.gradients[result.rank][name]
        expected = truth.gradient(result.rank, name, shared=shared)
        told: dict[str, Any] = {"name": name, "micro_batches": case.micro_batches}
        if got is None:
            yield Failure(group="gradients", id="no-gradient", rank=result.rank, values=told)
            continue
        if failure := misshapen(got, expected, group="shape", rank=result.rank, **told):
            yield failure
            continue
        own = torch.stack(parts).sum(0)
        meanings: dict[str, Tensor | Sequence[Tensor]] = {}
        if shared and not same(own, expected):
            meanings |= {"own-part": own, "halved": expected / 2}
        meanings |= {
            "sum": expected * case.micro_batches,
            "one-only": parts,
            "divided-twice": expected / case.micro_batches,
        }
        if failure := different(got, expected, meanings, group="gradients", rank=result.rank, **told):
            yield failure


def losses(case: Case, truth: stages.Truth, result: Result) -> Iterator[Failure]:
    """The mean on the last stage, nothing elsewhere."""
    last = result.rank == case.ranks - 1
    got, told = result.tensors.get("loss"), {"got": result.get("loss"), "micro_batches": case.micro_batches}
    if (got is None) == last:
        id = "no-loss" if last else "loss-elsewhere"
        yield Failure(group="loss", id=id, rank=result.rank, values=told)
    elif got is not None:
        mean = torch.tensor(sum(truth.losses) / len(truth.losses), dtype=torch.float64)
        meanings: dict[str, Tensor | Sequence[Tensor]] = {
            "loss-sum": mean * case.micro_batches,
            "loss-of-one": [torch.tensor(each, dtype=torch.float64) for each in truth.losses]
            + [torch.tensor(each / case.micro_batches, dtype=torch.float64) for each in truth.losses],
        }
        failure = misshapen(got, mean, group="loss", rank=result.rank)
        failure = failure or different(
            got, mean, meanings, group="loss", rank=result.rank, micro_batches=case.micro_batches
        )
        if failure:
            yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for name, each in counted.items() if name != "receive")
    enough = case.micro_batches * 8 * stages.EXAMPLES * stages.WIDTH
    if moved > enough and case.group is None:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
