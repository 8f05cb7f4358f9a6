"""From how a run ended to what a learner is told: which rank, operation, step and rule, and what to do next."""

from __future__ import annotations

import linecache
import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.runner import failure, heartbeat
from labs.runner.heartbeat import Call, Now
from labs.runner.plan import Plan
from labs.runner.results import VALUE_LIMIT, Kind, RankFailed, read_left
from translations import CourseError

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+)(?: in (?P<function>.*))?$')
_OUTPUT_TAIL = 15


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """What ranks called in one place of one stream, and which never called there although they have ended."""

    calls: dict[int, Call]
    missing: list[int]


@dataclass(frozen=True, kw_only=True)
class Over:
    """How a run stood when it was over, a field a rank: ``codes`` is None for a rank that the runner ended."""

    why: str
    codes: list[int | None]
    ended_at: list[float]
    places: list[Now]
    waited: list[float]
    mismatch: Mismatch | None
    dropped: list[int]

    @staticmethod
    def from_event(event: dict[str, Any]) -> Over:
        places = [Now(**each) for each in event.pop("places")]
        mismatch = None
        if told := event.pop("mismatch"):
            calls = {int(rank): Call(**call) for rank, call in told["calls"].items()}
            mismatch = Mismatch(calls=calls, missing=told["missing"])
        return Over(places=places, mismatch=mismatch, **event)


def diagnose(plan: Plan, over: Over, outputs: tuple[str, ...]) -> RankFailed | None:
    """Why the run is not a result, or None if every rank came to its end and all agreed."""
    return _Diagnosis(plan, over, outputs).made()


