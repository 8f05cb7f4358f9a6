"""What runs in the sandbox beside the ranks: it takes orders on its input, one a line, runs a case, and hands out what
the ranks left.

`python cell.py BYTES SECONDS USER`, with `labs` on the path and nothing else of the course; BYTES is what each process
may map, SECONDS what it may compute, USER who it becomes where it begins as root. It ends, and all in the sandbox with
it, when nobody holds the other end of its input any more. An order is JSON: the student's file, exercise, number of the
case, ranks, seed, timeout, patience. An answer is one line of JSON and after it the files that it names, byte for byte.
What is sent from here may be forged by the code that ran: the reader believes nothing but the values, and compares
those.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from labs.exercises import confined
from labs.runner import RankFailed, processes, run, shut_down
from translations import CourseError

SCRIPT = Path(confined.__file__).parent / "in_rank.py"
"""What `labs.exercises.checking` has ranks run. Not asked of it: it imports torch, which only ranks need here."""
FOLDER = Path("/student")
"""Where the student's file lies in the sandbox."""


LEFT_OPEN = 512
"""Files that one process may hold open: each may keep memory that no count of processes sees."""
LARGEST = 256 * 2**20
"""Bytes of one file."""


def main() -> None:
    """Until the input ends."""
    confined.lose_root(int(sys.argv[3]))
    _limit(space=int(sys.argv[1]), seconds=int(sys.argv[2]))
    confined.harden()
    processes.close_to_others()
    threading.Thread(target=_end_with, args=(os.dup(0),), name="lifeline", daemon=True).start()
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _close_to_ranks()
    os.environ[confined.VARIABLE] = "1"
    for line in orders:
        _answer(json.loads(line), answers)
    shut_down()


def _limit(*, space: int, seconds: int) -> None:
    """What the kernel holds each process to, as root too; the watcher outside adds up all of them."""
    limits = {
        resource.RLIMIT_AS: space,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: LARGEST,
        resource.RLIMIT_NOFILE: LEFT_OPEN,
    }
    for each, limit in limits.items():
        most = resource.getrlimit(each)[1]
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(each, (limit, limit))
    with contextlib.suppress(OSError):  # if this machine has no memory left, this goes first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _end_with(pipe: int) -> None:
    """Ends this process when the other end of a pipe is closed, whatever else it does; all others end with it."""
    waiting = select.poll()
    waiting.register(pipe, 0)
    waiting.poll()
    os._exit(1)


def _close_to_ranks() -> None:
    """Ranks are started without these: their output goes to the runner, and they have no input."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)


def _answer(order: dict[str, Any], answers: BinaryIO) -> None:
    file = FOLDER / order["name"]
    # With the mark that says UTF-8, no line of the file can say another encoding: what was read is what runs.
    file.write_text(order["source"], encoding="utf-8-sig", errors="surrogateescape")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        head: dict[str, Any] = {"outputs": [], "files": [], "failed": None}
        found: list[tuple[str, bytes]] = []
        try:
            ended = run(
                SCRIPT,
                ranks=order["ranks"],
                arguments=[order["exercise"], str(file), str(order["number"]), str(order["seed"])],
                timeout=order["timeout"],
                patience=order["patience"],
                folder=Path(folder),
            )
            head["outputs"] = [each.output for each in ended.ranks]
            found = list(_results(Path(folder), order["ranks"]))
            head["files"] = [[name, len(data)] for name, data in found]
        except RankFailed as error:
            head["outputs"] = list(error.outputs)
            head["failed"] = {
                "id": error.id,
                "values": error.values,
                "kind": error.kind,
                "failed_rank": error.rank,
                "failed_operation": error.operation,
                "failed_step": error.step,
                "rank_traceback": error.rank_traceback,
                "full_traceback": error.full_traceback,
            }
        except CourseError as error:
            head["failed"] = {"id": error.id, "values": error.values}
        answers.write(json.dumps(head, default=str).encode() + b"\n")
        for _, data in found:
            answers.write(data)
        answers.flush()


def _results(folder: Path, ranks: int) -> Iterator[tuple[str, bytes]]:
    """What ranks reported. Only out of ordinary files: a pipe would let this wait."""
    for name in (f"rank-{rank}.{kind}" for rank in range(ranks) for kind in ("json", "safetensors")):
        with contextlib.suppress(OSError):
            if stat.S_ISREG((folder / name).lstat().st_mode):
                yield name, (folder / name).read_bytes()


if __name__ == "__main__":
    main()
