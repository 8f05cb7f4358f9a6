"""What every rank of a run is doing, in memory that the runner reads while it happens.

One file a run, one page a rank: where the rank is now, and its latest collectives. Only the rank writes its page, only
the runner reads it, nobody waits for anybody: an entry costs microseconds.
"""

from __future__ import annotations

import math
import mmap
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE = "heartbeat"
RING = 64
TEXT = 128

_STEP = struct.Struct("<q")
_STATE = struct.Struct(f"<qd{TEXT}s")
_SINCE_AT = 8  # in _STATE; a struct writes zeros first, so a clock that is read at any moment is stored in one piece
_COUNT = struct.Struct("<q")
_CALL = struct.Struct(f"<qqIIq{TEXT}s")
_STATE_AT = _STEP.size
_COUNT_AT = _STATE_AT + _STATE.size
_RING_AT = _COUNT_AT + _COUNT.size
PAGE = _RING_AT + RING * _CALL.size

NOT_STARTED, COMPUTING, WAITING, RAISED, ENDED = range(5)


@dataclass(frozen=True, kw_only=True)
class Now:
    """Where a rank is: its step (-1 before the first), and the operation it waits in or was in last."""

    state: int
    since: float
    step: int
    operation: str


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a collective. In ``stream`` (a group, or a pair that sends and receives) it is number ``number``.

    Calls of one stream and number must agree among ranks in ``content``: the operation with dtype and shape.
    ``history`` also covers every earlier call of the stream.
    """

    stream: int
    number: int
    history: int
    step: int
    operation: str

    @property
    def content(self) -> str:
        """What must be equal on every rank; of a pair that sends and receives, dtype and shape."""
        words = self.operation.split(" ", 3)
        return words[-1] if words[0] in ("send", "receive") else self.operation


def create(folder: Path, ranks: int) -> None:
    """Make the file for so many ranks. It is written, so that a full disk is an OSError here and not a signal later."""
    (folder / FILE).write_bytes(bytes(PAGE * ranks))


class Heart:
    """The page of one rank, written by that rank."""

    def __init__(self, folder: Path, rank: int) -> None:
        with (folder / FILE).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._at = rank * PAGE
        # What the runner reads at any time is stored in one piece; struct writes byte by byte.
        self._clock = memoryview(self._memory).cast("d")
        self._words = memoryview(self._memory).cast("q")
        self._calls = 0
        self._streams: dict[int, tuple[int, int]] = {}
        self._step = -1
        self.step(-1)
        self._state(COMPUTING, b"")

    def step(self, number: int) -> None:
        self._step = number
        self._words[self._at // 8] = number

    def wait(self, operation: bytes) -> None:
        """The rank enters an operation that may wait for others."""
        self._state(WAITING, operation)

    def go_on(self) -> None:
        """The rank is out of it; the operation's name stays readable as the last one."""
        self._enter(COMPUTING)

    def lost(self) -> None:
        """The operation raised."""
        self._enter(RAISED)

    def end(self) -> None:
        """The script has come to its end."""
        self._enter(ENDED)

    def call(self, stream: bytes, operation: bytes, content: bytes) -> None:
        """The rank enters a collective (or one end of a pair) that others enter too, with the same content."""
        key = zlib.crc32(stream)
        number, history = self._streams.get(key, (0, 0))
        history = zlib.crc32(content, history)
        self._streams[key] = number + 1, history
        self._calls += 1
        place = self._at + _RING_AT + self._calls % RING * _CALL.size
        _CALL.pack_into(self._memory, place, self._calls, number, key, history, self._step, operation)
        self._words[(self._at + _COUNT_AT) // 8] = self._calls
        self._state(WAITING, operation)

    def _state(self, state: int, operation: bytes) -> None:
        at = self._at + _STATE_AT + _STATE.size - TEXT
        self._memory[at : at + TEXT] = operation[:TEXT].ljust(TEXT, b"\0")
        self._enter(state)

    def _enter(self, state: int) -> None:
        self._clock[(self._at + _STATE_AT + _SINCE_AT) // 8] = time.monotonic()
        self._memory[self._at + _STATE_AT] = state


class Hearts:
    """The pages of all ranks, read by the runner."""

    def __init__(self, folder: Path, ranks: int) -> None:
        with (folder / FILE).open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.ranks = ranks
        self._seen = [0] * ranks

    def now(self, rank: int) -> Now:
        (step,) = _STEP.unpack_from(self._memory, rank * PAGE)
        state, since, operation = _STATE.unpack_from(self._memory, rank * PAGE + _STATE_AT)
        since = since if math.isfinite(since) else 0.0  # a rank may have written anything here
        return Now(state=state, since=since, step=step if state != NOT_STARTED else -1, operation=_text(operation))

    def calls(self, rank: int) -> Iterator[Call]:
        """The calls since this was last asked; where more than the ring holds were made, its latest."""
        (count,) = _COUNT.unpack_from(self._memory, rank * PAGE + _COUNT_AT)
        for index in range(max(self._seen[rank], count - RING) + 1, count + 1):
            place = rank * PAGE + _RING_AT + index % RING * _CALL.size
            written, number, stream, history, step, operation = _CALL.unpack_from(self._memory, place)
            (made,) = _COUNT.unpack_from(self._memory, rank * PAGE + _COUNT_AT)
            if written == index and made - index < RING - 1:
                yield Call(stream=stream, number=number, history=history, step=step, operation=_text(operation))
        self._seen[rank] = count

    def close(self) -> None:
        self._memory.close()


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")
