"""The ways through the course: the whole of it, a fast track on which an expert skips what is known, and a lead
engineer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from shardwise.progress import Overview, Stop, first_to_do
from shardwise.units import units


@dataclass(frozen=True, kw_only=True)
class Track:
    """A way through these units, in order. With `skips` a unit whose first questions were all right counts as known."""

    id: str
    units: tuple[str, ...]
    skips: bool

    def left(self, shown: Overview) -> tuple[Stop, ...]:
        """What is still to do on it, in its order."""
        return tuple(each for each in self._stops(shown) if not self.done(each))

    def done(self, stop: Stop) -> bool:
        return stop.state == "mastered" or (self.skips and stop.known)

    def next(self, shown: Overview) -> Stop | None:
        """The unit to open next on it; None where nothing that is there is left."""
        return first_to_do(self.left(shown))

    def _stops(self, shown: Overview) -> tuple[Stop, ...]:
        return tuple(each for each in shown.stops if each.unit.id in self.units)


@cache
def tracks() -> tuple[Track, ...]:
    """All of them. Raises ValueError where one names a unit that there is not."""
    known = tuple(each.id for each in units())
    listed = yaml.safe_load(Path(__file__).with_name("tracks.yaml").read_text(encoding="utf-8"))["tracks"]
    made = tuple(Track(id=each["id"], skips=each["skips"], units=tuple(each.get("units", known))) for each in listed)
    if unknown := {unit for track in made for unit in track.units} - set(known):
        raise ValueError(f"tracks.yaml names {', '.join(sorted(unknown))}, which units.yaml has not")
    return made
