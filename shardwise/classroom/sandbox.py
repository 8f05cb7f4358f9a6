"""A sandbox for one submission: no network, no files but the course's labs, and an end to time, memory, processes and
output. Nothing of it survives.

bubblewrap makes it (`walls`), as root or as an ordinary user. Ranks refuse themselves new processes before a student's
code runs (`labs.exercises.confined`); a watcher outside counts memory and processes of the whole tree and ends it. What
comes out is bytes on a pipe, never a file on this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, get_args

from labs.runner import RankFailed, Run
from labs.runner.results import Folder, Kind, RankResult, read_value
from shardwise.classroom import cell, processes, walls
from translations import SOURCE, CourseError, translator

HEAD = 8_000_000
"""Bytes of the line before the files of an answer."""
LOOK = 0.1
"""Seconds between two looks of the watcher."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one submission may use: wall seconds in all, bytes of memory of all its processes together, processes, and
    bytes that one case hands out.
    """

    seconds: float = 180.0
    memory: int = 4 * 2**30
    processes: int = 40
    handed_out: int = 64 * 2**20

    @property
    def address_space(self) -> int:
        """What one process may map: torch maps some GB that it never touches."""
        return 2 * self.memory


class Broken(CourseError):
    """The sandbox ended before it answered: a limit was reached (`limit` names it), or the code inside ended it."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"shardwise.sandbox-{limit}")
        self.limit = limit


