"""A sandbox for one submission: no network, no files but the course's labs, and an end to time, CPU time, memory,
processes, threads, files and output. Nothing of it survives.

bubblewrap or an OCI runtime makes it (`walls`), as root or as an ordinary user. Ranks refuse themselves new processes
before a student's code runs (`labs.exercises.confined`); a watcher outside counts what the whole tree of processes uses
and ends it. What comes out is bytes on a pipe, never a file on this machine, and texts are made visible before anything
else sees them.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from labs.runner import RankFailed, Run
from labs.runner.results import Folder, Kind, RankResult, read_value
from shardwise.classroom import cell, processes, walls
from shardwise.classroom.interior import CELL, SOMEBODY, WRITABLE
from shardwise.classroom.visible import visible, visible_json
from translations import SOURCE, CourseError, translator

HEAD = 8_000_000
"""Bytes of the line before the files of an answer."""
LOOK = 0.1
"""Seconds between two looks of the watcher."""
PRINTED = 1_100_000
"""Characters of what one rank printed."""
TEXT = 2_000
"""Characters of one text in a rank's report: it may be told to the student."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one submission may use: wall and CPU seconds in all, bytes of memory of all its processes and files
    together, processes, threads, files, and bytes that one case hands out.
    """

    seconds: float = 180.0
    cpu: float = 300.0
    memory: int = 4 * 2**30
    processes: int = 40
    threads: int = 1_000
    files: int = 20_000
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
def sandbox(limits: Limits | None = None, *, by: str | None = None) -> Iterator[Sandbox]:
    """A sandbox for as long as the block lasts, by the backend of this name or the first that works.

    Raises CourseError where none can be made.
    """
    if (missing := walls.unavailable(by)) is not None:
        raise missing
    limits = limits or Limits()
    with TemporaryDirectory(prefix="shardwise-sandbox-", ignore_cleanup_errors=True) as folder:
        box = Sandbox(walls.backend(by), limits=limits, place=Path(folder))
        try:
            yield box
        finally:
            box.end()


class Sandbox:
    """A sandbox that runs: `execute` runs one case of a check in it. Made by `sandbox`."""

    def __init__(self, by: walls.Backend, *, limits: Limits, place: Path) -> None:
        self.limits = limits
        self._by, self._place = by, place
        program = walls.cell_command(str(limits.address_space), str(math.ceil(limits.cpu)), str(SOMEBODY))
        self._process = walls.started(by, place, program)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
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
        outputs = tuple(visible(str(each), longest=PRINTED) for each in head["outputs"][:ranks])
        outputs += ("",) * (ranks - len(outputs))
        if head["failed"] is not None:
            raise _failed(head["failed"], outputs, inside=str(cell.FOLDER / file.name), outside=str(file), ranks=ranks)
        folder = Folder(self._place / f"case-{number}", temporary=False)
        folder.path.mkdir(exist_ok=True)
        self._take(head["files"], folder.path, ranks)
        results = tuple(
            RankResult(rank=rank, value=_value(folder.path, rank), output=outputs[rank], _folder=folder)
            for rank in range(ranks)
        )
        return Run(ranks=results, seconds=time.monotonic() - begun, _folder=folder)

    def end(self) -> None:
        """Leaves nothing of it."""
        self._over.set()
        self._watcher.join()
        self._by.end(self._process)
        for pipe in (self._orders, self._answers):
            with contextlib.suppress(OSError):  # what was not written yet has no reader any more
                pipe.close()

    # --- the pipe

    def _send(self, line: bytes) -> None:
        try:
            self._orders.write(line)
            self._orders.flush()
        except (OSError, ValueError):  # it is closed where the sandbox was ended
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
        self._over.set()
        self._watcher.join()
        self._by.end(self._process)
        return Broken(self._limit or limit)

    # --- the watcher

    def _watch(self) -> None:
        """Ends the sandbox when something of it is used up, or nobody could say any more whether it is."""
        try:
            while not self._over.wait(LOOK) and self._process.poll() is None:
                self._limit = self._reached()
                if self._limit is not None:
                    break
        finally:
            if not self._over.is_set():
                self._by.end(self._process)

    def _reached(self) -> str | None:
        """The limit that the whole tree of processes has reached, if any."""
        if time.monotonic() > self._deadline:
            return "time"
        tree = tuple(processes.descendants(self._process.pid))
        size, files = max((processes.held(each, WRITABLE, sign=CELL) for each in tree[:2]), default=(0, 0))
        used = processes.use(tree, bound=self.limits.memory - size)
        reached = {
            "processes": used.processes > self.limits.processes,
            "threads": used.threads > self.limits.threads,
            "files": files > self.limits.files,
            "memory": used.memory + size > self.limits.memory,
            "cpu": used.cpu > self.limits.cpu,
        }
        return next((name for name, over in reached.items() if over), None)


def _value(folder: Path, rank: int) -> Any:
    """The JSON that a rank left, its texts made visible."""
    try:
        return visible_json(read_value(folder, rank), longest=TEXT)
    except RecursionError as error:
        raise CourseError("labs.report-broken", rank=rank, detail=error) from error


def _failed(told: Any, outputs: tuple[str, ...], *, inside: str, outside: str, ranks: int) -> CourseError:
    """The error that the runner in the sandbox raised, as far as what was told can be one; else Broken."""
    try:
        told = visible_json(told)
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
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return Broken("forged")
