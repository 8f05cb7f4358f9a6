"""A sandbox for one submission: no network, no files but the course's labs, and an end to time, memory, processes and
output. Nothing of it survives.

bubblewrap makes it, as root or as an ordinary user: namespaces of its own for users, processes, network, host name and
messages; everything read-only but a small folder in memory. Ranks refuse themselves new processes before a student's
code runs (`labs.exercises.confined`); a watcher outside counts memory and processes of the whole tree and ends it.
What comes out is bytes on a pipe, never a file on this machine.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, get_args

from labs.runner import RankFailed, Run
from labs.runner.results import Folder, Kind, RankResult, read_value
from shardwise.classroom import cell, processes
from translations import SOURCE, CourseError, translator

ROOT = Path(__file__).resolve().parent.parent.parent
COURSE = "/course"
"""Where the course's own packages lie in the sandbox."""
CELL = f"{COURSE}/cell.py"
PACKAGES = ("labs", "translations")
HIDDEN = ("solution.py", "faded.py", "broken.py")
"""What an exercise's folder holds and no submission may read."""
ETC = {"hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n", "nsswitch.conf": "hosts: files\n"}
"""Files of /etc, so that a rank knows its own machine's name."""
HEAD = 8_000_000
"""Bytes of the line before the files of an answer."""
LOOK = 0.1
"""Seconds between two looks of the watcher."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one submission may use: wall seconds in all, bytes of memory of all processes together and of files in
    memory, processes, bytes that one case hands out.
    """

    seconds: float = 180.0
    memory: int = 4 * 2**30
    files: int = 256 * 2**20
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


class Sandbox:
    """One sandbox, from `with` to its end: `execute` runs one case of a check in it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: set[str] = set()
        self._came = bytearray()
        self._ended: str | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if (missing := unavailable()) is not None:
            raise missing
        self._places = TemporaryDirectory(prefix="shardwise-sandbox-", ignore_cleanup_errors=True)
        place = Path(self._places.name)
        self._process = subprocess.Popen(
            [*_walls(self.limits, place=place), sys.executable, CELL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._deadline = time.monotonic() + self.limits.seconds
        self._watcher = threading.Thread(target=self._watch, name="sandbox", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._process is not None:
            self._kill()
            self._watcher.join()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # what was not written yet has no reader any more
                    pipe.close()  # type: ignore[union-attr]
        self._places.cleanup()

    def execute(
        self, exercise: str, file: Path, number: int, *, ranks: int, seed: int, timeout: float, patience: float
    ) -> Run:
        """As `labs.exercises.checking.Execute`. Raises Broken where the sandbox came to its end."""
        order: dict[str, Any] = {
            "exercise": exercise,
            "name": file.name,
            "number": number,
            "ranks": ranks,
            "seed": seed,
            "timeout": timeout,
            "patience": patience,
        }
        if file.name not in self._sent:
            source = file.read_text(encoding="utf-8", errors="surrogateescape")
            order |= {"source": source, "memory": self.limits.address_space}
            self._sent.add(file.name)
        begun = time.monotonic()
        self._send(json.dumps(order).encode() + b"\n")
        head = self._head()
        outputs = tuple(str(each) for each in head["outputs"][:ranks]) + ("",) * (ranks - len(head["outputs"]))
        if head["failed"] is not None:
            raise _failed(head["failed"], outputs, inside=str(cell.FILE / file.name), outside=str(file), ranks=ranks)
        folder = Folder(Path(self._places.name) / f"case-{number}", temporary=False)
        folder.path.mkdir(exist_ok=True)
        self._take(head["files"], folder.path, ranks)
        results = tuple(
            RankResult(rank=rank, value=read_value(folder.path, rank), output=outputs[rank], _folder=folder)
            for rank in range(ranks)
        )
        return Run(ranks=results, seconds=time.monotonic() - begun, _folder=folder)

    # --- the pipe

    def _send(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
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
            head = json.loads(line)
            assert isinstance(head["outputs"], list)
            assert isinstance(head["files"], list)
            return {"outputs": head["outputs"], "files": head["files"], "failed": head["failed"]}
        except (ValueError, LookupError, TypeError, AssertionError, RecursionError):
            raise self._broken("forged") from None

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
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            raise self._broken("time")
        came = os.read(pipe, 1 << 20)
        if not came:
            raise self._broken()
        self._came += came

    def _broken(self, limit: str = "ended") -> Broken:
        """The sandbox is over; the limit that the watcher saw says more than that it ended."""
        self._kill()
        self._watcher.join()
        return Broken(self._ended or limit)

    # --- the end

    def _watch(self) -> None:
        """Ends the sandbox when its time, memory or number of processes is used up."""
        assert self._process is not None
        while not self._over.wait(LOOK) and self._process.poll() is None:
            tree = tuple(processes.descendants(self._process.pid))
            if time.monotonic() > self._deadline:
                self._ended = "time"
            elif len(tree) > self.limits.processes:
                self._ended = "processes"
            elif sum(processes.memory(each) for each in tree) > self.limits.memory:
                self._ended = "memory"
            if self._ended is not None:
                break
        self._kill()

    def _kill(self) -> None:
        """bubblewrap is the first process of the namespace: with it all others end."""
        assert self._process is not None
        self._over.set()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


def _failed(told: Any, outputs: tuple[str, ...], *, inside: str, outside: str, ranks: int) -> CourseError:
    """The error that the runner in the sandbox raised, as far as what was told can be one; else Broken."""
    try:
        id, values = str(told["id"]), {str(key): each for key, each in dict(told["values"]).items()}
        CourseError(id, **values).in_language(translator(SOURCE))
        if "kind" not in told:
            return CourseError(id, **values)
        kind = told["kind"]
        rank = int(told["failed_rank"])
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


@functools.cache
def unavailable() -> CourseError | None:
    """Why no sandbox can be made on this machine; None where one can. Tried, not guessed."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return CourseError("shardwise.sandbox-no-bubblewrap")
    with TemporaryDirectory(prefix="shardwise-sandbox-") as folder:
        command = [*_walls(Limits(), place=Path(folder)), sys.executable, "-c", TRIAL]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return CourseError("shardwise.sandbox-refused", detail=str(error))
    if tried.returncode != 0:
        return CourseError("shardwise.sandbox-refused", detail=tried.stderr.strip()[-500:])
    return None


