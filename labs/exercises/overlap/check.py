"""Checks `Overlap`: what is started in backward and waited for after it, and the gradients that come of it.

A fast machine hides the fault that matters most here, a result that is read before its collective was waited for. So
the ranks of a check have a link on which nothing arrives before it is waited for: collectives work on copies, and
`wait` brings the result to the buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises import small
from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, kind, misshapen
from labs.runner import rank as this
from labs.strategies.units import InOrder, Unit, units_of
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 micro-batches", ranks=2, micro_batches=3, group="accumulation"),
    Case(name="3 ranks, a unit unused", ranks=3, micro_batches=2, group="more-ranks", skipping=(0, 1, 2)),
)
STEPS = 2
IDS = ("nothing-started", "started-late", "waited-at-once", "written-in-flight", "never-waited", "other-group")
"""What the link notes, the first cause first."""
METHODS = ("allreduce", "reduce_scatter_single", "all_gather_single", "all_to_all_single", "broadcast", "reduce")


class Arriving:
    """The work of a collective on copies. `wait` writes what came out into the caller's tensors, once."""

    def __init__(self, link: LastMoment, work: dist.Work, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.link, self.work, self.pairs = link, work, pairs
        self.sent = [theirs.clone() for theirs, _ in pairs]
        self.arrived = False

    def wait(self, *_: Any) -> bool:
        if not self.arrived:
            self.link.waited(self)
            self.work.wait()
            for (theirs, own), sent in zip(self.pairs, self.sent, strict=True):
                if not torch.equal(theirs, sent):
                    self.link.note("written-in-flight")
                theirs.copy_(own)
            self.arrived = True
        return True

    def is_completed(self) -> bool:
        return self.arrived


class LastMoment:
    """A link on which a collective arrives when it is waited for, and which notes what is called when."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.moment = ""
        self.notes: list[str] = []
        self.on_the_way: list[Arriving] = []
        self.started = 0
        self.originals: dict[str, Any] = {}

    def __enter__(self) -> Self:
        for method in METHODS:
            self.originals[method] = getattr(dist.ProcessGroup, method)
            setattr(dist.ProcessGroup, method, self.put_off(self.originals[method]))
        return self

    def __exit__(self, *_: object) -> None:
        for method, original in self.originals.items():
            setattr(dist.ProcessGroup, method, original)

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    def put_off(self, original: Callable[..., dist.Work]) -> Callable[..., Any]:
        def call(group: dist.ProcessGroup, *arguments: Any, **named: Any) -> Any:
            if not self.moment:
                return original(group, *arguments, **named)
            self.started += 1
            if group is not self.group:
                self.note("other-group")
            if self.moment == "finish":
                self.note("started-late")
            pairs: list[tuple[Tensor, Tensor]] = []
            bases: dict[int, Tensor] = {}

            def copied(value: Any) -> Any:
                if isinstance(value, Tensor):
                    storage = value.untyped_storage()
                    if storage.data_ptr() not in bases:
                        whole = torch.empty(0, dtype=value.dtype).set_(storage)
                        bases[storage.data_ptr()] = whole.clone()
                        pairs.append((whole, bases[storage.data_ptr()]))
                    own = bases[storage.data_ptr()]
                    return own.as_strided(value.shape, value.stride(), value.storage_offset())
                return [copied(each) for each in value] if isinstance(value, list) else value

            work = original(group, *(copied(each) for each in arguments), **named)
            arriving = Arriving(self, work, pairs)
            self.on_the_way.append(arriving)
            return arriving

        return call

    def waited(self, arriving: Arriving) -> None:
        self.on_the_way.remove(arriving)
        if self.moment == "ready":
            self.note("waited-at-once")


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    make = student["Overlap"]
    model = small.Small(seed)
    # The same ranks in a group of their own: on a mesh a unit's group is not that of all ranks.
    own = dist.new_group(dist.get_process_group_ranks(group))
    units = units_of(list(model.pieces), group=own)
    tensors: dict[str, Tensor] = {}
    for unit in units:
        unit.keep_gradient_shard()
        unit.keep_master(unit.shard, small.RECIPE)
    link, overlap = LastMoment(own), make()

    def at(moment: str, call: Callable[[], object]) -> None:
        link.moment = moment
        call()
        link.moment = ""

    def ready(unit: Unit) -> None:
        before = link.started
        at("ready", lambda: overlap.ready(unit))
        if link.started == before:
            link.note("nothing-started")

    in_order = InOrder(units, ready)
    with Tracker() as tracker, link:
        for step in range(STEPS):
            this.step(step)
            tracker.reset_collectives()
            batches = small.micro_batches(
                seed=seed, step=step, rank=dist.get_rank(group), count=case.micro_batches, skipping=case.skipping
            )
            for number, batch in enumerate(batches):
                (model(*batch) / len(batches)).backward()
                in_order.settle()
                at("finish", overlap.finish)
                if link.on_the_way:
                    link.note("never-waited")
                for arriving in [*link.on_the_way]:
                    arriving.wait()
                for piece, unit in enumerate(units):
                    if not isinstance(unit.gradients, Tensor):
                        raise Found("shape", "gradients-type", unit=piece, got=kind(unit.gradients))
                    left = unit.gradients.detach().clone().as_subclass(torch.Tensor)
                    tensors[f"gradients-{step}-{number}-{piece}"] = left
            collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
            for piece, unit in enumerate(units):
                if unit.gradients.shape == unit.master.shape:
                    unit.update(unit.gradients)
                    unit.all_gather()
                tensors[f"whole-{step}-{piece}"] = unit.whole.detach()[: unit.size].clone()
    return Work(value={"notes": link.notes, "collectives": collectives}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for result in results:
        for id in IDS:
            if id in result.get("notes", default=[]):
                yield Failure(group="ownership", id=id, rank=result.rank, values={"ranks": case.ranks})
    twin = small.twin(seed=seed, ranks=case.ranks, count=case.micro_batches, steps=STEPS, skipping=case.skipping)
    for step in range(STEPS):
        for number in range(case.micro_batches):
            found: list[Failure] = []
            for result in results:
                for piece in range(len(twin[step].mean)):
                    found += held(case, twin[: step + 1], number, result, piece)
            yield from found
            if found:
                return


def held(case: Case, steps: Sequence[small.Step], number: int, result: Result, piece: int) -> Iterator[Failure]:
    """What this rank has of a unit's gradients after a micro-batch of the last of these steps."""
    step, truth = len(steps) - 1, steps[-1]
    rank, ranks = result.rank, case.ranks
    told: dict[str, Any] = {"unit": piece, "step": step + 1, "micro_batch": number + 1, "ranks": ranks}

    def shard(whole: Tensor) -> Tensor:
        return small.shard(whole, rank, ranks)

    so_far = range(number + 1)
    expected = shard(truth.mean_of(so_far, piece))
    given = result.tensors.get(f"gradients-{step}-{number}-{piece}")
    if failure := misshapen(given, expected, group="shape", rank=rank, **told):
        yield failure
        return
    assert given is not None
    own = shard(torch.stack([truth.local[rank][each][piece] for each in so_far]).sum(0))
    meanings: dict[str, Tensor | Sequence[Tensor]] = {
        "read-early": own,
        "nothing": torch.zeros_like(expected),
        "sum": expected * ranks,
    }
    if number:
        meanings["last-only"] = shard(truth.mean_of([number], piece))
    if number or step:
        before = torch.stack([shard(each.mean[piece]) for each in steps]).sum(0) - shard(truth.mean[piece])
        again = [before + shard(truth.mean_of(range(each + 1), piece)) for each in so_far]
        meanings["added-again"] = torch.stack(again).sum(0)
    if failure := different(given, expected, meanings, group="gradients", rank=rank, **told):
        yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    before = small.twin(seed=seed, ranks=1, count=1, steps=1)[0].before
    enough = case.micro_batches * sum(small.padded(each, case.ranks).nbytes for each in before)
    counted = results[0].get("collectives", default={})
    moved = sum(each["bytes"] for each in counted.values())
    if moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
