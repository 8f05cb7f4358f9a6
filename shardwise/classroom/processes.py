"""The processes below one process, and the memory that each takes, out of /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(top: int) -> Iterator[int]:
    """The ids of the children of a process, of their children and so on; without itself."""
    below = defaultdict[int, list[int]](list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            below[int(stat.rpartition(")")[2].split()[1])].append(int(entry.name))
    waiting = list(below[top])
    while waiting:
        one = waiting.pop()
        yield one
        waiting += below[one]


def memory(pid: int) -> int:
    """Bytes that a process takes, its share of what it shares; 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE
    except (OSError, ValueError):
        return 0
