"""The processes below one process, and what they use together, out of /proc. Nothing that they say is believed: all is
the kernel's own count.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _THREADS = 1, 11, 17
"""Fields of a stat line behind the process's name: four of time begin at the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What some processes use: how many they are, their threads, bytes of memory, and CPU seconds, with those of their
    children that have ended.
    """

    processes: int = 0
    threads: int = 0
    memory: int = 0
    cpu: float = 0.0


def descendants(top: int) -> Iterator[int]:
    """The ids of the children of a process, of their children and so on; without itself."""
    below = defaultdict[int, list[int]](list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            below[int(stat[_PARENT])].append(int(entry.name))
    waiting = list(below[top])
    while waiting:
        one = waiting.pop()
        yield one
        waiting += below[one]


def use(pids: Iterable[int], *, bound: int) -> Use:
    """What these use. What they hold in common counts once, but is taken apart only where it would matter: below
    `bound` bytes each one's whole memory is added up, which is quick and never too little.
    """
    pids = tuple(pids)
    stats = [stat for each in pids if (stat := _stat(each))]
    most = sum(resident(each) for each in pids)
    return Use(
        processes=len(pids),
        threads=sum(int(stat[_THREADS]) for stat in stats),
        memory=most if most <= bound else sum(memory(each) for each in pids),
        cpu=sum(int(each) for stat in stats for each in stat[_USER : _USER + 4]) / _TICK,
    )


def computed(pid: int) -> float:
    """CPU seconds of a process itself, without those of its children; 0 where it is gone."""
    stat = _stat(pid)
    return sum(int(each) for each in stat[_USER : _USER + 2]) / _TICK if stat else 0.0


def memory(pid: int) -> int:
    """Bytes that a process takes, its share of what it shares; all of that where it lets nobody look; 0 if gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return resident(pid)


def resident(pid: int) -> int:
    """Bytes that a process takes, with all that it shares; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


def held(pid: int, folders: Iterable[str], *, sign: str) -> tuple[int, int]:
    """Bytes and files in folders in memory, as a process sees them. None where it sees no file `sign`: then it is not
    yet in the sandbox, or gone, and what lies there is another's.
    """
    root = f"/proc/{pid}/root"
    size = files = 0
    for folder in folders:
        try:
            os.stat(root + sign)  # noqa: PTH116 - what Path asks, it raises for where nobody may look
            found = os.statvfs(root + folder)
        except OSError:
            continue
        size += (found.f_blocks - found.f_bfree) * found.f_frsize
        files += found.f_files - found.f_ffree
    return size, files


def _stat(pid: int) -> list[bytes]:
    """The fields of a process's stat line behind its name, which may hold anything; none where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as opened:  # noqa: PTH123 - of all processes, ten times a second
            return opened.read().rpartition(b")")[2].split()
    except OSError:
        return []
