"""A lesson run once, with its outputs, kept for as long as nothing that it depends on changes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from lessons.builder import ROOT
from translations import CourseError, Language

CELL_SECONDS = 120.0
SECONDS = 600.0
"""What one cell, and one lesson, may take. A lesson takes half a minute on two cores."""

KERNEL = "shardwise"
_CODE = ("translations", "labs", "quiz", "lessons/figures", "lessons/controls", "lessons/messages.yaml", "shardwise")
_KINDS = {".py", ".yaml", ".json", ".css", ".js", ".txt"}
_ELSEWHERE = ("labs/clusters", "quiz/exam", "quiz/exchange", "quiz/bank", "shardwise/service", "shardwise/classroom")
"""What no lesson shows: a change there leaves the kept lessons as they are."""

_OTHER_CATALOGS = re.compile(r"(?:lesson|bank)-\d\d-")

Progress: TypeAlias = Callable[[str, str, float], None]
"""Told while a lesson runs: its language, its unit and which part of its cells is done, from 0 to 1."""


def executed(
    language: Language | str,
    unit: str,
    *,
    cache: Path,
    root: Path = ROOT,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> nbformat.NotebookNode:
    """The built notebook of a unit with the outputs of one run, from the cache where it lies there.

    It runs in a home of its own, as for a learner who has just begun. Raises CourseError where there is no such
    notebook, where a cell fails, or where it takes longer than it may.
    """
    code = language if isinstance(language, str) else language.code
    path = root / "lessons" / code / f"{unit}.ipynb"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CourseError("lessons.edition-no-lesson", unit=unit, language=code) from error
    kept = cache / f"{code}-{unit}-{_digest(content, code, unit, root)}.ipynb"
    with contextlib.suppress(OSError, ValueError):
        return _parsed(kept.read_text(encoding="utf-8"))
    notebook = _parsed(content.decode("utf-8"))
    _run(notebook, code, unit, seconds=seconds, progress=progress)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".part", delete=False, encoding="utf-8") as part:
        nbformat.write(notebook, part)  # type: ignore[no-untyped-call]
    Path(part.name).replace(kept)
    for old in cache.glob(f"{code}-{unit}-*.ipynb"):
        if old != kept:
            old.unlink(missing_ok=True)
    return notebook


def each_executed(
    lessons: Iterable[tuple[str, str]],
    *,
    cache: Path,
    workers: int = 2,
    root: Path = ROOT,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> Iterator[tuple[str, str, nbformat.NotebookNode]]:
    """Lessons by language and unit, as they become ready: at most `workers` run at a time.

    The first one that fails raises its CourseError; those that have not begun are then not begun.
    """
    lessons = tuple(dict.fromkeys(lessons))

    def work(code: str, unit: str) -> nbformat.NotebookNode:
        return executed(code, unit, cache=cache, root=root, seconds=seconds, progress=progress)

    pool = ThreadPoolExecutor(max_workers=max(1, workers))
    try:
        running = {pool.submit(work, *each): each for each in lessons}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                code, unit = running.pop(future)
                yield code, unit, future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _parsed(text: str) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def _run(notebook: nbformat.NotebookNode, code: str, unit: str, *, seconds: float, progress: Progress | None) -> None:
    """Puts the outputs of one run into a notebook, and nothing of this machine's folders."""
    until = time.monotonic() + seconds
    count = len(notebook.cells)

    def told(*, cell_index: int, **_others: Any) -> None:
        if progress is not None:
            progress(code, unit, (cell_index + 1) / count)

    with tempfile.TemporaryDirectory(prefix="shardwise-edition-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        client = NotebookClient(
            notebook,
            kernel_name=KERNEL,
            timeout_func=lambda _cell: max(1.0, min(CELL_SECONDS, until - time.monotonic())),
            resources={"metadata": {"path": str(folder)}},
            on_cell_complete=told,
            store_widget_state=False,
        )
        environ = {
            **os.environ,
            "SHARDWISE_HOME": str(folder / "home"),
            "SHARDWISE_DATA": str(folder / "data"),
            "SHARDWISE_LANG": code,
        }
        try:
            asyncio.run(client.async_execute(env=environ))
        except CellExecutionError as error:
            raise CourseError(
                "lessons.edition-cell-failed",
                unit=unit,
                language=code,
                cell=_failed(notebook),
                error=f"{error.ename}: {error.evalue}".strip(),
            ) from error
        except (CellTimeoutError, DeadKernelError, TimeoutError) as error:
            raise CourseError(
                "lessons.edition-cell-stuck", unit=unit, language=code, cell=_failed(notebook), seconds=round(seconds)
            ) from error
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = [_portable(output, {str(folder): "~", str(ROOT): "shardwise"}) for output in cell.outputs]
    notebook.metadata.pop("widgets", None)


def _failed(notebook: nbformat.NotebookNode) -> str:
    """The last cell that was begun."""
    begun = [cell for cell in notebook.cells if cell.get("execution_count") or cell.get("outputs")]
    return str((begun or notebook.cells)[-1].id)


def _portable(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return value
    if isinstance(value, list):
        return [_portable(each, names) for each in value]
    if isinstance(value, dict):
        for key in value:
            value[key] = _portable(value[key], names)
    return value


def _digest(content: bytes, code: str, unit: str, root: Path) -> str:
    """A hash of the notebook and of all that its run can show: the course's code, its data and its catalogs."""
    digest = hashlib.sha256(content)
    digest.update(_of_course(root).encode())
    own = [*sorted((root / "translations" / code).glob("*.po")), root / "translations" / code / "language.yaml"]
    for path in [*own, root / "quiz" / "bank" / f"{unit}.yaml", root / "requirements.lock"]:
        if path.is_file() and (not _OTHER_CATALOGS.match(path.name) or unit in path.name):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]


@lru_cache(maxsize=1)
def _of_course(root: Path) -> str:
    digest = hashlib.sha256()
    for name in _CODE:
        for path in sorted([root / name, *(root / name).rglob("*")]):
            inside = path.relative_to(root).as_posix()
            if (
                path.is_file()
                and path.suffix in _KINDS
                and "__pycache__" not in path.parts
                and not inside.startswith(_ELSEWHERE)
            ):
                digest.update(inside.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
