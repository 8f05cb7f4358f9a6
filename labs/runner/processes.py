"""What the runner asks of the operating system about processes: always by id, never by name."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

OWNER = "SHARDWISE_OWNER"
"""The environment variable that marks everything one process's runner starts."""

CONFINED = "SHARDWISE_CONFINED"
"""Set where a stranger's code runs in ranks: what leads them then closes itself to them."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


MODULE = ("-P", "-m")
"""How a helper process starts: never with the learner's folder on the path, where a file may be named like a module."""


def with_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, in which the course's own packages are found from any folder."""
    root = str(Path(__file__).parents[2])
    before = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": root + (os.pathsep + before if before else "")}


def die_with(parent: int, *, lifeline: int) -> None:
    """This process is killed when its parent is gone, even by SIGKILL. ``lifeline``: a pipe that the parent holds."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    else:
        die_at_end(lifeline)


def close_to_others() -> None:
    """No other process of the same user reads or writes this one's memory and open files from now on, nor those of its
    copies. Linux.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_at_end(lifeline: int) -> None:
    """This process and its group are killed when the other end of the pipe is closed, by whatever cause."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(lifeline, 1)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


@contextlib.contextmanager
def only_while(wanted: Callable[[], bool], *, otherwise: Callable[[], None]) -> Iterator[None]:
    """Around something that may take long and looks at nothing: once it is no longer wanted, clean up and end."""

    def look(_signal: int, _frame: object) -> None:
        if not wanted():
            otherwise()
            os._exit(1)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_there(parent: int, channel: socket.socket) -> bool:
    """Whether the process that started this one lives, and holds the other end of the channel."""
    try:
        return os.getppid() == parent and channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def adopt_orphans() -> None:
    """Processes that descendants leave behind become children of this one, so that `children` finds them. Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """The ids of this process's children. Linux; empty elsewhere."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state = entry.read_text(errors="replace").rpartition(")")[2].split()
            if int(state[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def end(pid: int) -> None:
    """Kill a process that nobody waited for yet, with its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)


def end_tree(pid: int) -> None:
    """Kill a process that cannot end its descendants itself, and them with their groups."""
    import psutil

    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(pid).children(recursive=True)
    for each in (pid, *(each.pid for each in below)):
        end(each)


def end_children(*, within: float) -> None:
    """Kill and reap every child, adopted ones included, until none is left or the time is over."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        except ChildProcessError:
            return
        for pid in children():
            end(pid)
        time.sleep(0.01)


def there(pid: int) -> bool:
    """Whether there is a process with that id that has not ended."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked(owner: str) -> tuple[int, ...]:
    """The ids of all live processes that carry this owner's mark in the environment they were started with."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(OWNER) == owner and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return tuple(found)


def loopback() -> str:
    """The name of the network interface that never leaves this machine."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), names[0] if names else "lo")


def readable(sockets: list[socket.socket], timeout: float) -> list[socket.socket]:
    """Those that can be read from. Unlike select, for any number of open files."""
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(timeout) if isinstance(key.fileobj, socket.socket)]
