"""What ranks tell, drawn while they run: a plot of memory, or a picture of something else, by the name of the view."""

from __future__ import annotations

from collections.abc import Callable

from labs.telemetry.categories import Bytes
from labs.telemetry.live.base import Live
from labs.telemetry.live.memory import MemoryPlot
from labs.telemetry.live.picture import Picture, Timelines, Timetables, TrafficByAxis
from labs.telemetry.live.rewards import Rewards
from translations import CourseError, Language

__all__ = ["VIEWS", "Live", "MemoryPlot", "live"]

Make = Callable[[int, Bytes | None, Language | str], Live]

VIEWS: dict[str, Make] = {
    "memory": MemoryPlot,
    "timetable": lambda ranks, _, language: Picture(Timetables(ranks, language)),
    "traffic": lambda ranks, _, language: Picture(TrafficByAxis(ranks, language)),
    "reward": lambda ranks, _, language: Picture(Rewards(ranks, language)),
    "timeline": lambda ranks, _, language: Picture(Timelines(ranks, language)),
}


def live(view: str, *, ranks: int, formula: Bytes | None, language: Language | str) -> Live:
    """The view of that name, not shown yet. `formula` is what a rank should hold at rest, for the plot of memory.

    Raises CourseError for a view that there is not.
    """
    if view not in VIEWS:
        raise CourseError("labs.unknown-view", value=view, known=", ".join(VIEWS))
    return VIEWS[view](ranks, formula, language)
