"""The learner's way through the course: every unit with what is done in it, and the step that comes next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from shardwise.record import Record, Summary, UnitProgress
from shardwise.units import Unit, units
from translations import Language

State = Literal["planned", "open", "started", "mastered"]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A unit on the way. `waits_for` are units that it builds on and that are not mastered: advice, never a lock.

    `known` says that the questions before the unit were all answered right, so that its lesson may be skipped.
    """

    unit: Unit
    state: State
    progress: UnitProgress | None
    waits_for: tuple[str, ...]
    known: bool = False

    @property
    def standing(self) -> str:
        """The state as it is shown, by the id of its message `state-<standing>`."""
        return "known" if self.known and self.state != "mastered" else self.state


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All units, and the id of the one to do next; None when all that are there are mastered."""

    summary: Summary
    stops: tuple[Stop, ...]
    next: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "record": asdict(self.summary),
            "next": self.next,
            "units": [
                {"unit": each.unit.id, "state": each.state, "known": each.known}
                | (_as_json(each.progress) if each.progress is not None else {})
                for each in self.stops
            ],
        }


def overview(record: Record, language: Language) -> Overview:
    """Where the learner stands, for the lessons that exist in this language."""
    reached = {each.id: record.progress(each.id) for each in units() if each.open(language)}
    mastered = {id for id, progress in reached.items() if progress.mastered}
    stops = tuple(
        Stop(
            unit=each,
            state=_state(reached.get(each.id)),
            progress=reached.get(each.id),
            waits_for=tuple(need for need in each.needs if need in reached and need not in mastered),
            known=each.id in reached and _known(record, each.id),
        )
        for each in units()
    )
    following = first_to_do(stops)
    return Overview(summary=record.summary(), stops=stops, next=following.unit.id if following else None)


def _known(record: Record, unit: str) -> bool:
    """Whether all questions before the unit were answered right when last asked."""
    from quiz.session import precheck

    answered = record.recalled(unit)
    return bool(answered) and all(answered.get(each, False) for each in precheck(unit, learner=record.learner))


def _state(progress: UnitProgress | None) -> State:
    if progress is None:
        return "planned"
    if progress.mastered:
        return "mastered"
    return "started" if progress.started else "open"


def first_to_do(stops: Iterable[Stop]) -> Stop | None:
    """The first unit that is begun, else the first that is open and waits for nothing, else the first that is open."""
    todo = [each for each in stops if each.state in ("open", "started")]
    todo.sort(key=lambda each: (each.state != "started", bool(each.waits_for)))
    return todo[0] if todo else None


def _as_json(progress: UnitProgress) -> dict[str, Any]:
    return {
        "mastered": progress.mastered,
        "objectives": [asdict(each) for each in progress.objectives],
        "share": progress.share,
        "checks": dict(progress.checks),
        "quiz_best": progress.quiz_best,
        "attempts": progress.attempts,
        "certificates": progress.certificates,
    }
