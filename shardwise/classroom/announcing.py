"""What a class's students may know of it, beside the exchange's assignments: due moments, lateness, own extensions.

nbgrader's exchange carries assignments only; a student never sees the gradebook, in which it keeps due dates. The
teacher's side lays the class into `<exchange>/<course>/shardwise/`, the student's side reads it there, each time anew:
a moved date shows at once, without another release. `class.json` is for everyone and names no student. What is one
student's alone stands in `own/<student>.json`, which the system lets that account read and no other (a POSIX access
list); every student has one, all of one length, so that not even its being there says anything. Where the system or its
accounts can't do that, it isn't laid down, and the teacher is told for whom.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from shardwise.classroom import course as classes
from shardwise.classroom.course import Course
from translations import CourseError

FOLDER = "shardwise"
CLASS, OWN = "class.json", "own"
PAGE = 4096
"""Every student's file has a multiple of so many bytes."""
LARGEST = 1_000_000
_ACCESS = "system.posix_acl_access"
_OWNER, _USER, _GROUP, _MASK, _OTHER, _NOBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF


def announce(course: Course, *, exchange: Path, students: Iterable[str]) -> tuple[str, ...]:
    """Lays the class into the exchange, and returns the students whose own dates could not be laid down privately.

    Raises CourseError where the exchange's folder of the course is not there or can't be written.
    """
    above = exchange / course.id
    if not above.is_dir():
        raise CourseError("shardwise.exchange-no-course", path=str(above))
    folder = above / FOLDER
    unable = []
    try:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        own = folder / OWN
        own.mkdir(exist_ok=True)
        own.chmod(0o711)
        _write(folder / CLASS, _padded(common(course)), mode=0o644)
        listed = set(students)
        for student in sorted(listed):
            told = _padded(personal(course, student))
            if not _write_for(own / f"{student}.json", told, student=student) and _has_own(course, student):
                unable.append(student)
        for left in own.glob("*.json"):
            if left.stem not in listed:
                left.unlink()
    except OSError as error:
        raise CourseError("shardwise.exchange-refused", path=str(folder), reason=error.strerror or error) from error
    return tuple(unable)


def common(course: Course) -> dict[str, Any]:
    """The class without anything about one student: no extension, no name of those for whom a resit is."""
    bare = replace(
        course, extensions={}, assignments=tuple(replace(each, students=None) for each in course.assignments)
    )
    some = [each.id for each in course.assignments if each.students is not None]
    return {"class": bare.as_data(), "for_some": some}


def personal(course: Course, student: str) -> dict[str, Any]:
    """What is one student's alone."""
    own = course.extensions.get(student, {})
    chosen = [each.id for each in course.assignments if each.students is not None and student in each.students]
    return {"student": student, "extensions": {id: classes.said(due) for id, due in own.items()}, "chosen": chosen}


def read(exchange: Path, course_id: str, student: str) -> Course | None:
    """The class as this student may know it; None where nothing was announced, or nothing that can be read.

    Its `extensions` are the student's own; an assignment for some is left out unless they are one of them.
    """
    folder = exchange / course_id / FOLDER
    told = _read(folder / CLASS)
    if told is None:
        return None
    mine = _read(folder / OWN / f"{student}.json") or {}
    try:
        data = {**told["class"], "extensions": {student: mine["extensions"]} if mine.get("extensions") else {}}
        found = classes.parse(yaml.safe_dump(data, allow_unicode=True), name=str(folder / CLASS))
        hidden = set(told.get("for_some", ())) - set(mine.get("chosen", ()))
    except (CourseError, KeyError, TypeError, AttributeError):
        return None
    return replace(found, assignments=tuple(each for each in found.assignments if each.id not in hidden))


def _has_own(course: Course, student: str) -> bool:
    mine = personal(course, student)
    return bool(mine["extensions"] or mine["chosen"])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as opened:
            found = json.loads(opened.read(LARGEST).decode())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _padded(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    return text.ljust(-(-len(text) // PAGE) * PAGE, b" ")


def _write(path: Path, data: bytes, *, mode: int, access: bytes | None = None) -> None:
    """The file whole or as it was, and never for a moment open to others."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
        if access is None:
            part.chmod(mode)
        else:
            os.setxattr(part, _ACCESS, access)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_for(path: Path, data: bytes, *, student: str) -> bool:
    """A file that its owner writes and the account of this name reads. False, and no file, where that can't be."""
    try:
        account = pwd.getpwnam(student).pw_uid
        if not hasattr(os, "setxattr"):
            raise OSError
        _write(path, data, mode=0o600, access=_access(account))
    except (KeyError, OSError):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    return True


def _access(account: int) -> bytes:
    """An access list as Linux keeps it: the owner reads and writes, one account reads, nobody else does anything."""
    entries = (
        (_OWNER, 6, _NOBODY),
        (_USER, 4, account),
        (_GROUP, 0, _NOBODY),
        (_MASK, 4, _NOBODY),
        (_OTHER, 0, _NOBODY),
    )
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
