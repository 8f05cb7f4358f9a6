"""Pipeline schedules as data: what each rank does, in which order (Huang et al. 2019; Narayanan et al. 2021; Qi et al.
2023).

A model is cut into S = p v stages: rank i of p holds stages i, p + i, ... as its v chunks. A batch is cut into m
micro-batches. An order is one rank's list of actions, and a schedule is the orders of all ranks. Nothing here computes:
what is drawn (the timetable), what is counted (the bubble, the micro-batches in flight) and what is run all come from
these lists.

    schedule      idle a rank    micro-batches in flight on rank i
    gpipe         3 (p - 1)      m
    1f1b          3 (p - 1)      min(m, p - i)
    interleaved   3 (p - 1) / v  p + (p - 1 - 2 i) / v, for the largest m
    zero-bubble   p - 1          min(m, p)

Times are in forwards of one micro-batch through a rank. A backward takes two: gradients of the inputs, gradients of
the weights. As two actions, each takes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["F", "B", "W"]


@dataclass(frozen=True, slots=True)
class Action:
    """F: forward. B: backward; where the order has a W for it, B makes the gradients of the inputs only. W: the
    gradients of the weights.
    """

    kind: Kind
    micro_batch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}" + (f"@{self.chunk}" if self.chunk else "")


Order = list[Action]
Timetable = list[list[Action | None]]
Done = tuple[Kind, int, int]  # kind, stage, micro-batch


def gpipe(*, micro_batches: int) -> Order:
    """All forwards, then all backwards: m micro-batches in flight, on every rank."""
    return [Action("F", k) for k in range(micro_batches)] + [Action("B", k) for k in range(micro_batches)]


def one_f_one_b(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """p - 1 - i forwards to warm up, then one forward, one backward. The bubble of GPipe, but min(m, p - i) in flight:
    a micro-batch is let go as early as the last stage allows.
    """
    forwards = [Action("F", k) for k in range(micro_batches)]
    backwards = [Action("B", k) for k in range(micro_batches)]
    return alternate(forwards, backwards, warm_up=ranks - 1 - rank)


def interleaved(*, rank: int, ranks: int, micro_batches: int, chunks: int) -> Order:
    """1F1B over v chunks a rank: each hop is a v-th of the work, so the bubble is a v-th too, for v times the traffic.

    Micro-batches go through in groups of p: a group through chunk 0, then through chunk 1, ... Raises ValueError where
    m is no multiple of p.
    """
    if micro_batches % ranks:
        raise ValueError(f"interleaving sends micro-batches in groups of {ranks}: {micro_batches} is no multiple of it")
    groups = [range(first, first + ranks) for first in range(0, micro_batches, ranks)]
    forwards = [Action("F", k, chunk) for group in groups for chunk in range(chunks) for k in group]
    backwards = [Action("B", k, chunk) for group in groups for chunk in reversed(range(chunks)) for k in group]
    return alternate(forwards, backwards, warm_up=2 * (ranks - 1 - rank) + (chunks - 1) * ranks)


def zero_bubble(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """1F1B with split backwards (ZB-H1): what the previous stage waits for comes first, gradients of weights fill the
    rest. Rank i is i of them behind, which makes min(m, p) in flight everywhere.
    """
    order: Order = []
    made, behind = 0, 0
    for action in one_f_one_b(rank=rank, ranks=ranks, micro_batches=micro_batches):
        order.append(action)
        if action.kind == "B":
            behind += 1
        if action.kind == "B" and behind > rank:
            order.append(Action("W", made))
            made, behind = made + 1, behind - 1
    return order + [Action("W", k) for k in range(made, micro_batches)]


def alternate(forwards: Order, backwards: Order, *, warm_up: int) -> Order:
    """The first forwards alone, then a forward and a backward in turn, then the backwards that are left."""
    warm_up = min(warm_up, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")


def schedule(name: str, *, ranks: int, micro_batches: int, chunks: int = 1) -> list[Order]:
    """The orders of all ranks. Raises ValueError where there are fewer micro-batches than ranks: some stage would
    never work at the same time as the others.
    """
    if micro_batches < ranks:
        raise ValueError(f"{micro_batches} micro-batches never fill a pipeline of {ranks} stages")
    if chunks > 1 and name != "interleaved":
        raise ValueError(f"{name} has one chunk a rank; {chunks} are for the interleaved schedule")
    if name == "interleaved":
        return [interleaved(rank=i, ranks=ranks, micro_batches=micro_batches, chunks=chunks) for i in range(ranks)]
    if name == "gpipe":
        return [gpipe(micro_batches=micro_batches) for _ in range(ranks)]
    make = {"1f1b": one_f_one_b, "zero-bubble": zero_bubble}[name]
    return [make(rank=i, ranks=ranks, micro_batches=micro_batches) for i in range(ranks)]


# --- what can be read from a schedule


def split(orders: Sequence[Order]) -> set[tuple[int, int, int]]:
    """(rank, micro-batch, chunk) of every backward whose gradients of weights are an action of their own."""
    return {(i, a.micro_batch, a.chunk) for i, order in enumerate(orders) for a in order if a.kind == "W"}


class WaitsForEver(ValueError):
    """No rank can go on: each waits for another, or for what nobody does. `at` is what each is about to do."""

    def __init__(self, at: dict[int, Action]) -> None:
        self.at = at
        super().__init__("no rank can go on: " + ", ".join(f"rank {i} waits before {a}" for i, a in at.items()))


def timetable(orders: Sequence[Order]) -> Timetable:
    """Each rank's slots, None where it is idle, if every action begins as soon as it can. A slot is the time of one
    forward through one chunk.

    A forward waits for that of the stage before; a backward for that of the stage after, and for its own forward; a W
    for its B. Raises WaitsForEver for orders of which none can go on.
    """
    ranks, apart = len(orders), split(orders)
    last = ranks * chunks_of(orders) - 1
    end: dict[Done, int] = {}  # the slot by which it is done
    slots: Timetable = [[] for _ in orders]
    position = [0] * ranks
    while any(at < len(order) for at, order in zip(position, orders, strict=True)):
        before = sum(position)
        for i, order in enumerate(orders):
            if position[i] == len(order):
                continue
            action = order[position[i]]
            stage, k = action.chunk * ranks + i, action.micro_batch
            waits_for = needs(action.kind, stage, k, last=last)
            if not all(need in end for need in waits_for):
                continue
            start = max([len(slots[i]), *(end[need] for need in waits_for)])
            takes = 2 if action.kind == "B" and (i, k, action.chunk) not in apart else 1
            slots[i] += [None] * (start - len(slots[i])) + [action] * takes
            end[action.kind, stage, k] = len(slots[i])
            position[i] += 1
        if sum(position) == before:
            raise WaitsForEver({i: order[position[i]] for i, order in enumerate(orders) if position[i] < len(order)})
    whole = max(map(len, slots))
    return [row + [None] * (whole - len(row)) for row in slots]


def needs(kind: Kind, stage: int, k: int, *, last: int) -> list[Done]:
    """What must be done before an action of that kind on micro-batch k at that stage."""
    if kind == "F":
        return [("F", stage - 1, k)] if stage > 0 else []
    if kind == "B":
        return [("F", stage, k), ("B", stage + 1, k)] if stage < last else [("F", stage, k)]
    return [("B", stage, k)]


def chunks_of(orders: Sequence[Order]) -> int:
    return 1 + max(action.chunk for order in orders for action in order)


def bubble(table: Timetable) -> float:
    """The idle share of the whole: (p - 1) / (m + p - 1) for GPipe and 1F1B."""
    return sum(slot is None for row in table for slot in row) / sum(map(len, table))


def in_flight(order: Order) -> int:
    """The most micro-batches whose activations a rank holds at once, for one chunk each: from a forward until the
    backward is whole, with its W where it is split.
    """
    letting_go = "W" if any(action.kind == "W" for action in order) else "B"
    held, peak = 0, 0
    for action in order:
        held += (action.kind == "F") - (action.kind == letting_go)
        peak = max(peak, held)
    return peak


def layers_of(*, layers: int, stages: int) -> list[int]:
    """How many layers each stage holds: every layer in exactly one, as equal as can be. What is over goes to the
    middle, since the first stage also has the embedding and the last one the head.

    Raises ValueError where there are fewer layers than stages.
    """
    if layers < stages:
        raise ValueError(f"{layers} layers do not fill {stages} stages: each needs one")
    fewest, over = divmod(layers, stages)
    from_middle = sorted(range(stages), key=lambda stage: abs(2 * stage + 1 - stages))
    return [fewest + (stage in from_middle[:over]) for stage in range(stages)]
