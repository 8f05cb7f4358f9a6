"""The asking side: from ``run()`` to its result, in the notebook's kernel or the command line's process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import translations
from labs.runner import diagnosis, heartbeat, processes
from labs.runner.plan import Plan
from labs.runner.results import RankResult, Run, make_folder, read_value

StartMethod = Literal["forkserver", "spawn"]

RANKS_LIMIT = 64
_START_LIMIT = 120.0
_END_LIMIT = 10.0
_SILENCE_LIMIT = 30.0
"""Seconds without a word from a leader, which says something every second, after which it counts as stopped."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

OnOutput = Callable[[int, str], None]


def run(
    script: Path | str,
    *,
    ranks: int = 4,
    arguments: Sequence[str] = (),
    timeout: float = 60.0,
    patience: float = 20.0,
    on_output: OnOutput | None = None,
    on_tick: Callable[[Path], None] | None = None,
    folder: Path | None = None,
    name: str = "cell",
    start_method: StartMethod | None = None,
    python: Path | None = None,
) -> Run:
    """Run an ordinary torchrun script on ``ranks`` ranks of this machine, and wait for it.

    ``script`` is a file, or source text that tracebacks call ``name``. ``on_output(rank, line)`` gets each line as it
    comes and ``on_tick(folder)`` is called several times a second, both in the calling thread. A run that takes longer
    than ``timeout`` seconds, or in which a rank waits in one operation for longer than ``patience``, is ended.
    ``python`` is the interpreter of the ranks, where it is not this process's own.

    Raises RankFailed where a rank broke the run and CourseError where it could not begin. However it ends, no rank is
    left.
    """
    if not 1 <= ranks <= RANKS_LIMIT:
        raise translations.CourseError("labs.ranks-out-of-range", ranks=ranks, limit=RANKS_LIMIT)
    if isinstance(script, Path) and not script.is_file():
        raise translations.CourseError("labs.no-script", path=script)
    try:
        place = make_folder(folder)
        if isinstance(script, str):
            path = place.path / "script.py"
            path.write_text(script, encoding="utf-8", errors="surrogatepass")
        else:
            path, name = script.resolve(), str(script)
        heartbeat.create(place.path, ranks)
        cwd = str(Path.cwd())
    except OSError as error:
        raise translations.CourseError("labs.no-run-folder", detail=error) from error
    plan = Plan(
        script=str(path),
        name=name,
        arguments=[str(each) for each in arguments],
        ranks=ranks,
        folder=str(place.path),
        temporary=place.temporary,
        cwd=cwd,
        timeout=timeout,
        patience=patience,
        environment={**os.environ, processes.OWNER: _servers.owner},
    )
    begun = time.monotonic()
    asked = _Asked(plan, start_method or default_method(), python=str(python or sys.executable))
    over = asked.follow(on_output, on_tick)
    outputs = tuple("".join(line + "\n" for line in lines) for lines in asked.lines)
    failed = diagnosis.diagnose(plan, over, outputs)
    if failed is not None:
        raise failed
    results = [
        RankResult(
            rank=rank,
            value=read_value(place.path, rank),
            output=outputs[rank],
            dropped=over.dropped[rank],
            _folder=place,
        )
        for rank in range(ranks)
    ]
    return Run(ranks=tuple(results), seconds=time.monotonic() - begun, _folder=place)


def default_method() -> StartMethod:
    """Copies of a warm process where that is known to be safe; on macOS system libraries forbid it."""
    return "forkserver" if sys.platform == "linux" else "spawn"


def warm_up() -> None:
    """Start the server in the background, so that the first run is as quick as the others. Returns at once.

    Where it cannot start nothing is said: the first run will.
    """
    if default_method() == "forkserver":
        threading.Thread(target=_servers.warm_up, name="warm-up", daemon=True).start()


def shut_down() -> None:
    """End the servers, and with them every run that is under way. The next run starts another."""
    _servers.end()


def survivors(owner: str | None = None) -> tuple[int, ...]:
    """The ids of the live processes that a process's runner started, found by the mark in their environment.

    Without ``owner``, this process's, but for the idle servers. A test marks another process by starting it with
    ``SHARDWISE_OWNER`` in its environment.
    """
    if owner is not None:
        return tuple(each for each in processes.marked(owner) if each != os.getpid())
    return tuple(each for each in processes.marked(_servers.owner) if each not in (os.getpid(), *_servers.pids))


