"""How a rank says what it failed on: a small file in the run's folder, written by the rank, read by the runner."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import sysconfig
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import translations
from labs.runner.results import VALUE_LIMIT, read_left

_LIMIT = 20_000
_SHORT = 1_000
_HARNESS = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), "<frozen ")
_LIBRARIES = ("site-packages", "dist-packages")
_OF_COMMUNICATION = ("DistError", "DistBackendError", "DistNetworkError", "DistStoreError")
_COMMUNICATION = re.compile(
    r"gloo|NCCL|Connection (closed|reset|refused)|Broken pipe|[Tt]imed out|[Tt]ime ?out|"
    r"failed to pass monitoredBarrier|store->get|wait timeout|recvValue failed|Socket"
)
_LOST = re.compile(r"Connection (closed|reset|refused)|Broken pipe")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What one rank raised. ``secondary``: it only lost the connection to another rank, or waited too long for it.

    ``own`` is the traceback through the script and the course's code, ``where`` its outer frames alone, ``full`` the
    whole one. ``message`` holds the id and values of a CourseError.
    """

    time: float
    secondary: bool
    error: str
    where: str
    own: str
    full: str
    message: tuple[str, dict[str, Any]] | None = None


def write(folder: Path, rank: int, error: BaseException, *, script: str, name: str) -> None:
    """Leave the failure of a rank whose script is shown as ``name``."""
    message = (error.id, _json_only(error.values)) if isinstance(error, translations.CourseError) else None
    failure = Failure(
        time=time.monotonic(),
        secondary=_lost_another(error),
        error=_in_short(error).replace(script, name),
        where=_where(error, script=script, name=name)[:_LIMIT],
        own=own_traceback(error, script=script, name=name)[:_LIMIT],
        full="".join(traceback.format_exception(error)).replace(script, name)[-_LIMIT:],
        message=message,
    )
    file = folder / f"rank-{rank}.failure"
    file.with_suffix(".part").write_text(json.dumps(dataclasses.asdict(failure)), encoding="utf-8")
    file.with_suffix(".part").replace(file)


def read(folder: Path, rank: int) -> Failure | None:
    """The failure that a rank left, if it left one that can be read."""
    try:
        file = folder / f"rank-{rank}.failure"
        found = Failure(**json.loads(read_left(file, rank=rank, limit=VALUE_LIMIT).decode()))
    except (OSError, ValueError, TypeError, RecursionError, translations.CourseError):
        return None
    texts = (found.error, found.where, found.own, found.full)
    whole = isinstance(found.time, float) and all(isinstance(each, str) for each in texts)
    return found if whole and (found.message is None or _is_message(found.message)) else None


def _is_message(found: Any) -> bool:
    """Whether this is the id and the values of a CourseError that the words of the course can tell."""
    try:
        id, values = found
        translations.CourseError(id, **values).in_language(translations.translator(translations.SOURCE))
    except (TypeError, ValueError, LookupError, AttributeError):
        return False
    return True


def own_traceback(error: BaseException, *, script: str, name: str) -> str:
    """The traceback without the frames of the runner, Python and installed libraries."""
    told = traceback.TracebackException(type(error), error, _skip_harness(error.__traceback__), compact=True)
    _shorten(told, script, name)
    return "".join(told.format())


def _where(error: BaseException, *, script: str, name: str) -> str:
    told = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    _shorten(told, script, name)
    return "".join(told.stack.format())


def _in_short(error: BaseException) -> str:
    """The error without its place, which the traceback shows."""
    lines = traceback.format_exception_only(error)
    return (lines[-1] if isinstance(error, SyntaxError) else "".join(lines)).strip()[:_SHORT]


def _skip_harness(tb: TracebackType | None) -> TracebackType | None:
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_HARNESS):
        tb = tb.tb_next
    return tb


def _shorten(told: traceback.TracebackException | None, script: str, name: str) -> None:
    if told is None:
        return
    kept = [each for each in told.stack if is_own(each.filename)]
    for frame in kept:
        frame.filename = name if frame.filename == script else frame.filename
    told.stack[:] = kept
    if told.exc_type is not None and issubclass(told.exc_type, SyntaxError) and told.filename == script:
        told.filename = name
    for chained in ("__cause__", "__context__"):
        before = getattr(told, chained)
        _shorten(before, script, name)
        if before is not None and not before.stack:
            setattr(told, chained, None)  # raised and handled inside a library or the runner


def is_own(filename: str) -> bool:
    """Whether a file is the script's or the course's, not Python's, a library's or the runner's."""
    if any(each in Path(filename).parts for each in _LIBRARIES):
        return False
    return not filename.startswith((*_HARNESS, sys.prefix + "/lib"))


def _lost_another(error: BaseException) -> bool:
    if type(error).__name__ in _OF_COMMUNICATION:
        return True
    return type(error) is RuntimeError and _COMMUNICATION.search(str(error)) is not None


def lost_a_peer(error: BaseException) -> bool:
    """Whether it only says that another rank's connection was closed: why that was, the other rank tells."""
    return _lost_another(error) and _LOST.search(str(error)) is not None


def _json_only(values: dict[str, Any]) -> dict[str, Any]:
    return {key: each if isinstance(each, (bool, int, float, str)) else str(each) for key, each in values.items()}
