"""Checks `update_in_blocks(values, gradients, room, ...)`: how much of the file is in use at a time, and what is in it
after each step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import adam as torchs

from labs.exercises.trial import (
    Case,
    Failure,
    Found,
    Result,
    Student,
    Work,
    different,
    generator,
    kind,
    misshapen,
    same,
)
from labs.runner import rank as this
from labs.strategies.offload import FileRoom

CASES = (
    Case(name="whole blocks", ranks=1, communicates=False),
    Case(name="a shorter last block", ranks=1, group="last-block", communicates=False),
    Case(name="less than a block", ranks=1, group="last-block", communicates=False),
    Case(name="2 shards", ranks=2, group="shards"),
)
ELEMENTS = {"whole blocks": 48, "a shorter last block": 42, "less than a block": 7, "2 shards": 37}
BLOCK, STEPS = 16, 2
LOW, HIGH = torch.float32, torch.float64
ROWS = ("master", "momentum", "variance")


def values_of(seed: int, case: Case, rank: int) -> Tensor:
    chance = generator(seed, 11, ELEMENTS[case.name], rank)
    return torch.randn(ELEMENTS[case.name], generator=chance, dtype=HIGH).to(LOW)


def gradients_of(seed: int, case: Case, rank: int, step: int) -> Tensor:
    chance = generator(seed, 12, ELEMENTS[case.name], rank, step)
    return torch.randn(ELEMENTS[case.name], generator=chance, dtype=HIGH).to(LOW)


def adam(master: Tensor, momentum: Tensor, variance: Tensor, gradients: Tensor, step: int) -> None:
    """torch's own, in place; `step` is counted from 1."""
    torchs.adam(
        [master], [gradients], [momentum], [variance], [], [torch.tensor(float(step - 1))], fused=True, amsgrad=False,
        beta1=0.9, beta2=0.999, lr=0.05, weight_decay=0.0, eps=1e-6, maximize=False,
    )  # fmt: skip


class WatchedRoom(FileRoom):
    """Notes which elements Adam was given and which were let go, as pairs of first and last."""

    def __init__(self, elements: int, values: Tensor, *, folder: Path) -> None:
        super().__init__(elements, HIGH, folder=folder)
        self.values = values
        self.in_use: list[tuple[int, int]] = []
        self.most = self.kept = 0
        self.early: list[int] = []

    def given(self, master: Tensor, momentum: Tensor, variance: Tensor, gradients: Tensor, step: int) -> None:
        """Stands in for Adam, which it calls."""
        named = {"master": master, "momentum": momentum, "variance": variance, "gradients": gradients}
        for name, each in named.items():
            if not isinstance(each, Tensor) or each.dim() != 1 or each.dtype != HIGH or each.shape != master.shape:
                raise Found("shape", "adam-given", name=name, got=kind(each), expected=kind(master.new_empty(BLOCK)))
        if not isinstance(step, int):
            raise Found("shape", "step-given", got=kind(step))
        first = (master.data_ptr() - self.states.data_ptr()) // self.states.itemsize
        if 0 <= first < self.states.size(1):
            self.in_use.append((first, first + master.numel()))
        self.most = max(self.most, master.numel(), sum(last - first for first, last in self.in_use))
        adam(master, momentum, variance, gradients, step)

    def ended(self) -> None:
        """The step is over, and nothing should be in use."""
        self.kept = max(self.kept, sum(last - first for first, last in self.in_use))
        self.in_use.clear()

    def let_go(self, window: slice) -> None:
        if not isinstance(window, slice):
            raise Found("shape", "window-given", got=kind(window))
        first, last, _ = window.indices(self.states.size(1))
        if not bool((self.values[first:last] == self.states[0, first:last].to(LOW)).all()):
            self.early.append(first)
        self.in_use = [(start, end) for start, end in self.in_use if start < first or end > last]
        super().let_go(slice(first, last))


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    update_in_blocks = student["update_in_blocks"]
    rank, elements = this.number(), ELEMENTS[case.name]
    values = values_of(seed, case, rank)
    tensors: dict[str, Tensor] = {}
    with tempfile.TemporaryDirectory() as folder:
        room = WatchedRoom(elements, values, folder=Path(folder))
        room.states[0] = values.to(HIGH)
        for step in range(1, STEPS + 1):
            this.step(step)
            gradients = gradients_of(seed, case, rank, step)
            update_in_blocks(values, gradients, room, step=step, block=BLOCK, adam=room.given)
            room.ended()
            tensors[f"values-{step}"] = values.clone()
            tensors[f"states-{step}"] = room.states.clone()
    value = {"most": room.most, "kept": room.kept, "early": room.early[:1]}
    return Work(value=value, tensors=tensors)