class _Asked:
    """One run, as the asking process sees it.

    A thread of its own talks with the leader, so that an interrupt, which only the main thread gets, can strike nowhere
    in between; the calling thread waits for what the thread puts into a queue.
    """

    def __init__(self, plan: Plan, method: StartMethod, *, python: str) -> None:
        self.lines: list[list[str]] = [[] for _ in range(plan.ranks)]
        self._plan = plan
        self._method = method
        self._python = python
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._done = threading.Event()
        self._wake, self._woken = _pair()

    def follow(self, on_output: OnOutput | None, on_tick: Callable[[Path], None] | None) -> diagnosis.Over:
        """Until the run is over and none of its processes is left."""
        thread = threading.Thread(target=self._talk, name="runner", daemon=True)
        try:
            thread.start()
            return self._take(on_output, on_tick)
        finally:
            self._cancel(thread)

    def _take(self, on_output: OnOutput | None, on_tick: Callable[[Path], None] | None) -> diagnosis.Over:
        while True:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=0.1)
                match event.pop("event"):
                    case "output":
                        rank, lines = event["rank"], event["lines"]
                        self.lines[rank] += lines
                        for line in lines if on_output else ():
                            on_output(rank, line)  # type: ignore[misc]
                    case "over":
                        if on_tick:
                            on_tick(self._plan.path)
                        if event["why"] == "cancelled":
                            raise translations.CourseError("labs.runner-ended")
                        return diagnosis.Over.from_event(event)
                    case "failed":
                        raise translations.CourseError("labs.runner-failed", detail=event["detail"])
                    case "lost":
                        raise translations.CourseError("labs.runner-ended")
                    case _:
                        continue
                continue
            if on_tick:
                on_tick(self._plan.path)

    def _cancel(self, thread: threading.Thread) -> None:
        """See to it that the thread ends the run, even if the learner interrupts this too."""
        until = time.monotonic() + _END_LIMIT
        interrupted: BaseException | None = None
        while True:
            try:
                self._cancelled.set()
                with contextlib.suppress(OSError):
                    self._wake.send(b"x")
                while thread.ident is not None and not self._done.is_set() and time.monotonic() < until:
                    self._done.wait(0.1)
                break
            except KeyboardInterrupt as again:
                interrupted = again
        self._wake.close()
        if thread.ident is None or self._done.is_set():
            self._woken.close()
        if interrupted is not None:
            raise interrupted

    def _talk(self) -> None:
        try:
            self._talk_with_leader()
        except Exception as error:
            self._events.put({"event": "failed", "detail": f"{type(error).__name__}: {error}"})
        finally:
            self._done.set()

    def _talk_with_leader(self) -> None:
        if self._cancelled.is_set():
            return
        forks = self._method == "forkserver"
        leader = _servers.ask(self._python) if forks else _spawn_leader(self._plan, python=self._python)
        with contextlib.closing(leader):
            leader.channel.sendall(self._plan.to_json().encode() + b"\n")
            if not self._pass_events(leader):
                leader.channel.shutdown(socket.SHUT_WR)
                # One that has not begun yet will see that it need not.
                leader.channel.settimeout(_END_LIMIT if leader.has_begun else 1.0)
                try:
                    while leader.channel.recv(65536):
                        pass
                except TimeoutError:
                    leader.kill()
                except OSError:
                    pass

    def _pass_events(self, leader: _Leader) -> bool:
        """Put the leader's events into the queue to the last. False where the run was cancelled before."""
        unread = b""
        heard = time.monotonic()
        while True:
            ready = processes.readable([leader.channel, self._woken], 1.0)
            if self._cancelled.is_set():
                return False
            if leader.channel not in ready:
                silent = time.monotonic() - heard
                if leader.has_begun and silent > _SILENCE_LIMIT:
                    leader.kill()  # a rank stopped it, so that it ends nothing itself
                    self._events.put({"event": "lost"})
                    return True
                if not leader.has_begun and silent > _START_LIMIT:
                    complaint = leader.complaint()
                    if self._method == "forkserver":
                        _servers.end(self._python)  # it may be stopped, too
                    raise TimeoutError(complaint)
                continue
            heard = time.monotonic()
            data = leader.channel.recv(1 << 20)
            if not data and leader.has_begun:
                self._events.put({"event": "lost"})
                return True
            if not data:
                raise ConnectionError(leader.complaint())
            *whole, unread = (unread + data).split(b"\n")
            for each in whole:
                event = json.loads(each)
                if event["event"] == "leading":
                    leader.pid = event["pid"]
                if event["event"] in ("over", "failed"):
                    # Its last word; the channel closes when it has ended, and every rank before it.
                    with contextlib.suppress(OSError):
                        leader.channel.settimeout(_END_LIMIT)
                        leader.channel.recv(1)
                    self._events.put(event)
                    return True
                self._events.put(event)


