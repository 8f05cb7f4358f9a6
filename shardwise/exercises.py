"""A learner's exercises as files in the workspace: `exercises/zero-1.py`, and the version before it."""

from __future__ import annotations

import os
from pathlib import Path

from shardwise import workspace
from shardwise.record import database
from translations import CourseError

PREVIOUS = ".previous"


def path(id: str) -> Path:
    return workspace.folder() / "exercises" / f"{id}.py"


def previous(id: str) -> Path:
    return path(id).with_suffix(f"{PREVIOUS}.py")


def save(id: str, source: str) -> Path:
    """Keeps a cell's source as the exercise's file; what was there and differs becomes the previous version."""
    target = path(id)
    with database.told(str(target)):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            scratch.write_text(source, encoding="utf-8")
            if target.exists() and target.read_text(encoding="utf-8", errors="replace") != source:
                target.replace(previous(id))
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    return target


def source(id: str) -> str:
    """What the learner wrote. Raises CourseError where nothing is kept yet."""
    try:
        return path(id).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CourseError("shardwise.exercise-not-kept", exercise=id) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.file-unreadable", path=str(path(id))) from error


def undo(id: str) -> str:
    """Puts the previous version back, and the present one in its place; gives its source."""
    target, before = path(id), previous(id)
    if not before.exists():
        raise CourseError("shardwise.exercise-no-previous", exercise=id)
    with database.told(str(target)):
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        before.replace(scratch)
        if target.exists():
            target.replace(before)
        scratch.replace(target)
    return source(id)
