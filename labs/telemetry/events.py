"""What happens to a run, told as it happens: a rank begins to train, saves, is killed; it is noticed, the run resumes.

Each rank has a file of its own in the run's folder, which a restarted rank lengthens; whoever leads the run has one
too. An event is a line: when (seconds on the machine's monotonic clock, the same for all its processes), the attempt
(how often torchrun had restarted the ranks), the rank that it is about, its name and its values. The timeline of a run
(`labs.telemetry.lanes`) knows these names; others are only listed:

    started                     a rank is there, before its first step
    step         step=          a rank begins a training step
    trained                     and comes to its end
    saving       step=          a rank begins to save what it has after so many steps
    saved        step=          and it is safe, perhaps some steps later
    killed                      told by the leader: this rank is no more
    detected     kind=          it was noticed, by a rank or by the leader
    alarm        kind=, step=   a rank's numbers are wrong
    restarting   ranks=         told by the leader: the run starts again, on so many ranks
    resumed      step=          a rank goes on from what was saved after so many steps
    finished                    a rank is done

Rank 0 of a policy that learns tells `rewarded` (step=, reward=, right=, ...), of which the curve of rewards is drawn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labs.telemetry.lines import Tail, end_half_a_line

_LEADER = "leader.events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`seconds` since the run was first watched; `rank` is None for what is about all of them."""

    seconds: float
    name: str
    rank: int | None
    attempt: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Event:
        """What `as_dict` gave."""
        values = dict(told)
        own = {name: values.pop(name) for name in ("seconds", "rank", "attempt")}
        return cls(name=values.pop("event"), **own, values=values)

    def as_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "event": self.name, "rank": self.rank, "attempt": self.attempt, **self.values}


def event(name: str, /, **values: Any) -> None:
    """Called in a rank: this has happened here, now. Values are JSON. Without a run's folder (`SHARDWISE_RUN`), as
    under plain torchrun, nothing is told; a disk that is full ends no training.
    """
    folder, rank = os.environ.get("SHARDWISE_RUN"), int(os.environ.get("RANK", "0"))
    if folder is None:
        return
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    try:
        _append(path_of(Path(folder), rank=rank), name, rank, attempt, values)
    except OSError:
        return


def tell(folder: Path, name: str, /, *, rank: int | None = None, attempt: int = 0, **values: Any) -> None:
    """Called by whoever leads the run: this has happened, now, to that rank or to all."""
    _append(folder / _LEADER, name, rank, attempt, values)


def read(folder: Path) -> tuple[Event, ...]:
    """All that happened in a run's folder in the order of time; seconds since the first of it."""
    lines = [line for path in folder.glob("*.events") for line in path.read_bytes().splitlines()]
    found = sorted((each for line in lines if (each := parsed(line)) is not None), key=lambda each: each.seconds)
    return tuple(replace(each, seconds=each.seconds - found[0].seconds) for each in found)


class Follower:
    """What happened since the last look, in a run of `ranks` ranks at most; for a thread that looks now and then."""

    def __init__(self, folder: Path, *, ranks: int) -> None:
        self._tails = [Tail(path_of(folder, rank=rank)) for rank in range(ranks)] + [Tail(folder / _LEADER)]

    def new(self, *, origin: float) -> list[Event]:
        """In the order of time; seconds since `origin` on the monotonic clock."""
        lines = [line for tail in self._tails for line in tail.lines()]
        found = [replace(each, seconds=each.seconds - origin) for line in lines if (each := parsed(line)) is not None]
        return sorted(found, key=lambda each: each.seconds)

    def close(self) -> None:
        for tail in self._tails:
            tail.close()


def path_of(folder: Path, *, rank: int) -> Path:
    return folder / f"rank-{rank}.events"


def parsed(line: bytes) -> Event | None:
    """None for a line that is not whole: its rank was killed while it wrote."""
    try:
        at, attempt, rank, name, values = json.loads(line)
        return Event(
            seconds=float(at),
            name=str(name),
            rank=None if rank is None else int(rank),
            attempt=int(attempt),
            values=dict(values),
        )
    except (ValueError, TypeError):
        return None


def _append(path: Path, name: str, rank: int | None, attempt: int, values: Mapping[str, Any]) -> None:
    line = json.dumps([round(time.monotonic(), 6), attempt, rank, name, values]) + "\n"
    end_half_a_line(path)
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())
