"""The most bytes that a rank of the labs holds at one moment of a step: what rests, the batch, and the fullest moment
of forward, backward or the optimizer's step.

What each operation holds is said in `operations.py`; here is what a strategy adds: buckets and gathered pieces of ZeRO,
micro-batches in flight and messages of a pipeline, copies of gradients in the optimizer's precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.planner.operations import (
    INDEX,
    WIDE,
    Moving,
    Piece,
    Sizes,
    backward,
    block,
    embedding,
    forward,
    head,
    kept,
    left,
    loss,
)
from labs.planner.overlap import needs
from labs.planner.zero import PRECISIONS
from labs.planner.zero import Piece as Parameters
from labs.strategies.messages import Receive, Send, programs
from labs.strategies.schedules import Action, Order


def batch(*, sequences: int, length: int) -> int:
    """Bytes of a global batch, which every rank reads: tokens and the one behind the last."""
    return INDEX * sequences * (length + 1)


def shares(*, sequences: int, positions: int) -> int:
    """Bytes of a context rank's own positions of all micro-batches: tokens and targets."""
    return 2 * INDEX * sequences * positions


def model(sizes: Sizes, modes: Sequence[str]) -> list[Piece]:
    """The whole model, its blocks recomputed as `modes` says, and the loss."""
    return [embedding(sizes), *(block(sizes, recompute=mode) for mode in modes), head(sizes), loss(sizes)]


def chunks(sizes: Sizes, modes: Sequence[str], layers: Sequence[int]) -> list[list[Piece]]:
    """The same by stage, of which each has so many of the blocks."""
    first, *blocks, last, behind = model(sizes, modes)
    waiting = iter(blocks)
    found = [[next(waiting) for _ in range(count)] for count in layers]
    found[0].insert(0, first)
    found[-1] += [last, behind]
    return found


# --- every rank the whole model: data parallelism, ZeRO, offloading, context and expert parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many buckets are in flight, and how many pieces are gathered before their turn."""

    buckets: int
    ahead: int


def moving(
    parameters: Sequence[Parameters], *, stage: int, ranks: int, precision: str, overlap: Overlap | None = None
) -> list[Moving]:
    """The communication buffers of each piece's backward, and none at the loss."""
    value = PRECISIONS[precision].parameter

    def padded(size: int) -> int:
        return -(-size // ranks) * ranks * value

    uses, found = needs(parameters), []
    filled = [padded(piece.trained) if stage >= 2 else 0 for piece in parameters]
    for number, bucket in enumerate(filled):
        gathered, always = set(uses[number]), 0
        if overlap:
            for following in range(number - 1, max(-1, number - 1 - overlap.ahead), -1):
                if uses[following] & uses[number]:
                    break
                gathered |= uses[following]
            always = sum([each for each in filled[number + 1 :] if each][: overlap.buckets])
        if stage == 3:
            always += sum(padded(parameters[n].frozen if frozen else parameters[n].trained) for n, frozen in gathered)
        found.append(Moving(always=always, bucket=bucket))
    return [*found, Moving()]


def of_replica(
    sizes: Sizes,
    parameters: Sequence[Parameters],
    *,
    modes: Sequence[str],
    rest: int,
    precision: str,
    ranks: int,
    stage: int = 0,
    tied: bool = False,
    overlap: Overlap | None = None,
    update: int | None = None,
) -> int:
    """The peak of a rank that takes one micro-batch after the other through the whole model, its blocks recomputed as
    `modes` say. `rest` is what is there all the time; `update` what the optimizer's step makes, where it is not a copy
    of the gradients of the largest unit.
    """
    pieces = model(sizes, modes)
    buffers = moving(parameters, stage=stage, ranks=ranks, precision=precision, overlap=overlap) if stage >= 2 else []
    if update is None:
        units = [-(-piece.trained // ranks) * (1 if stage else ranks) for piece in parameters]
        update = copies(units, precision=precision)
    return rest + max(forward(pieces, buffers), backward(pieces, buffers, tied=sizes.table if tied else 0), update)


def copies(elements: Sequence[int], *, precision: str, together: bool = False) -> int:
    """Bytes of gradients in the optimizer's precision: of the largest unit, or of all. None where it is the model's."""
    if PRECISIONS[precision].parameter >= WIDE:
        return 0
    return WIDE * (sum(elements) if together else max(elements, default=0))


# --- some layers on every rank: pipelines, alone and in layouts


def of_stage(
    chunks: Sequence[Sequence[Piece]],
    *,
    orders: Sequence[Order],
    place: int,
    message: int,
    rest: int,
    tied: int = 0,
    update: int = 0,
) -> int:
    """The peak of the rank at `place` of a pipeline, from its program of actions and messages.

    A message is there from the call that receives it, an input until its backward is done; what is sent stays until the
    next of its direction is sent. Where W is an action of its own, B leaves inputs and gradients of linear layers.
    """
    stages = len(orders) * len(chunks)
    apart = any(action.kind == "W" for action in orders[place])
    held, going, found = 0, set[str](), [update]
    for step in programs(orders)[place]:
        if isinstance(step, Receive):
            held += message
        elif isinstance(step, Send):
            assert step.action is not None
            held -= message if step.action.kind in going else 0
            going.add(step.action.kind)
        elif isinstance(step, Action):
            pieces = chunks[step.chunk]
            number = step.chunk * len(orders) + place
            first, last = number == 0, number == stages - 1
            if step.kind == "F":
                held -= 0 if first else message
                found.append(held + forward(pieces))
                held += kept(pieces) + (0 if last else message)
            elif step.kind == "B":
                received = 0 if last else message
                held -= kept(pieces) + received
                found.append(held + backward(pieces, received=received, tied=tied, apart=apart))
                held += (left(pieces) if apart else 0) + (0 if first else message)
            else:
                weights = max(line.weights for piece in pieces for line in piece.lines)
                found.append(held + weights)
                held -= left(pieces)
        found.append(held)
    return rest + max(found)