def blocks(elements: int) -> list[slice]:
    return [slice(first, min(first + BLOCK, elements)) for first in range(0, elements, BLOCK)]


def after(states: Tensor, gradients: Tensor, windows: Sequence[slice], steps: Sequence[int]) -> Tensor:
    """The states after Adam on these windows, each with its own number of the step."""
    made = states.clone()
    for window, step in zip(windows, steps, strict=True):
        master, momentum, variance = made[:, window]
        adam(master, momentum, variance, gradients[window], step)
    return made


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for result in results:
        yield from held(case, result)
        states = torch.zeros(3, ELEMENTS[case.name], dtype=HIGH)
        states[0] = values_of(seed, case, result.rank).to(HIGH)
        for step in range(1, STEPS + 1):
            gradients = gradients_of(seed, case, result.rank, step).to(HIGH)
            failures = list(stepped(case, result, step, states, gradients))
            yield from failures
            if failures:
                break
            states = after(states, gradients, [slice(None)], [step])


def held(case: Case, result: Result) -> Iterator[Failure]:
    """How much of the file was in use at a time."""
    most, kept = (result.get(name, default=0) for name in ("most", "kept"))
    told: dict[str, Any] = {"most": most, "block": BLOCK, "elements": ELEMENTS[case.name]}
    if most > BLOCK:
        yield Failure(group="ownership", id="too-much-in-use", rank=result.rank, values=told)
    elif kept:
        yield Failure(group="ownership", id="kept", rank=result.rank, values={**told, "kept": kept})


def stepped(case: Case, result: Result, step: int, before: Tensor, gradients: Tensor) -> Iterator[Failure]:
    """The states and the values after one step."""
    rank, elements = result.rank, ELEMENTS[case.name]
    windows = blocks(elements)
    expected = after(before, gradients, [slice(None)], [step])
    got = result.tensors.get(f"states-{step}")
    told: dict[str, Any] = {"step": step, "elements": elements, "block": BLOCK, "left": elements % BLOCK}
    if failure := misshapen(got, expected, group="shape", rank=rank, **told):
        yield failure
        return
    assert got is not None
    count = len(windows)
    whole = [window for window in windows if window.stop - window.start == BLOCK]
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "nothing-updated": before,
        "step-counted": [
            after(before, gradients, windows, [start + number for number in range(count)])
            for start in (step, (step - 1) * count + 1)
        ],
        "step-zero": after(before, gradients, windows, [step + 1] * count),
    }
    if elements % BLOCK and whole:
        meanings["last-skipped"] = after(before, gradients, whole, [step] * len(whole))
        again = [*whole, slice(elements - BLOCK, elements)]
        meanings["updated-twice"] = after(before, gradients, again, [step] * len(again))
    for row, name in enumerate(ROWS):
        own = {
            id: [each[row] for each in ([made] if isinstance(made, Tensor) else made)] for id, made in meanings.items()
        }
        if failure := different(got[row], expected[row], own, group="update", rank=rank, state=name, **told):
            yield failure
            return
    rounded, values = expected[0].to(LOW), result.tensors.get(f"values-{step}")
    if failure := misshapen(values, rounded, group="shape", rank=rank, **told):
        yield failure
    elif values is not None and not same(values, rounded):
        id = "values-old" if same(values, before[0].to(LOW)) else "values-wrong"
        yield Failure(group="update", id=id, rank=rank, values=told)
    elif early := result.get("early", default=[]):
        yield Failure(group="ownership", id="let-go-early", rank=rank, values={**told, "first": early[0]})


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    yield from ()
