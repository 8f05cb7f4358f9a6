"""What grading has begun and ended, on the disk before anything else happens: who was killed goes on from here.

One line of JSON an event. A submission is done when its result lies there with the digest of what was handed in, so a
result that was written and not yet noted counts; one that was begun and never ended is graded again, but not for ever:
what ends the grader each time gets a result that says so. The lock is held by the grader and by all its workers, and
falls when the last of them has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from translations import CourseError

NAME = "journal.jsonl"
LOCK = ".lock"
PATIENCE = 20.0
"""Seconds that workers of a killed grader may take to end."""


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """The right to grade in this folder, as the descriptor to hand to workers. Raises CourseError where another process
    has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise CourseError("shardwise.grade-locked", folder=str(folder)) from None
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


class Journal:
    """The journal of a folder of results. Only one process has it open, the one with the lock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._begun: Counter[tuple[str, str, str]] = Counter()
        self.events = tuple(self._read())
        for each in self.events:
            self._count(each)

    def tries(self, student: str, assignment: str, digest: str) -> int:
        """How often grading this was begun and never came to an end."""
        return self._begun[student, assignment, digest]

    def begun(self, student: str, assignment: str, digest: str) -> None:
        self._note("begun", student, assignment, digest)

    def ended(self, student: str, assignment: str, digest: str, *, state: str, detail: str = "") -> None:
        self._note("ended", student, assignment, digest, state=state, **({"detail": detail} if detail else {}))

    def _note(self, event: str, student: str, assignment: str, digest: str, **more: Any) -> None:
        noted = {"event": event, "student": student, "assignment": assignment, "digest": digest, **more}
        self._count(noted)
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **noted}, ensure_ascii=False)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _count(self, noted: dict[str, Any]) -> None:
        key = (str(noted.get("student")), str(noted.get("assignment")), str(noted.get("digest")))
        if noted.get("event") == "begun":
            self._begun[key] += 1
        else:
            self._begun[key] = 0

    def _read(self) -> Iterator[dict[str, Any]]:
        """The events; half of a line at the end, left by a crash, is closed so that the next one stands alone."""
        if not self._path.is_file():
            return
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            with self._path.open("a", encoding="utf-8") as opened:
                opened.write("\n")
        for line in text.splitlines():
            try:
                noted = json.loads(line)
            except ValueError:
                continue
            if isinstance(noted, dict):
                yield noted
