"""Checks `LossScale.step`: what the optimizer is given on each rank in each step, and the scale after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import Case, Failure, Result, Student, Work, different, generator, kind, misshapen
from labs.runner import rank as this
from labs.telemetry import Tracker

CASES = (
    Case(name="no overflow", ranks=2),
    Case(name="overflow everywhere", ranks=2),
    Case(name="overflow on one rank", ranks=3, group="together"),
)
INTERVAL, FIRST = 3, 1024.0
SIZES = (5, 3)
"""Elements of the gradients on a rank."""
BAD: dict[str, dict[int, tuple[int, ...]]] = {
    "no overflow": {},
    "overflow everywhere": {1: (0, 1), 2: (0, 1), 5: (0, 1)},
    "overflow on one rank": {1: (2,), 3: (0,), 4: (1,)},
}
"""By case: the ranks that find a value that is not finite, by step."""
STEPS = 10


def gradients(seed: int, step: int, rank: int) -> list[Tensor]:
    """The true ones."""
    chance = generator(seed, step, rank)
    return [torch.randn(size, generator=chance, dtype=torch.float64) for size in SIZES]


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    rank = dist.get_rank(group)
    own: Any = student["LossScale"](FIRST, interval=INTERVAL, group=group)
    told: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    with Tracker() as tracker:
        for step in range(STEPS):
            this.step(step)
            expected, _ = plan(case, step)
            given = [each * expected for each in gradients(seed, step, rank)]
            if rank in BAD[case.name].get(step, ()):
                given[step % 2][1] = torch.nan if step % 2 else torch.inf
            calls: list[str] = []

            def update(found: Any, step: int = step, calls: list[str] = calls) -> None:
                calls.append(kind(found))
                flat = [each.flatten() for each in found] if isinstance(found, list) else []
                if flat and all(isinstance(each, Tensor) for each in flat):
                    tensors[f"given-{step}"] = torch.cat(flat).clone()

            tracker.reset_collectives()
            own.step(given, update)
            moved = sum(count.bytes for count in tracker.collectives.values())
            told.append(
                {"calls": len(calls), "kind": kind(calls and calls[0]), "scale": number(own.scale), "moved": moved}
            )
            own.scale = expected_after(case, step)  # what follows is judged by itself
    return Work(value=told, tensors=tensors)


def number(value: object) -> float | str:
    """A scale as a number, or what else it is."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value)
    return float(value) if isinstance(value, int | float) else kind(value)


def plan(case: Case, step: int) -> tuple[float, int]:
    """Before a step: the scale, and how many good steps there have been in a row."""
    scale, good = FIRST, 0
    for earlier in range(step):
        if earlier in BAD[case.name]:
            scale, good = scale / 2, 0
        elif good + 1 == INTERVAL:
            scale, good = scale * 2, 0
        else:
            good += 1
    return scale, good


def expected_after(case: Case, step: int) -> float:
    return plan(case, step + 1)[0]


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for step in range(STEPS):
        found = [failure for result in results for failure in compare_step(case, seed, step, result)]
        yield from found
        if found:
            return


def compare_step(case: Case, seed: int, step: int, result: Result) -> Iterator[Failure]:
    rank = result.rank
    bad = BAD[case.name].get(step, ())
    calls = int(result.get(step, "calls", default=0))
    told: dict[str, Any] = {"step": step + 1, "calls": calls, "ranks": ", ".join(str(each) for each in bad)}
    if bad and calls:
        id = "updated-alone" if rank not in bad else "not-skipped"
        yield Failure(group="overflow", id=id, rank=rank, values=told)
        return
    if not bad and calls != 1:
        id = "not-updated" if calls == 0 else "updated-twice"
        yield Failure(group="update", id=id, rank=rank, values=told)
        return
    if not bad:
        yield from given(seed, step, result, plan(case, step)[0], expected_after(case, step), told)
    yield from scaled(case, step, result, told)


def given(seed: int, step: int, result: Result, scale: float, after: float, told: dict[str, Any]) -> Iterator[Failure]:
    """What the optimizer was given in a step that has `scale`, and whose next has `after`."""
    rank = result.rank
    expected = torch.cat(gradients(seed, step, rank))
    got = result.tensors.get(f"given-{step}")
    if failure := misshapen(got, expected, group="update", rank=rank, **told):
        yield failure
        return
    assert got is not None
    meanings = {
        "not-unscaled": expected * scale,
        "unscaled-twice": expected / scale,
        "scaled-again": expected * scale**2,
        "next-scale": expected * scale / after,
    }
    if failure := different(got, expected, meanings, group="update", rank=rank, **told):
        yield failure


def scaled(case: Case, step: int, result: Result, told: dict[str, Any]) -> Iterator[Failure]:
    """The scale that the step left."""
    got = result.get(step, "scale")
    (before, good), after = plan(case, step), expected_after(case, step)
    if got == after:
        return
    told = {
        **told,
        "got": f"{got:g}" if isinstance(got, float) else str(got),
        "expected": f"{after:g}",
        "interval": INTERVAL,
    }
    if step in BAD[case.name]:
        id = "not-halved" if got == before else "wrong-scale"
    elif after > before:
        id = "not-doubled" if got == before else "wrong-scale"
    else:
        since_overflow = any(each in BAD[case.name] for each in range(step - INTERVAL, step))
        id = "wrong-scale" if got != 2 * before else "count-goes-on" if since_overflow and good else "doubled-early"
    yield Failure(group="scale", id=id, rank=result.rank, values=told)


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    moved = max(int(results[0].get(step, "moved", default=0)) for step in range(STEPS))
    if moved > 16:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": 8})
