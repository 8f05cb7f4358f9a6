"""Checks `one_f_one_b(rank, ranks, micro_batches)`: the orders of several pipelines as data, and one of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from labs.exercises import stages
from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, kind
from labs.planner import pipeline as planner
from labs.strategies.pipeline import Executor
from labs.strategies.schedules import Action, Order, WaitsForEver, bubble, in_flight, timetable

CASES = (
    Case(name="orders", ranks=1, communicates=False),
    Case(name="3 ranks", ranks=3, micro_batches=4, group="run"),
)
SHAPES = ((2, 5), (3, 7), (4, 9), (2, 2), (4, 4))
"""Ranks and micro-batches."""


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup | None) -> Work:
    one_f_one_b = student["one_f_one_b"]
    if group is None:
        orders = {
            f"{p}-{m}": [named(one_f_one_b(rank=rank, ranks=p, micro_batches=m)) for rank in range(p)]
            for p, m in SHAPES
        }
        return Work(value=orders)
    m, p = case.micro_batches, case.ranks
    told = [named(one_f_one_b(rank=rank, ranks=p, micro_batches=m)) for rank in range(p)]
    if faults(told, p, m):
        raise Found("run", "other-order")
    own = stages.stage(seed, micro=m, shared=False, group=group)
    executor = Executor(
        [own.chunk], orders=[read(each) for each in told], group=group, shape=own.shape, dtype=torch.float64
    )
    executor.step(own.inputs, own.losses)
    gradients = {name: p.grad for name, p in own.chunk.named_parameters()}
    return Work(value={}, tensors={name: each for name, each in gradients.items() if each is not None})


def named(order: Any) -> list[str] | str:
    """An order as JSON: its actions by name, or what it is instead."""
    if not isinstance(order, list | tuple):
        return kind(order)
    return [str(each) if isinstance(each, Action) and not each.chunk else f"? {kind(each)}" for each in order]


def read(names: list[str] | str) -> Order:
    return [Action(name[0], int(name[1:])) for name in names]  # type: ignore[arg-type]


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    if case.communicates:
        yield from ran(case, seed, results)
        return
    for p, m in SHAPES:
        found = faults([results[0].get(f"{p}-{m}", rank, default="None") for rank in range(p)], p, m)
        yield from found
        if found:
            return


def faults(told: Sequence[Any], p: int, m: int) -> list[Failure]:
    """What is wrong with the orders of p ranks and m micro-batches; the later kinds only where the earlier hold."""
    values: dict[str, Any] = {"ranks": p, "micro_batches": m}
    for rank, names in enumerate(told):
        values["who"] = rank
        if not isinstance(names, list):
            return [Failure(group="shape", id="not-a-list", values={**values, "got": names})]
        strange = [name for name in names if name.startswith("?")]
        if strange:
            return [Failure(group="shape", id="not-actions", values={**values, "got": strange[0].removeprefix("? ")})]
    for rank, names in enumerate(told):
        values["who"] = rank
        expected = [f"{letter}{k}" for letter in "FB" for k in range(m)]
        for id, actions in {
            "stranger": [name for name in names if name not in expected],
            "twice": [name for name, count in Counter(names).items() if count > 1],
            "missing": [name for name in expected if name not in names],
        }.items():
            if actions:
                return [Failure(group="complete", id=id, values={**values, "actions": ", ".join(actions)})]
    orders = [read(names) for names in told]
    for rank, names in enumerate(told):
        for k in range(m):
            if names.index(f"B{k}") < names.index(f"F{k}"):
                return [Failure(group="order", id="backward-first", values={**values, "who": rank, "k": k})]
    try:
        table = timetable(orders)
    except WaitsForEver as waits:
        at = ", ".join(f"{rank}: {action}" for rank, action in waits.at.items())
        return [Failure(group="order", id="waits", values={**values, "at": at})]
    if found := [failure for rank, order in enumerate(orders) for failure in held(rank, p, m, order)]:
        return found[:1]
    expected_slots = planner.slots(schedule="1f1b", stages=p, micro_batches=m)
    if len(table[0]) > expected_slots:
        told_share = {"got": f"{bubble(table):.1%}", "expected": f"{(p - 1) / (m + p - 1):.1%}"}
        return [Failure(group="bubble", id="idle", values={**values, **told_share})]
    return []


def held(rank: int, p: int, m: int, order: Order) -> Iterator[Failure]:
    """Whether a rank holds more than it has to."""
    got, expected = in_flight(order), min(m, p - rank)
    if got <= expected:
        return
    values = {"who": rank, "ranks": p, "micro_batches": m, "got": got, "expected": expected}
    if got == m:
        id = "all-forwards-first"
    elif got == p:
        id = "same-on-all"
    else:
        id = "one-more" if got == expected + 1 else "too-many"
    yield Failure(group="in-flight", id=id, values=values)


def ran(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """Run for real, the gradients are those of one process."""
    truth = stages.twin(seed, stages=case.ranks, micro=case.micro_batches, shared=False)
    for result in results:
        for name in ("weight", "bias"):
            got, expected = result.tensors.get(name), truth.gradient(result.rank, name)
            if got is None:
                yield Failure(group="run", id="missing", rank=result.rank, values={"expected": kind(expected)})
            elif failure := different(got, expected, {}, group="run", rank=result.rank):
                yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
