"""Which questions are due again: each idea comes back after 1, 3 and 7 days, with new numbers.

A question climbs a ladder whose steps are the policy's days. Met for the first time, in a quiz or between sections, it
is due a first step later. Answered right when it was due, it climbs; after the last step it is done. A wrong answer at
any time puts it back to the beginning. A right answer before it is due changes nothing: cramming does not count. Days
are calendar days of the learner, so that who comes every evening finds what was asked the evening before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from quiz.items import items, units
from quiz.policy import policy


@dataclass(frozen=True, kw_only=True)
class Met:
    """A question answered, on which day, and whether right."""

    item: str
    day: date
    correct: bool


@dataclass(frozen=True, kw_only=True)
class Due:
    """A question to be asked again: since which day, on which step (from 0), and whether it was last wrong."""

    item: str
    unit: str
    objective: str
    since: date
    step: int
    lapsed: bool


def due(history: Iterable[Met], *, today: date) -> tuple[Due, ...]:
    """What is due, in the order in which to ask. `history` is in the order of time; what no bank holds is left out.

    Wrong ones come first, then what has waited longest; one of each objective before a second, so that ideas mix.
    """
    waiting = [each for each in _ladder(history) if each.since <= today]
    waiting.sort(key=lambda each: (not each.lapsed, each.since, each.unit, each.item))
    turns: dict[str, int] = {}
    ordered = []
    for place, each in enumerate(waiting):
        turns[each.objective] = turns.get(each.objective, -1) + 1
        ordered.append((turns[each.objective], place, each))
    return tuple(each for _turn, _place, each in sorted(ordered, key=lambda entry: entry[:2]))


def coming(history: Iterable[Met], *, today: date) -> date | None:
    """The next day on which something is due that is not yet; None where nothing waits."""
    return min((each.since for each in _ladder(history) if each.since > today), default=None)


def _ladder(history: Iterable[Met]) -> Iterable[Due]:
    days = policy().review_days
    known = {item.id: item for unit in units() for item in items(unit)}
    steps: dict[str, tuple[int, date, bool]] = {}
    for met in history:
        step, since, _lapsed = steps.get(met.item, (-1, met.day, False))
        if not met.correct:
            steps[met.item] = 0, met.day + _days(days[0]), True
        elif step < 0:
            steps[met.item] = 0, met.day + _days(days[0]), False
        elif met.day >= since and step < len(days):
            climbed = step + 1
            steps[met.item] = climbed, met.day + _days(days[climbed] if climbed < len(days) else 0), False
    for id, (step, since, lapsed) in steps.items():
        if step < len(days) and id in known:
            item = known[id]
            yield Due(item=id, unit=item.unit, objective=item.objective, since=since, step=step, lapsed=lapsed)


def _days(count: int) -> timedelta:
    return timedelta(days=count)
