"""Views that are drawn as a whole, again and again while ranks run: the page only shows the picture."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from labs.telemetry.categories import Count
from labs.telemetry.drawing.lanes import lanes_over_time, run_message
from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.slots import slots_over_time
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.drawing.traffic import axis_name, traffic_of_step, traffic_so_far
from labs.telemetry.events import Event
from labs.telemetry.lanes import timeline
from labs.telemetry.live.base import HERE, TOLD_EVERY, Live
from labs.telemetry.rows import Slot, Told, Traffic
from labs.telemetry.slots import Timetable, span
from translations import Language

SHARE = 0.1
"""Of one core's time at most so much goes into drawing: a picture of many ranks is drawn less often."""
WATCHABLE = 0.5
"""Seconds that a step of a pipeline must take for its timetable to be drawn while it fills."""


class Scene(Protocol):
    """What a picture is drawn from. `now` is in the seconds of what is told."""

    words: Words

    def take(self, rank: int, told: Told) -> bool:
        """Whether there is something new to draw."""
        ...

    def moves(self) -> bool:
        """Whether the picture changes by itself, as time goes on."""
        ...

    def draw(self, now: float) -> Svg: ...

    def status(self, now: float) -> str:
        """One sentence for who does not see the picture; empty where there is nothing to say."""
        ...

    def finished(self, data: Mapping[str, Any] | None) -> Svg: ...


class Picture(Live):
    """A scene, drawn while ranks run, as often as its drawing is cheap."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.words)
        self._scene = scene
        self._clock: float | None = None  # what the monotonic clock said at second 0 of what is told
        self._new = False
        self._next = self._told = 0.0

    def make(self) -> Any:
        return _widget(self.words)

    def take(self, rank: int, told: Told) -> None:
        if self._clock is None:
            self._clock = time.monotonic() - told.seconds
        self._new |= self._scene.take(rank, told)

    def send(self) -> None:
        begun = time.monotonic()
        with self.lock:
            if self._clock is None or begun < self._next or not (self._new or self._scene.moves()):
                return
            self._new = False
            now = begun - self._clock
            picture, status = self._scene.draw(now), self._scene.status(now)
        self.widget.picture = picture.markup
        if status and begun - self._told >= TOLD_EVERY:
            self._told = begun
            self.widget.status = status
        self._next = begun + (time.monotonic() - begun) / SHARE

    def figure(self, data: Mapping[str, Any] | None) -> Svg:
        with self.lock:
            return self._scene.finished(data)


class Timetables:
    """The slots of a pipeline, as they begin and end."""

    def __init__(self, ranks: int, language: Language | str) -> None:
        self.words = Words.of(language)
        self._table = Timetable(ranks)
        self._latest: tuple[int, Slot] | None = None

    def take(self, rank: int, told: Told) -> bool:
        if not isinstance(told, Slot):
            return False
        self._table.take(rank, told)
        self._latest = rank, told
        return True

    def moves(self) -> bool:
        return any(cell.end is None for own in self._table.latest.values() for cell in own)

    def draw(self, now: float) -> Svg:
        whole, latest = self._table.whole, self._table.latest
        begun, ended = (0.0, 0.0) if whole is None else span(whole)
        if whole is not None and (whole == latest or ended - begun < WATCHABLE):
            return slots_over_time(whole, language=self.words.language)
        return slots_over_time(latest, language=self.words.language, now=now, length=ended - begun)

    def status(self, now: float) -> str:
        if self._latest is None:
            return ""
        rank, slot = self._latest
        return self.words("slot-now", rank=rank, slot=slot.name, step=self._table.number)

    def finished(self, data: Mapping[str, Any] | None) -> Svg:
        step = self._table.whole or self._table.latest
        expected = data.get("bubble") if data is not None else None
        return slots_over_time(step, language=self.words.language, expected=expected)


class TrafficByAxis:
    """The bytes that each rank has moved on each axis of the mesh."""

    def __init__(self, ranks: int, language: Language | str) -> None:
        self.words = Words.of(language)
        self._ranks = ranks
        self._moved: dict[str, dict[int, int]] = {}

    def take(self, rank: int, told: Told) -> bool:
        if not isinstance(told, Traffic):
            return False
        self._moved.setdefault(told.axis, dict.fromkeys(range(self._ranks), 0))[rank] = told.bytes
        return True

    def moves(self) -> bool:
        return False

    def draw(self, now: float) -> Svg:
        return traffic_so_far(self._moved, language=self.words.language)

    def status(self, now: float) -> str:
        totals = {
            rank: sum(own.get(rank, 0) for own in self._moved.values()) for own in self._moved.values() for rank in own
        }
        if not any(totals.values()):
            return ""
        rank = max(totals, key=lambda each: totals[each])
        axis = axis_name(max(self._moved, key=lambda each: self._moved[each].get(rank, 0)), self.words)
        return self.words("axis-now", rank=rank, size=self.words.bytes(totals[rank]), axis=axis)

    def finished(self, data: Mapping[str, Any] | None) -> Svg:
        if data is None:
            return traffic_so_far(self._moved, language=self.words.language)
        return traffic_of_step(axes_of(data), language=self.words.language)


class Timelines:
    """What happens to a run: steps, saves, failures, and how it goes on."""

    def __init__(self, ranks: int, language: Language | str) -> None:
        self.words = Words.of(language)
        self._ranks = ranks
        self._events: list[Event] = []

    def take(self, rank: int, told: Told) -> bool:
        if not isinstance(told, Event):
            return False
        self._events.append(told)
        return True

    def moves(self) -> bool:
        return bool(self._events)

    def draw(self, now: float) -> Svg:
        run = timeline(self._events, ranks=self._ranks, now=now)
        return lanes_over_time(run, language=self.words.language, under_way=True)

    def status(self, now: float) -> str:
        run = timeline(self._events, ranks=self._ranks, now=now)
        return self.words.sentence(run_message(run, self.words, under_way=True))

    def finished(self, data: Mapping[str, Any] | None) -> Svg:
        return lanes_over_time(timeline(self._events, ranks=self._ranks), language=self.words.language)


def axes_of(data: Mapping[str, Any]) -> dict[int, dict[str, dict[str, Count]]]:
    """Of a lab's JSON, the collectives of its last step by rank and axis."""
    return {
        report["rank"]: {
            axis: {name: Count(**count) for name, count in counts.items()} for axis, counts in report["axes"].items()
        }
        for report in data["ranks"]
    }


def _widget(words: Words) -> Any:
    import anywidget
    import traitlets

    class LivePicture(anywidget.AnyWidget):
        _esm = HERE / "picture.js"
        _css = HERE / "live.css"
        setup = traitlets.Dict().tag(sync=True)
        picture = traitlets.Unicode().tag(sync=True)
        status = traitlets.Unicode().tag(sync=True)

        def __repr__(self) -> str:
            return words("live-run")

    return LivePicture(
        setup={"name": words("live-run"), "direction": words.language.direction, "language": words.language.code},
        status=words("live-waiting"),
    )
