"""The timeline of a run from its events: what each rank did from when to when, and what of it was lost.

A lane is one rank's. A step that is done again after a failure, since the run resumed from an earlier one, is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labs.telemetry.events import Event

Kind = Literal["training", "lost", "saving", "starting"]
KINDS: tuple[Kind, ...] = ("training", "lost", "saving", "starting")
MARKS = ("killed", "detected", "alarm", "resumed")
KNOWN = ("started", "step", "trained", "saving", "saved", "restarting", "finished", *MARKS)
ALARMS = ("straggler", "bad-gradient", "loss-spike")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What a rank did from when to when; `step` is the training step, or the number of steps that a save holds. A step
    is `done` if the rank came to its end; a save is `aside` where its rank trains meanwhile.
    """

    kind: Kind
    start: float
    end: float
    step: int | None = None
    done: bool = False
    aside: bool = False


@dataclass(slots=True)
class Lane:
    """One rank: its stretches in the order of their ends, and the events that are marked on them."""

    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Event] = field(default_factory=list)
    _doing: Stretch | None = None
    _save: Stretch | None = None

    def take(self, event: Event) -> None:
        at, step = event.seconds, event.values.get("step")
        if event.name in MARKS:
            self.marks.append(event)
        match event.name:
            case "started" | "restarting":
                self._do(Stretch(kind="starting", start=at, end=at))
            case "step":
                self._do(Stretch(kind="training", start=at, end=at, step=step))
            case "trained" if self._doing is not None:
                self._doing = replace(self._doing, done=True)
            case "saving":
                self._save = Stretch(kind="saving", start=at, end=at, step=step)
            case "saved":
                self._saved(at)
            case "killed":
                self._do(None, at=at)
                self._save = None
            case "resumed" | "finished":
                self._do(None, at=at)

    def lose(self, step: int) -> None:
        """The steps from this one on are done again: what was done of them before is lost."""

        def lost(each: Stretch) -> Stretch:
            again = each.kind == "training" and each.step is not None and each.step >= step
            return replace(each, kind="lost") if again else each

        self.stretches = [lost(each) for each in self.stretches]
        self._doing = None if self._doing is None else lost(self._doing)

    def close(self, at: float) -> None:
        """What is under way reaches to `at`."""
        self._saved(at)
        self._do(None, at=at)

    def _saved(self, at: float) -> None:
        if self._save is None:
            return
        start = self._save.start
        trained = [*self.stretches, *([self._doing] if self._doing is not None else [])]
        aside = any(each.kind == "training" and each.start > start for each in trained)
        self.stretches.append(replace(self._save, end=at, aside=aside))
        self._save = None

    def _do(self, following: Stretch | None, *, at: float = 0.0) -> None:
        if self._doing is not None:
            self.stretches.append(replace(self._doing, end=at if following is None else following.start))
        self._doing = following


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Seconds are since the first event. `lost` counts the steps that were done and had to be done again; `pauses` are
    the seconds from each failure or alarm until the first rank went on.
    """

    lanes: dict[int, Lane]
    end: float
    pauses: tuple[float, ...]

    @property
    def lost(self) -> int:
        lanes = (lane.stretches for lane in self.lanes.values())
        return max((sum(each.kind == "lost" and each.done for each in own) for own in lanes), default=0)

    def marks(self, name: str) -> list[Event]:
        """The events of that name, each once, in the order of time."""
        found = {id(each): each for lane in self.lanes.values() for each in lane.marks if each.name == name}
        return sorted(found.values(), key=lambda each: each.seconds)


def timeline(events: Iterable[Event], *, ranks: int, now: float | None = None) -> Timeline:
    """The lanes of `ranks` ranks, and of each other that is told of, from the first of their events on. What is under
    way reaches to `now`, on the clock of the events, or to the last of them.
    """
    known = sorted((each for each in events if each.name in KNOWN), key=lambda each: each.seconds)
    origin = known[0].seconds if known else 0.0
    ordered = [replace(each, seconds=each.seconds - origin) for each in known]
    told = {each.rank for each in ordered if each.rank is not None}
    lanes = {rank: Lane() for rank in sorted({*range(ranks), *told})}
    going = False  # since a failure, or the beginning, a rank has resumed
    for each in ordered:
        if each.name in ("killed", "alarm", "restarting"):
            going = False
        elif each.name == "resumed" and not going:
            going = True
            for lane in lanes.values():
                lane.lose(int(each.values.get("step", 0)))
        for rank, lane in lanes.items():
            if each.name == "restarting" and rank >= each.values.get("ranks", len(lanes)):
                lane.close(each.seconds)  # the run goes on without it
            elif each.rank in (rank, None):
                lane.take(each)
    end = max([0.0 if now is None else now - origin, *(each.seconds for each in ordered)])
    for lane in lanes.values():
        lane.close(end)
    return Timeline(lanes=lanes, end=end, pauses=_pauses(ordered))


def _pauses(ordered: Sequence[Event]) -> tuple[float, ...]:
    found: list[float] = []
    failed: float | None = None
    for each in ordered:
        if failed is None and each.name in ("killed", "alarm"):
            failed = each.seconds
        elif failed is not None and each.name == "resumed":
            found.append(each.seconds - failed)
            failed = None
    return tuple(found)