@dataclass(kw_only=True)
class _Leader:
    """The channel to the process that leads a run."""

    channel: socket.socket
    log: Path
    pid: int | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has told its id, which it does first."""
        return self.pid is not None

    def kill(self) -> None:
        """End it with all its ranks, where it lives, as its open channel shows, but does not do that itself."""
        if self.pid is not None:
            processes.end_tree(self.pid)

    def complaint(self) -> str:
        """The last that the process, or the server it is a copy of, printed."""
        with contextlib.suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        return ""

    def close(self) -> None:
        self.channel.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_LIMIT)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.log.unlink(missing_ok=True)


class _Server:
    """A fork server that this process started, of one interpreter."""

    def __init__(self, owner: str, *, python: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="shardwise-server-"))
        self._log = self._folder / "log"
        self._control, theirs = _pair()
        with theirs, self._log.open("wb") as log:
            told = (theirs, str(self._folder))
            self.process = _helper("labs.runner.server", told, log=log, owner=owner, python=python)
        self._end = weakref.finalize(self, _Server._close, self._control, self.process, self._folder, os.getpid())

    def ask(self) -> _Leader:
        """A copy of the server that waits for a plan."""
        ours, theirs = _pair()
        with theirs:
            socket.send_fds(self._control, [b"r"], [theirs.fileno()])
        return _Leader(channel=ours, log=self._log)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self._end()

    @staticmethod
    def _close(control: socket.socket, process: subprocess.Popen[bytes], folder: Path, starter: int) -> None:
        if os.getpid() != starter:
            return
        control.close()
        try:
            process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


class _Servers:
    """The servers of this process, one for each interpreter that it has run ranks with."""

    def __init__(self) -> None:
        self.owner = os.environ.get(processes.OWNER) or uuid.uuid4().hex
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}

    def get(self, python: str) -> _Server:
        with self._lock:
            server = self._servers.get(python)
            if server is None or not server.alive:
                server = self._servers[python] = _Server(self.owner, python=python)
            return server

    def ask(self, python: str) -> _Leader:
        """A leader from the interpreter's server; from a new one, if the old was ended by someone else."""
        try:
            return self.get(python).ask()
        except OSError:
            self.end(python)
            return self.get(python).ask()

    def warm_up(self) -> None:
        with contextlib.suppress(OSError):
            self.get(sys.executable)

    def end(self, python: str | None = None) -> None:
        """End the server of one interpreter, or all of them."""
        with self._lock:
            ended = [self._servers.pop(each) for each in list(self._servers) if python in (None, each)]
        for server in ended:
            server.end()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(each.process.pid for each in self._servers.values())


_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_servers = _Servers()


def _in_a_copy() -> None:
    """A process that this one forks has no part in its runs, and must not keep their channels open."""
    global _servers
    for each in _open:
        each.close()
    _servers = _Servers()


os.register_at_fork(after_in_child=_in_a_copy)


def _pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    for each in pair:
        _open.add(each)
    return pair


def _spawn_leader(plan: Plan, *, python: str) -> _Leader:
    """A leader that is a process of its own, whose ranks are too."""
    ours, theirs = _pair()
    file = plan.path / "leader.log"
    with theirs, file.open("wb") as log:
        process = _helper("labs.runner.leader", [theirs], log=log, owner=_servers.owner, python=python)
    return _Leader(channel=ours, log=file, process=process)


def _helper(
    module: str, arguments: Sequence[socket.socket | str], *, log: BinaryIO, owner: str, python: str
) -> subprocess.Popen[bytes]:
    """Start a process of the runner, in a session of its own, so that the terminal's interrupt does not reach it."""
    sockets = [each.fileno() for each in arguments if isinstance(each, socket.socket)]
    told = [str(each.fileno()) if isinstance(each, socket.socket) else each for each in arguments]
    return subprocess.Popen(
        [python, *processes.MODULE, module, str(os.getpid()), *told],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=processes.with_path({**os.environ, processes.OWNER: owner, **_ONE_THREAD}),
        start_new_session=True,
        pass_fds=sockets,
    )