@contextlib.contextmanager
def sandbox(limits: Limits | None = None) -> Iterator[Sandbox]:
    """A sandbox for as long as the block lasts. Raises CourseError where none can be made."""
    if (missing := walls.unavailable()) is not None:
        raise missing
    limits = limits or Limits()
    with TemporaryDirectory(prefix="shardwise-sandbox-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        process = subprocess.Popen(
            [*walls.walls(place=place), sys.executable, walls.CELL, str(limits.address_space)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        box = Sandbox(process, process.stdin, process.stdout, limits=limits, place=place)
        try:
            yield box
        finally:
            box.end()


class Sandbox:
    """A sandbox that runs: `execute` runs one case of a check in it. Made by `sandbox`."""

    def __init__(
        self, process: subprocess.Popen[bytes], orders: IO[bytes], answers: IO[bytes], *, limits: Limits, place: Path
    ) -> None:
        self.limits = limits
        self._process, self._orders, self._answers, self._place = process, orders, answers, place
        self._deadline = time.monotonic() + limits.seconds
        self._came = bytearray()
        self._limit: str | None = None
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="sandbox", daemon=True)
        self._watcher.start()

    def execute(
        self, exercise: str, file: Path, number: int, *, ranks: int, seed: int, timeout: float, patience: float
    ) -> Run:
        """As `labs.exercises.checking.Execute`. Raises Broken where the sandbox came to its end."""
        order = {
            "exercise": exercise,
            "name": file.name,
            "source": file.read_text(encoding="utf-8", errors="surrogateescape"),
            "number": number,
            "ranks": ranks,
            "seed": seed,
            "timeout": timeout,
            "patience": patience,
        }
        begun = time.monotonic()
        self._send(json.dumps(order).encode() + b"\n")
        head = self._head()
        outputs = tuple(str(each) for each in head["outputs"][:ranks]) + ("",) * (ranks - len(head["outputs"]))
        if head["failed"] is not None:
            raise _failed(head["failed"], outputs, inside=str(cell.FOLDER / file.name), outside=str(file), ranks=ranks)
        folder = Folder(self._place / f"case-{number}", temporary=False)
        folder.path.mkdir(exist_ok=True)
        self._take(head["files"], folder.path, ranks)
        results = tuple(
            RankResult(rank=rank, value=read_value(folder.path, rank), output=outputs[rank], _folder=folder)
            for rank in range(ranks)
        )
        return Run(ranks=results, seconds=time.monotonic() - begun, _folder=folder)

    def end(self) -> None:
        """Leaves nothing of it. bubblewrap is the first process of the namespace: with it all others end."""
        self._over.set()
        self._process.kill()
        self._process.wait()
        self._watcher.join()
        for pipe in (self._orders, self._answers):
            with contextlib.suppress(OSError):  # what was not written yet has no reader any more
                pipe.close()

    # --- the pipe

    def _send(self, line: bytes) -> None:
        try:
            self._orders.write(line)
            self._orders.flush()
        except OSError:
            raise self._broken() from None

    def _head(self) -> Mapping[str, Any]:
        """The line before the files."""
        while b"\n" not in self._came:
            if len(self._came) > HEAD:
                raise self._broken("output")
            self._wait()
        line, _, rest = bytes(self._came).partition(b"\n")
        self._came = bytearray(rest)
        try:
            match json.loads(line):
                case {"outputs": list(outputs), "files": list(files), "failed": failed}:
                    return {"outputs": outputs, "files": files, "failed": failed}
        except (ValueError, RecursionError):
            pass
        raise self._broken("forged")

    def _take(self, files: Sequence[Any], folder: Path, ranks: int) -> None:
        """The files that follow the head: those of ranks and no others, and no more than may be handed out."""
        known = {f"rank-{rank}.{kind}" for rank in range(ranks) for kind in ("json", "safetensors")}
        left = self.limits.handed_out
        for each in files:
            match each:
                case [str(name), int(size)] if name in known and 0 <= size <= left:
                    known.remove(name)
                    left -= size
                    (folder / name).write_bytes(self._exactly(size))
                case _:
                    raise self._broken("output")

    def _exactly(self, size: int) -> bytes:
        while len(self._came) < size:
            self._wait()
        taken = bytes(self._came[:size])
        del self._came[:size]
        return taken

    def _wait(self) -> None:
        """Until something comes. Raises Broken at the end, whatever brought it."""
        pipe = self._answers.fileno()
        if not select.select([pipe], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            raise self._broken("time")
        came = os.read(pipe, 1 << 20)
        if not came:
            raise self._broken()
        self._came += came

    def _broken(self, limit: str = "ended") -> Broken:
        """The sandbox is over; the limit that the watcher saw says more than that it ended."""
        self._process.kill()
        self._watcher.join()
        return Broken(self._limit or limit)

    # --- the watcher

    def _watch(self) -> None:
        """Ends the sandbox when its time, memory or number of processes is used up."""
        while not self._over.wait(LOOK) and self._process.poll() is None:
            self._limit = self._reached()
            if self._limit is not None:
                self._process.kill()
                return

    def _reached(self) -> str | None:
        """The limit that the whole tree of processes has reached, if any."""
        tree = tuple(processes.descendants(self._process.pid))
        if time.monotonic() > self._deadline:
            return "time"
        if len(tree) > self.limits.processes:
            return "processes"
        return "memory" if sum(processes.memory(each) for each in tree) > self.limits.memory else None


def _failed(told: Any, outputs: tuple[str, ...], *, inside: str, outside: str, ranks: int) -> CourseError:
    """The error that the runner in the sandbox raised, as far as what was told can be one; else Broken."""
    try:
        id, values = str(told["id"]), {str(key): each for key, each in dict(told["values"]).items()}
        CourseError(id, **values).in_language(translator(SOURCE))
        if "kind" not in told:
            return CourseError(id, **values)
        kind, rank = told["kind"], int(told["failed_rank"])
        if kind not in get_args(Kind) or not 0 <= rank < ranks:
            return Broken("forged")
        return RankFailed(
            id,
            kind=kind,
            failed_rank=rank,
            failed_operation=str(told["failed_operation"]),
            failed_step=int(told["failed_step"]),
            rank_traceback=str(told["rank_traceback"]).replace(inside, outside),
            full_traceback=str(told["full_traceback"]).replace(inside, outside),
            outputs=outputs,
            **values,
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return Broken("forged")
