"""The live series of a rank's memory: written by the rank, a line a row, and read by whoever watches while it runs.

A row says when (seconds on the machine's monotonic clock, the same for all its processes), the phase, and the bytes of
each category. Changes within a hundredth of a second are told together, but no peak is lost: a category's or the
total's highest value always has a row of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from labs.telemetry.categories import CATEGORIES, Bytes

WINDOW = 0.01

_TOTAL = len(CATEGORIES)
_Held = tuple[float, str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a rank held at one moment: `seconds` since the run was first watched, `phase` as in `PHASES` or empty."""

    seconds: float
    phase: str
    bytes: Bytes


def path_of(folder: Path, *, rank: int) -> Path:
    return folder / f"rank-{rank}.rows"


class Writer:
    """Writes a rank's rows. A disk that is full ends the rows, never the training."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] | None = path.open("w", encoding="ascii", buffering=1 << 16)
        self._due = 0.0
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
        if self._file is None:
            return
        rows = sorted({*self._held.values(), row})
        try:
            self._file.write(
                "".join(f"[{at:.6f},{json.dumps(phase)},{','.join(map(str, n))}]\n" for at, phase, n in rows)
            )
            self._file.flush()
        except OSError:
            self.close()
        self._held.clear()
        self._highest = -1
        self._due = row[0] + WINDOW


class Reader:
    """Follows the rows of all ranks in a thread of its own and hands each to `on_row(rank, row)` there.

    Leaving the context hands over what was still unread; an error of `on_row` ends the reading and is raised there.
    """

    def __init__(self, folder: Path, *, ranks: int, on_row: Callable[[int, Row], None], every: float = 0.05) -> None:
        self._tails = [_Tail(path_of(folder, rank=rank)) for rank in range(ranks)]
        self._on_row, self._every, self._origin = on_row, every, time.monotonic()
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
                for rank, tail in enumerate(self._tails):
                    for line in tail.lines():
                        if (row := _row(line, self._origin)) is not None:
                            self._on_row(rank, row)
        except Exception as error:
            self._error = error
        finally:
            for tail in self._tails:
                tail.close()


def read(folder: Path) -> dict[int, tuple[Row, ...]]:
    """All rows in a run's folder by rank, timed from the first of them."""
    lines: dict[int, list[bytes]] = {}
    for path in folder.glob("rank-*.rows"):
        if (rank := path.stem.removeprefix("rank-")).isdecimal():
            lines[int(rank)] = path.read_bytes().splitlines()
    whole = {rank: [row for line in own if (row := _row(line, 0.0))] for rank, own in sorted(lines.items())}
    origin = min((rows[0].seconds for rows in whole.values() if rows), default=0.0)
    return {
        rank: tuple(Row(seconds=row.seconds - origin, phase=row.phase, bytes=row.bytes) for row in rows)
        for rank, rows in whole.items()
    }


class _Tail:
    """The complete lines that were appended to a file since the last look. The file may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._rest = path, b""
        self._file: BufferedReader | None = None

    def lines(self) -> list[bytes]:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return []
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        return whole

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _row(line: bytes, origin: float) -> Row | None:
    """None for a line that is not whole: its rank was killed while it wrote."""
    try:
        at, phase, *amounts = json.loads(line)
        return Row(
            seconds=float(at) - origin,
            phase=str(phase),
            bytes=Bytes(**dict(zip(CATEGORIES, map(int, amounts), strict=True))),
        )
    except (ValueError, TypeError):
        return None