TRIAL = "from labs.exercises.confined import confine; confine()"


def _walls(limits: Limits, *, place: Path) -> list[str]:
    """bubblewrap's own arguments. Python and the labs can be read; the shipped solutions are empty files.

    `place` is a folder of this sandbox's own for what is shown in place of the machine's files.
    """
    walls = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    walls += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    for system in map(Path, ("/usr", "/lib", "/lib64", "/bin")):
        if system.is_symlink():
            walls += ["--symlink", str(system.readlink()), str(system)]
        elif system.exists():
            walls += _shown(system)
    walls += ["--proc", "/proc", "--dev", "/dev"]
    for memory in ("/dev/shm", "/tmp"):  # before what is shown, which may lie below them on this machine
        walls += ["--size", str(limits.files), "--tmpfs", memory]
    for python in dict.fromkeys((sys.base_prefix, sys.prefix)):
        walls += [] if python == "/usr" else _shown(python)
    for package in PACKAGES:
        walls += _shown(ROOT / package, f"{COURSE}/{package}")
    for name, text in {"empty": "", **ETC}.items():
        (place / name).write_text(text, encoding="ascii")
    for name in ETC:
        walls += _shown(place / name, f"/etc/{name}")
    exercises = ROOT / "labs" / "exercises"
    for hidden in sorted(each for name in HIDDEN for each in exercises.glob(f"*/{name}")):
        walls += _shown(place / "empty", f"{COURSE}/{hidden.relative_to(ROOT)}")
    walls += _shown(Path(cell.__file__), CELL)
    for variable, value in _environment().items():
        walls += ["--setenv", variable, value]
    return [*walls, "--chdir", "/tmp", "--remount-ro", "/"]


def _shown(outside: Path | str, inside: Path | str | None = None) -> list[str]:
    """A file or folder that can be read in the sandbox."""
    return ["--ro-bind", str(outside), str(inside or outside)]


def _environment() -> dict[str, str]:
    return {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": COURSE,
    }
