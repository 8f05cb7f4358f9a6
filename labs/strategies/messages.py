"""Who sends what to whom, and when: the messages that a pipeline schedule needs, put between its actions.

A send may have to wait until the other side receives (NCCL copies large messages from GPU to GPU, and keeps the calls
between two ranks in order). So where a message stands in two ranks' lists decides whether they ever meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.strategies.schedules import Action, Order, chunks_of, timetable


@dataclass(frozen=True, slots=True)
class Send:
    """What `action` made goes to rank `to`."""

    to: int
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Receive:
    """What `action` needs comes from rank `source`."""

    source: int
    action: Action | None = None


Message = Send | Receive
Step = Action | Message | tuple[Message, ...]  # a tuple of messages is a batch: all of them at once


def programs(orders: Sequence[Order]) -> list[list[Step]]:
    """Every rank's actions and messages in one list, so that no rank waits for ever, even if every send does.

    All events stand in one order of time: an action at its end, a message right after the action that made it. A
    rank's list is what concerns it of that. Whoever runs it can always go on with the first event not yet done.
    """
    ranks, last = len(orders), len(orders) * chunks_of(orders) - 1
    events: list[tuple[int, int, int, int, Step]] = []
    for i, row in enumerate(timetable(orders)):
        for action, end in {action: slot + 1 for slot, action in enumerate(row) if action is not None}.items():
            events.append((end, 0, i, i, action))
            stage = action.chunk * ranks + i
            after = {"F": stage + 1, "B": stage - 1, "W": -1}[action.kind]
            if 0 <= after <= last:
                needed = Action(action.kind, action.micro_batch, after // ranks)
                events.append((end, 1, i, i, Send(after % ranks, action)))
                events.append((end, 1, i, after % ranks, Receive(i, needed)))
    events.sort(key=lambda event: event[:3])
    return [[step for *_, rank, step in events if rank == i] for i in range(ranks)]


def deadlock(programs: Sequence[Sequence[Step]], *, sends_wait: bool = True) -> dict[int, Step]:
    """What each rank waits in when none can go on: empty where all come to their end.

    With `sends_wait` a send is done when its receive is called, as for large messages; without it, at once.
    """
    position = [0] * len(programs)
    todo: list[list[Message]] = [[] for _ in programs]  # messages of the current step that have not met
    sent: list[tuple[int, int]] = []  # (from, to), on their way
    moved = True
    while moved:
        moved = False
        for i, program in enumerate(programs):
            while not todo[i] and position[i] < len(program):
                step = program[position[i]]
                todo[i] = list(step) if isinstance(step, tuple) else [step] if not isinstance(step, Action) else []
                position[i], moved = position[i] + 1, True
        for i, open_ in enumerate(todo):
            for message in [*open_]:
                if isinstance(message, Send) and not sends_wait:
                    sent.append((i, message.to))
                elif isinstance(message, Send) and Receive(i) in map(_bare, todo[message.to]):
                    theirs = todo[message.to]
                    theirs.remove(next(other for other in theirs if _bare(other) == Receive(i)))
                elif isinstance(message, Receive) and (message.source, i) in sent:
                    sent.remove((message.source, i))
                else:
                    continue
                open_.remove(message)
                moved = True
    return {i: programs[i][position[i] - 1] for i, open_ in enumerate(todo) if open_}


def _bare(message: Message) -> Message:
    """Without its action: ranks and order alone decide which send meets which receive."""
    return Send(message.to) if isinstance(message, Send) else Receive(message.source)
