"""What a run returns, and what it raises."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import translations

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["raised", "died", "hung", "mismatch"]

VALUE_LIMIT = 16_000_000
"""Bytes of JSON that a rank may report."""
TENSORS_LIMIT = 2_000_000_000
"""Bytes of tensors that a rank may report."""


class Folder:
    """The folder of one run. A temporary one is removed when nothing refers to it any more, or at exit."""

    def __init__(self, path: Path, *, temporary: bool) -> None:
        self.path = path
        self.temporary = temporary
        if temporary:
            weakref.finalize(self, _remove, path, os.getpid())


@dataclass(frozen=True, kw_only=True)
class RankResult:
    """What one rank left: the value it reported (None if it reported none) and its output.

    ``dropped`` is how many bytes of output came after the most that is kept.
    """

    rank: int
    value: Any
    output: str = field(repr=False)
    dropped: int = 0
    _folder: Folder = field(repr=False, compare=False)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors it reported, on the CPU. Raises CourseError where the file is broken or too large."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        file = self._folder.path / f"rank-{self.rank}.safetensors"
        try:
            return load(read_left(file, rank=self.rank, limit=TENSORS_LIMIT, head=VALUE_LIMIT))
        except FileNotFoundError:
            return {}
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise translations.CourseError("labs.report-broken", rank=self.rank, detail=error) from error


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run in which every rank came to the end of the script."""

    ranks: tuple[RankResult, ...]
    seconds: float
    _folder: Folder = field(repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """What the ranks left. Gone with the last reference to the run or its ranks, unless the folder was given."""
        return self._folder.path


class RankFailed(translations.CourseError):
    """A run that a rank broke. ``step`` is -1 where the script announced none, ``operation`` "" where there was none.

    ``rank_traceback`` is the rank's own, as far as it lies in the script and the course; ``full_traceback`` the whole.
    ``outputs`` is what each rank printed.
    """

    def __init__(
        self,
        id: str,
        /,
        *,
        kind: Kind,
        failed_rank: int,
        failed_operation: str,
        failed_step: int,
        rank_traceback: str,
        full_traceback: str,
        outputs: tuple[str, ...],
        **values: object,
    ) -> None:
        super().__init__(id, **values)
        self.kind = kind
        self.rank = failed_rank
        self.operation = failed_operation
        self.step = failed_step
        self.rank_traceback = rank_traceback
        self.full_traceback = full_traceback
        self.outputs = outputs

    def message(self, text: Callable[..., str]) -> str:
        """The message alone, for where the traceback is shown beside it."""
        return super().in_language(text)

    def in_language(self, text: Callable[..., str]) -> str:
        return "\n\n".join(each for each in (self.message(text), self.rank_traceback.rstrip()) if each)


def read_value(folder: Path, rank: int) -> Any:
    """The value that a rank reported. It is data from a learner's process: bounded, and never more than JSON."""
    file = folder / f"rank-{rank}.json"
    try:
        return json.loads(read_left(file, rank=rank, limit=VALUE_LIMIT).decode())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise translations.CourseError("labs.report-broken", rank=rank, detail=error) from error


def read_left(file: Path, *, rank: int, limit: int, head: int = 0) -> bytes:
    """What a rank left in a file. Never waits for a pipe and never reads without end, whatever the rank put there.

    Raises OSError where that is no ordinary file, and CourseError where it is longer than the limit (and the head).
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(file))
        if found.st_size > limit + head:
            raise too_large(rank=rank, size=found.st_size, limit=limit)
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            return opened.read(found.st_size)
    finally:
        os.close(descriptor)


def too_large(*, rank: int, size: int, limit: int) -> translations.CourseError:
    return translations.CourseError("labs.report-too-large", rank=rank, size=size, limit=limit)


def _remove(path: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)


def make_folder(given: Path | None) -> Folder:
    """The folder of a new run: a temporary one, or the given one without what an earlier run left in it."""
    if given is None:
        return Folder(Path(tempfile.mkdtemp(prefix=f"shardwise-run-{os.getpid()}-")), temporary=True)
    given.mkdir(parents=True, exist_ok=True)
    for left in [*given.glob("rank-*.*"), given / "heartbeat"]:
        left.unlink(missing_ok=True)
    return Folder(given.resolve(), temporary=False)
