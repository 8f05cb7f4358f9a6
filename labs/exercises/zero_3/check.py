"""Checks `ShardedPiece`: what a rank holds while a piece computes and between, and the values that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from labs.exercises import small
from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, kind, misshapen, same
from labs.runner import rank as this
from labs.strategies.units import InOrder, Unit, units_of
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks, 2 micro-batches", ranks=3, micro_batches=2, group="accumulation"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
STEPS = 2


class Watched:
    """A piece whose hooks call the student's object, and look at what the rank holds before and after each call."""

    def __init__(self, piece: nn.Module, unit: Unit, number: int, sharded: Any) -> None:
        self.unit, self.number, self.sharded = unit, number, sharded
        self.saved: torch.UntypedStorage | None = None
        self.tensors: dict[str, Tensor] = {}
        self.kept: list[str] = []
        piece.register_forward_pre_hook(lambda *_: self.before_forward())
        piece.register_forward_hook(lambda piece, inputs, output: self.after_forward(output))

    def before_forward(self) -> None:
        self.sharded.before_forward()
        self.look("forward")
        self.saved = self.unit.parameters[0].untyped_storage()

    def after_forward(self, output: Tensor) -> None:
        self.sharded.after_forward()
        if self.whole_bytes():
            self.kept.append("forward")
        if output.requires_grad:
            output.register_hook(lambda _: self.before_backward())  # type: ignore[no-untyped-call]

    def before_backward(self) -> None:
        self.sharded.before_backward()
        if self.saved is not None and self.saved.nbytes() == 0:
            id = "other-storage" if self.whole_bytes() else "not-gathered-backward"
            raise Found("ownership", id, unit=self.number)
        self.look("backward")

    def after_backward(self) -> None:
        unit = self.unit
        self.sharded.after_backward()
        if self.whole_bytes():
            self.kept.append("backward")
            unit.free()
        if unit.bucket is not None:
            self.kept.append("bucket")
            unit.take_bucket()

    def look(self, moment: str) -> None:
        """Raises Found where computing would crash; else keeps the values that the piece computes with."""
        unit = self.unit
        for p, shape in zip(unit.parameters, unit.shapes, strict=True):
            if p.shape != shape or p.untyped_storage().nbytes() < p.nbytes:
                raise Found("ownership", f"not-gathered-{moment}", unit=self.number)
        values = torch.cat([p.detach().flatten() for p in unit.parameters])
        self.tensors.setdefault(f"{moment}-{self.number}", values.clone())

    def whole_bytes(self) -> bool:
        """Whether any buffer of the size of the whole unit is held between uses."""
        held = {p.untyped_storage().nbytes() for p in self.unit.parameters}
        held.add(self.unit.whole.untyped_storage().nbytes())
        return max(held) > self.unit.shard.nbytes


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    make = student["ShardedPiece"]
    model = small.Small(seed)
    units = units_of(list(model.pieces), group=group)
    pieces: list[Watched] = []
    tensors: dict[str, Tensor] = {}
    for number, (piece, unit) in enumerate(zip(model.pieces, units, strict=True)):
        unit.keep_shard()
        unit.keep_gradient_shard()
        unit.keep_master(unit.shard, small.RECIPE)
        pieces.append(Watched(piece, unit, number, make(unit)))
    watched = {each.unit: each for each in pieces}
    in_order = InOrder(units, lambda unit: watched[unit].after_backward())
    with Tracker() as tracker:
        for step in range(STEPS):
            this.step(step)
            tracker.reset_collectives()
            rank = dist.get_rank(group)
            for x, y in small.micro_batches(seed=seed, step=step, rank=rank, count=case.micro_batches):
                (model(x, y) / case.micro_batches).backward()
                in_order.settle()
            for each in pieces:
                tensors |= {f"{name}-{step}": value for name, value in each.tensors.items()}
                each.tensors.clear()
                unit = each.unit
                if not isinstance(unit.gradients, Tensor):
                    raise Found("shape", "gradients-type", unit=each.number, got=kind(unit.gradients))
                tensors[f"gradients-{each.number}-{step}"] = unit.gradients.detach().clone().as_subclass(torch.Tensor)
                if unit.gradients.shape == unit.master.shape:
                    unit.update(unit.gradients)
                tensors[f"shard-{each.number}-{step}"] = unit.shard.detach().clone()
    kept = [sorted(set(each.kept)) for each in pieces]
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return Work(value={"kept": kept, "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    twin = small.twin(seed=seed, ranks=case.ranks, count=case.micro_batches, steps=STEPS)
    for step, truth in enumerate(twin):
        found: list[Failure] = []
        for result in results:
            for piece in range(len(truth.mean)):
                found += compare_piece(case, step, truth, result, piece)
        yield from found
        if found:
            return


def compare_piece(case: Case, step: int, truth: small.Step, result: Result, piece: int) -> Iterator[Failure]:
    """One unit on one rank in one step: what it held, what it computed with, its gradients, its new shard."""
    rank, ranks = result.rank, case.ranks
    told: dict[str, Any] = {"unit": piece, "step": step + 1, "ranks": ranks}
    kept = result.get("kept", piece, default=[])
    for word in ("forward", "backward", "bucket"):
        if word in kept:
            yield Failure(group="ownership", id=f"kept-{word}", rank=rank, values=told)
    before = truth.before[piece]
    for moment in ("forward", "backward"):
        seen = result.tensors.get(f"{moment}-{piece}-{step}")
        if seen is None or not same(seen, before):
            yield Failure(group="forward", id=f"wrong-values-{moment}", rank=rank, values=told)
    expected = small.shard(truth.mean[piece], rank, ranks)
    given = result.tensors.get(f"gradients-{piece}-{step}")
    if given is not None and given.numel() == expected.numel() * ranks > expected.numel():
        yield Failure(group="ownership", id="whole-gradients", rank=rank, values={**told, "got": kind(given)})
        return
    if failure := misshapen(given, expected, group="shape", rank=rank, **told):
        yield failure
        return
    assert given is not None
    own = small.shard(truth.own(rank, piece), rank, ranks)
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "sum": expected * ranks,
        "divided-twice": expected / ranks,
        "own": own,
        "nothing": torch.zeros_like(expected),
    }
    if case.micro_batches > 1:
        meanings["last-only"] = small.shard(truth.mean_of([case.micro_batches - 1], piece), rank, ranks)
    meanings["other-shard"] = [small.shard(truth.mean[piece], other, ranks) for other in range(ranks) if other != rank]
    if failure := different(given, expected, meanings, group="gradients", rank=rank, **told):
        yield failure
    after = small.shard(truth.after[piece], rank, ranks)
    shard = result.tensors.get(f"shard-{piece}-{step}")
    failure = misshapen(shard, after, group="shape", rank=rank, **told)
    if failure is None and shard is not None:
        failure = different(shard, after, {}, group="gradients", rank=rank, **told)
    if failure:
        yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    before = small.twin(seed=seed, ranks=1, count=1, steps=1)[0].before
    enough = 3 * case.micro_batches * sum(small.padded(each, case.ranks).nbytes for each in before)
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
