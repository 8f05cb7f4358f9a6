"""The walls of a sandbox, and who builds them on this machine: bubblewrap, or an OCI runtime where that is barred or
missing. All show the same interior and give the same guarantees; which it is, is tried, not guessed.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from shardwise.classroom.bubblewrap import Bubblewrap
from shardwise.classroom.interior import CELL, SOMEBODY, Interior, interior
from shardwise.classroom.oci import CRUN, RUNC
from translations import CourseError

VARIABLE = "SHARDWISE_SANDBOX"
"""In the environment: the backend that must be taken, by its name."""
PATIENCE = 60.0
"""Seconds for a trial: it starts Python, on a machine that may be busy."""
TRIAL = (
    "from labs.exercises.confined import confine, harden, lose_root; import os, socket;"
    f"lose_root({SOMEBODY}); harden(); confine();"
    "socket.create_server(('127.0.0.1', 0)); open('/tmp/trial', 'w').close(); print('held')"
)
"""What every sandbox must allow, and the filters that it must take."""


class Backend(Protocol):
    """Who builds walls. `end` leaves no process of what `command` started, whatever it did."""

    @property
    def name(self) -> str: ...

    def missing(self) -> CourseError | None:
        """What is not installed here, if anything."""

    def command(self, inside: Interior, place: Path, program: Sequence[str]) -> list[str]:
        """What starts the program within walls. `place` is a folder of this sandbox's own on this machine."""

    def end(self, process: subprocess.Popen[bytes]) -> None: ...

    def __hash__(self) -> int: ...


BACKENDS: tuple[Backend, ...] = (Bubblewrap(), CRUN, RUNC)
"""In the order in which they are tried."""


def unavailable(name: str | None = None) -> CourseError | None:
    """Why no sandbox can be made on this machine; None where one can."""
    try:
        backend(name)
    except CourseError as error:
        return error
    return None


def backend(name: str | None = None) -> Backend:
    """The backend of this name, or that the environment names, else the first that works here.

    Raises CourseError, with what each of them said, where none does.
    """
    name = name or os.environ.get(VARIABLE) or None
    known = {each.name: each for each in BACKENDS}
    if name is not None and name not in known:
        raise CourseError("shardwise.sandbox-unknown", name=name, known=", ".join(known))
    reasons = []
    for each in BACKENDS if name is None else (known[name],):
        if (reason := refusal(each)) is None:
            return each
        reasons.append((each, reason))
    missing = [each.name for each, _ in reasons if each.missing()]
    if len(reasons) == 1:
        raise reasons[0][1]
    if len(missing) == len(reasons):
        raise CourseError("shardwise.sandbox-none", programs=", ".join(missing))
    said = [f"{each.name}: {reason}" for each, reason in reasons if each.name not in missing]
    raise CourseError("shardwise.sandbox-all-refused", detail=" ".join(said))


@functools.cache
def refusal(each: Backend) -> CourseError | None:
    """Why this backend makes no sandbox here; None where it does. Once found it stays so for this process."""
    if (missing := each.missing()) is not None:
        return missing
    with TemporaryDirectory(prefix="shardwise-sandbox-", ignore_cleanup_errors=True) as folder:
        try:
            process = started(each, Path(folder), [sys.executable, "-c", TRIAL], errors=subprocess.PIPE)
        except OSError as error:
            return CourseError("shardwise.sandbox-refused", program=each.name, detail=str(error))
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            out, errors = b"", str(error).encode()
        finally:
            each.end(process)
    if out.strip() == b"held":
        return None
    detail = errors.decode("utf-8", "replace").strip()[-500:]
    return CourseError("shardwise.sandbox-refused", program=each.name, detail=detail or str(process.returncode))


def started(
    by: Backend, place: Path, program: Sequence[str], *, errors: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """The program, within walls."""
    return subprocess.Popen(
        by.command(interior(place), place, program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def cell_command(*words: str) -> list[str]:
    """What runs in a sandbox that takes orders."""
    return [sys.executable, "-P", CELL, *words]
