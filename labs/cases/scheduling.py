"""Which requests a server works on, iteration by iteration. Nothing here computes; it says what is to be computed.

    static       a batch is taken when the one before is done, and stays together until its longest answer is written
    continuous   whoever is done leaves after any iteration, and who waits takes the slot in the next (Yu et al. 2022,
                 Orca, section 3.1)

Time is counted in iterations: one new token for everybody in a slot.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arrives before iteration `arrives`, with so many tokens of prompt, and wants so many `new` ones."""

    number: int
    arrives: int
    prompt: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """Which request has each slot, or None; how many tokens each had written before. Who has written none brings its
    prompt; who has written all that it wanted is held for the sake of the others.
    """

    time: int
    slots: tuple[Request | None, ...]
    written: tuple[int, ...]

    def pairs(self) -> Iterator[tuple[int, Request, int]]:
        """Slot, request and tokens written before, of each slot that is taken."""
        for slot, (request, written) in enumerate(zip(self.slots, self.written, strict=True)):
            if request is not None:
                yield slot, request, written

    @property
    def used(self) -> int:
        """Slots in which a token is written that somebody waits for."""
        return sum(written < request.new for _, request, written in self.pairs())

    @property
    def joined(self) -> list[tuple[int, Request]]:
        return [(slot, request) for slot, request, written in self.pairs() if written == 0]


Scheduler = Callable[..., Iterator[Iteration]]


def requests(count: int, *, rate: float, prompt: int, new: int, seed: int = 0) -> list[Request]:
    """`rate` arrivals an iteration on average, at random; prompts of up to `prompt` tokens. Most answers are short, and
    a few as long as `new`, as those to people are.
    """
    draw, time, found = random.Random(seed), 0.0, []
    for number in range(count):
        time += draw.expovariate(rate)
        length = min(new, 2 + int(draw.expovariate(3 / new)))
        found.append(Request(number=number, arrives=int(time), prompt=draw.randint(1, prompt), new=length))
    return found


def static(asked: Sequence[Request], *, slots: int) -> Iterator[Iteration]:
    waiting, time = list(asked), 0
    while waiting:
        time = max(time, waiting[0].arrives)
        batch = [request for request in waiting[:slots] if request.arrives <= time]
        del waiting[: len(batch)]
        taken = (*batch, *[None] * (slots - len(batch)))
        for step in range(max(request.new for request in batch)):
            written = tuple(0 if each is None else min(step, each.new) for each in taken)
            yield Iteration(time=time, slots=taken, written=written)
            time += 1


def continuous(asked: Sequence[Request], *, slots: int) -> Iterator[Iteration]:
    waiting, time = list(asked), 0
    taken: list[Request | None] = [None] * slots
    written = [0] * slots
    while waiting or any(taken):
        if not any(taken):
            time = max(time, waiting[0].arrives)
        for slot in range(slots):
            if taken[slot] is None and waiting and waiting[0].arrives <= time:
                taken[slot], written[slot] = waiting.pop(0), 0
        yield Iteration(time=time, slots=tuple(taken), written=tuple(written))
        time += 1
        for slot, request in enumerate(taken):
            if request is not None:
                written[slot] += 1
                if written[slot] == request.new:
                    taken[slot], written[slot] = None, 0


SCHEDULERS: dict[str, Scheduler] = {"static": static, "continuous": continuous}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a schedule comes to, in iterations and in slots of one token. `held` are slots of requests that are done,
    `empty` those of none, `filled` tokens that only make prompts equally long. Latency is from arrival to last token.
    """

    iterations: int
    used: int
    held: int
    empty: int
    filled: int
    tokens: int
    mean_latency: float
    worst_latency: int
    mean_first: float

    @property
    def share_used(self) -> float:
        return self.used / (self.used + self.held + self.empty)

    @property
    def throughput(self) -> float:
        """Tokens that somebody waited for, an iteration."""
        return self.tokens / self.iterations


def latencies(schedule: Sequence[Iteration]) -> list[int]:
    """Of each request, the iterations from its arrival to its last token, in the order in which they came."""
    done = {
        request: each.time + 1 - request.arrives
        for each in schedule
        for _, request, written in each.pairs()
        if written < request.new
    }
    return [done[request] for request in sorted(done, key=lambda request: request.number)]


def account(schedule: Sequence[Iteration]) -> Account:
    done: dict[int, int] = {}
    first: dict[int, int] = {}
    known: dict[int, Request] = {}
    used = held = empty = filled = 0
    for each in schedule:
        used += each.used
        empty += each.slots.count(None)
        held += len(each.slots) - each.slots.count(None) - each.used
        longest = max((request.prompt for _, request in each.joined), default=0)
        filled += sum(longest - request.prompt for _, request in each.joined)
        for _, request, written in each.pairs():
            known[request.number] = request
            if written < request.new:
                first.setdefault(request.number, each.time + 1)
                done[request.number] = each.time + 1
    waits = [done[number] - request.arrives for number, request in known.items()]
    return Account(
        iterations=len(schedule),
        used=used,
        held=held,
        empty=empty,
        filled=filled,
        tokens=sum(request.new for request in known.values()),
        mean_latency=sum(waits) / len(waits),
        worst_latency=max(waits),
        mean_first=sum(first[number] - request.arrives for number, request in known.items()) / len(known),
    )