class _Diagnosis:
    def __init__(self, plan: Plan, over: Over, outputs: tuple[str, ...]) -> None:
        self.plan = plan
        self.over = over
        self.outputs = outputs
        self.ranks = range(plan.ranks)
        self.failures = {rank: found for rank in self.ranks if (found := failure.read(plan.path, rank))}
        self.waiting = [
            rank
            for rank in self.ranks
            if (over.places[rank].state == heartbeat.WAITING and over.codes[rank] is None)
            or (rank in self.failures and self.failures[rank].secondary)
        ]

    def made(self) -> RankFailed | None:
        if self.over.mismatch is not None:
            return self._mismatch(self.over.mismatch)
        if self.over.why == "finished":
            return None
        raised = {rank: each for rank, each in self.failures.items() if not each.secondary}
        died = {rank: self.over.ended_at[rank] for rank in self.ranks if self._died(rank)}
        if raised and (not died or min(each.time for each in raised.values()) <= min(died.values())):
            return self._raised(raised)
        if died:
            return self._died_first(min(died, key=lambda rank: died[rank]))
        left = [rank for rank in self.ranks if self.over.codes[rank] == 0]
        if left and self.waiting:
            return self._left(left[0])
        if self.over.why == "late" and not self.failures:
            return self._late()
        return self._hung()

    # --- one method a kind of end

    def _raised(self, raised: dict[int, failure.Failure]) -> RankFailed:
        first = min(raised, key=lambda rank: raised[rank].time)
        same = [rank for rank in self.ranks if rank in raised and raised[rank].error == raised[first].error]
        first = min(same)
        found = raised[first]
        error: object = CourseError(found.message[0], **found.message[1]) if found.message else found.error
        id = "labs.rank-raised" if len(same) == 1 else "labs.ranks-raised"
        return self._failed(id, "raised", first, traceback=found.own, full=found.full, error=error, ranks=_list(same))

    def _died_first(self, rank: int) -> RankFailed:
        code = self.over.codes[rank] or 0
        stack = self._stack(rank)
        tail = "\n".join(self.outputs[rank].splitlines()[-_OUTPUT_TAIL:])
        shown = "\n".join(each for each in (stack, tail) if each)
        if code >= 0:
            return self._failed("labs.rank-died", "died", rank, traceback=shown, code=code)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        id = "labs.rank-killed" if name == "SIGKILL" else "labs.rank-crashed"
        return self._failed(id, "died", rank, traceback=shown, signal=name)

    def _left(self, rank: int) -> RankFailed:
        return self._failed(
            "labs.rank-left",
            "hung",
            rank,
            operation=self._awaited(),
            traceback=self._waiters(),
            full=next((self.failures[each].full for each in self.waiting if each in self.failures), ""),
            waiting=self._who_waits(),
        )

    def _hung(self) -> RankFailed:
        absent = [rank for rank in self.ranks if rank not in self.waiting and self.over.codes[rank] is None]
        seconds = round(max((self.over.waited[rank] for rank in self.waiting), default=0.0))
        if absent:
            return self._failed(
                "labs.rank-hung",
                "hung",
                absent[0],
                operation=self._awaited(),
                traceback=self._stack(absent[0]),
                waiting=self._who_waits(),
                seconds=seconds or round(self.plan.patience),
                line=self._line(absent[0]) or CourseError("labs.no-line"),
            )
        operations = Counter(self.over.places[rank].operation for rank in self.ranks)
        odd = min(self.ranks, key=lambda rank: (operations[self.over.places[rank].operation], rank))
        listed = "\n".join(
            f"rank {rank}: {self.over.places[rank].operation}" + (f"  ({line})" if (line := self._line(rank)) else "")
            for rank in self.ranks
        )
        return self._failed("labs.ranks-deadlocked", "hung", odd, traceback=listed)

    def _late(self) -> RankFailed:
        running = [rank for rank in self.ranks if self.over.codes[rank] is None]
        computing = [rank for rank in running if rank not in self.waiting] or running
        slowest = min(computing, key=lambda rank: (self.over.places[rank].step, rank))
        return self._failed(
            "labs.run-too-long",
            "hung",
            slowest,
            traceback=self._stack(slowest),
            timeout=f"{self.plan.timeout:g}",
            line=self._line(slowest) or CourseError("labs.no-line"),
        )

    def _mismatch(self, found: Mismatch) -> RankFailed:
        calls = found.calls
        other, first = min(calls.items())
        if found.missing:
            return self._failed(
                "labs.collective-skipped", "mismatch", found.missing[0], operation=first.operation, other=other
            )
        alike = Counter(each.content for each in calls.values())
        rank = min(calls, key=lambda each: (alike[calls[each].content], -each))
        second = calls[rank]
        # Against the lowest of the ranks that agree, for whoever is alone is the one to look at.
        other = min((each for each in calls if calls[each].content != second.content), default=min(calls))
        first = calls[other]
        if first.content == second.content:
            id = "labs.collectives-diverged"
        elif _name(first) == _name(second):
            id = "labs.shape-mismatch"
        else:
            id = "labs.collective-mismatch"
        return self._failed(
            id,
            "mismatch",
            rank,
            operation=second.operation,
            step=second.step,
            traceback=self._stack(rank),
            other=other,
            other_operation=first.operation,
            number=second.number + 1,
        )

    # --- what they are made of

    def _failed(
        self,
        id: str,
        kind: Kind,
        rank: int,
        *,
        operation: str | None = None,
        step: int | None = None,
        traceback: str = "",
        full: str = "",
        **values: object,
    ) -> RankFailed:
        operation = self.over.places[rank].operation if operation is None else operation
        step = self.over.places[rank].step if step is None else step
        where = CourseError("labs.at-step", step=step) if step >= 0 else CourseError("labs.at-no-step")
        ran = self.over.places[rank].operation
        last = CourseError("labs.in-operation", operation=ran) if ran else CourseError("labs.in-no-operation")
        return RankFailed(
            id,
            kind=kind,
            failed_rank=rank,
            failed_operation=operation,
            failed_step=step,
            rank_traceback=traceback,
            full_traceback=full or traceback,
            outputs=self.outputs,
            rank=rank,
            operation=operation or CourseError("labs.native-operation"),
            where=where,
            last=last,
            **values,
        )

    def _died(self, rank: int) -> bool:
        return bool(self.over.codes[rank]) and rank not in self.failures

    def _awaited(self) -> str:
        """The operation that most of the waiting ranks wait in."""
        operations = Counter(self._waits_in(rank) for rank in self.waiting)
        return operations.most_common(1)[0][0] if operations else ""

    def _waits_in(self, rank: int) -> str:
        """The operation; "" for one that torch called itself, which the hook does not see."""
        place = self.over.places[rank]
        return place.operation if place.state in (heartbeat.WAITING, heartbeat.RAISED) else ""

    def _who_waits(self) -> str:
        return _list(self.waiting)

    def _waiters(self) -> str:
        """Where the first of the waiting ranks waits."""
        for rank in self.waiting:
            if shown := self._stack(rank):
                return shown
        return ""

    def _frames(self, rank: int) -> list[tuple[str, int, str]]:
        """The frames in the script and the course where the rank was when it was asked or crashed, innermost last."""
        try:
            file = self.plan.path / f"rank-{rank}.stack"
            text = read_left(file, rank=rank, limit=VALUE_LIMIT).decode("utf-8", "replace")
        except (OSError, CourseError):
            return []
        frames: list[tuple[str, int, str]] = []
        for match in map(_FRAME.match, text.splitlines()):
            if match and failure.is_own(match["file"]):
                frames.append((match["file"], int(match["line"]), match["function"] or ""))
        return frames[::-1]

    def _stack(self, rank: int) -> str:
        if rank in self.failures:
            return self.failures[rank].where.rstrip()
        lines = []
        for file, line, function in self._frames(rank):
            lines.append(f'  File "{self._shown(file)}", line {line}, in {function}')
            if text := linecache.getline(file, line).strip():
                lines.append(f"    {text}")
        return "\n".join(lines)

    def _line(self, rank: int) -> str:
        """The innermost place, as ``cell:12``."""
        frames = self._frames(rank)
        return f"{self._shown(frames[-1][0])}:{frames[-1][1]}" if frames else ""

    def _shown(self, file: str) -> str:
        return self.plan.name if Path(file) == Path(self.plan.script) else file


def _name(call: Call) -> str:
    """The kind of call; the two ends of a pair are one."""
    name = call.operation.partition(" ")[0]
    return "send" if name == "receive" else name


def _list(ranks: Iterable[int]) -> str:
    return ", ".join(str(each) for each in ranks)
