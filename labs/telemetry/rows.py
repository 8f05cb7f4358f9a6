"""The live series of a rank: written by the rank, a line a row, and read by whoever watches while it runs.

A row says when (seconds on the machine's monotonic clock, the same for all its processes), the phase, and the bytes of
each category. Changes within a hundredth of a second are told together, but no peak is lost: a category's or the
total's highest value always has a row of its own. Between them stand the slots of a pipeline, as each begins and ends,
and the bytes that collectives have moved so far, by axis.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from labs.telemetry.categories import CATEGORIES, Bytes
from labs.telemetry.events import Event, Follower
from labs.telemetry.lines import Tail, end_half_a_line

WINDOW = 0.01

_TOTAL = len(CATEGORIES)
_SLOT, _TRAFFIC = '"slot"', '"traffic"'  # in the place of a phase
_Held = tuple[float, str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a rank held at one moment: `seconds` since the run was first watched, `phase` as in `PHASES` or empty."""

    seconds: float
    phase: str
    bytes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot of a pipeline's timetable, such as F0, B0, W0 or F0@1 (chunk 1), begins on a rank, or ends."""

    seconds: float
    name: str
    begins: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes of unsharded buffers on which collectives were called so far, on one axis of the device mesh."""

    seconds: float
    axis: str
    bytes: int


Told = Row | Slot | Traffic | Event


def path_of(folder: Path, *, rank: int) -> Path:
    return folder / f"rank-{rank}.rows"


class Writer:
    """Writes a rank's rows; a rank that was started again goes on in its file. A disk that is full ends the rows, never
    the training.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            end_half_a_line(path)
        self._file: IO[str] | None = path.open("a", encoding="ascii", buffering=1 << 16)
        self._due = 0.0
        self._moved: dict[str, int] = {}
        self._held: dict[int, _Held] = {}
        self._highest = -1

    @classmethod
    def for_run(cls) -> Writer | None:
        """The writer of this rank of a run; None where `SHARDWISE_RUN` names no folder, as under plain torchrun."""
        folder = os.environ.get("SHARDWISE_RUN")
        return cls(path_of(Path(folder), rank=int(os.environ.get("RANK", "0")))) if folder else None

    def change(self, phase: str, amounts: Sequence[int], total: int, peak: int | None = None) -> None:
        """Memory has changed; `peak` is the index of a category that is now higher than ever before."""
        now = time.monotonic()
        if total > self._highest:
            self._highest = total
            self._held[_TOTAL] = (now, phase, tuple(amounts))
        if peak is not None:
            self._held[peak] = (now, phase, tuple(amounts))
        if now >= self._due:
            self._write((now, phase, tuple(amounts)))

    def mark(self, phase: str, amounts: Sequence[int], total: int) -> None:
        """A phase begins or ends, or the rank is about to wait: this row is written now."""
        self._write((time.monotonic(), phase, tuple(amounts)))

    def slot(self, name: str, *, begins: bool) -> None:
        """A slot of a pipeline begins or ends: written now."""
        self._append(f"[{time.monotonic():.6f},{_SLOT},{json.dumps(name)},{int(begins)}]\n")

    def moved(self, axis: str, total: int) -> None:
        """So many bytes have moved on an axis since the rank began; written with the next row."""
        self._moved[axis] = total

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, row: _Held) -> None:
        rows = sorted({*self._held.values(), row})
        lines = [f"[{at:.6f},{json.dumps(phase)},{','.join(map(str, n))}]\n" for at, phase, n in rows]
        lines += [f"[{row[0]:.6f},{_TRAFFIC},{json.dumps(axis)},{total}]\n" for axis, total in self._moved.items()]
        self._append("".join(lines))
        self._held.clear()
        self._moved.clear()
        self._highest = -1
        self._due = row[0] + WINDOW

    def _append(self, lines: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(lines)
            self._file.flush()
        except OSError:
            self.close()


class Reader:
    """Follows the rows and the events of all ranks in a thread of its own and hands each to `on_row(rank, told)` there;
    what is about no one rank comes with rank 0.

    Leaving the context hands over what was still unread; an error of `on_row` ends the reading and is raised there.
    Seconds count from `origin`, on the monotonic clock, where a watch spans several runs; else from now.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ranks: int,
        on_row: Callable[[int, Told], None],
        every: float = 0.05,
        origin: float | None = None,
    ) -> None:
        self._tails = [Tail(path_of(folder, rank=rank)) for rank in range(ranks)]
        self._events = Follower(folder, ranks=ranks)
        self._on_row, self._every = on_row, every
        self._origin = time.monotonic() if origin is None else origin
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name="rows of the ranks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _follow(self) -> None:
        try:
            ending = False
            while not ending:
                ending = self._ending.wait(self._every)
                for event in self._events.new(origin=self._origin):
                    self._on_row(event.rank or 0, event)
                for rank, tail in enumerate(self._tails):
                    for line in tail.lines():
                        if (row := _parsed(line, self._origin)) is not None:
                            self._on_row(rank, row)
        except Exception as error:
            self._error = error
        finally:
            self._events.close()
            for tail in self._tails:
                tail.close()


Series = dict[int, list[Row | Slot | Traffic]]
"""What each rank told, in the order in which it did."""


def series(folder: Path) -> Series:
    """All that the ranks of a run told in its folder, on the machine's clock."""
    lines = {
        int(rank): path.read_bytes().splitlines()
        for path in folder.glob("rank-*.rows")
        if (rank := path.stem.removeprefix("rank-")).isdecimal()
    }
    return {
        rank: [told for line in own if (told := _parsed(line, 0.0)) is not None] for rank, own in sorted(lines.items())
    }


def read(folder: Path) -> dict[int, tuple[Row, ...]]:
    """All rows of memory in a run's folder by rank, timed from the first of them."""
    return memory_in(series(folder))


def memory_in(told: Series) -> dict[int, tuple[Row, ...]]:
    """The rows of memory by rank, timed from the first of them."""
    whole = {rank: [each for each in own if isinstance(each, Row)] for rank, own in told.items()}
    origin = min((rows[0].seconds for rows in whole.values() if rows), default=0.0)
    return {
        rank: tuple(Row(seconds=row.seconds - origin, phase=row.phase, bytes=row.bytes) for row in rows)
        for rank, rows in whole.items()
    }


def _parsed(line: bytes, origin: float) -> Row | Slot | Traffic | None:
    """None for a line that is not whole: its rank was killed while it wrote."""
    try:
        at, kind, *values = json.loads(line)
        seconds = float(at) - origin
        if len(values) == len(CATEGORIES):
            amounts = dict(zip(CATEGORIES, map(int, values), strict=True))
            return Row(seconds=seconds, phase=str(kind), bytes=Bytes(**amounts))
        name, number = values
        if kind == "slot":
            return Slot(seconds=seconds, name=str(name), begins=bool(number))
        return Traffic(seconds=seconds, axis=str(name), bytes=int(number))
    except (ValueError, TypeError):
        return None
