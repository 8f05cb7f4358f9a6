"""The learner's workspace: their copies of the lessons, which a newer course never overwrites once they are touched.

A list beside the copies keeps the hash under which the course put each one there. A copy that still has its hash is
untouched and is replaced when the course has a newer version; beside a touched one the new version is put, with a
notice. Cells and outputs count, not what JupyterLab notes in the metadata when a notebook is merely opened.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translations import SOURCE, CourseError, Language, translator

COURSE = Path(__file__).resolve().parent.parent / "lessons"
"""Where the built notebooks are, one folder a language."""
NOTEBOOK = ".ipynb"
NEW_VERSION = ".new"
_LIST = Path(".shardwise") / "lessons.json"
_LANGUAGE = Path(".shardwise") / "language"
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace that holds the lessons of one language; ``notices`` tell the learner what became of their copies."""

    folder: Path
    language: Language
    notices: tuple[CourseError, ...]

    @property
    def lessons(self) -> tuple[Path, ...]:
        """The learner's copies, in the course's order."""
        return tuple(sorted(self.folder.joinpath(self.language.code).glob("*" + NOTEBOOK)))


def folder() -> Path:
    """Where the workspace is: ``SHARDWISE_HOME``, else ``shardwise`` in the user's home."""
    return Path(os.environ.get("SHARDWISE_HOME") or "~/shardwise").expanduser().absolute()


def prepare(language: Language, *, course: Path = COURSE) -> Workspace:
    """The workspace with every lesson of the language in it. Raises CourseError, and loses nothing, if it can't be."""
    root = folder()
    shipped = _shipped(language, course)
    with _explained(root):
        root.joinpath(language.code).mkdir(parents=True, exist_ok=True)
        listed = _List.read(root)
        notices = list(listed.notices)
        for path in shipped:
            notices += _place(path, root / language.code / path.name, listed=listed, root=root, language=language)
        listed.write()
    return Workspace(folder=root, language=language, notices=tuple(notices))


def restore(lesson: str, language: Language, *, course: Path = COURSE) -> tuple[Path, Path | None]:
    """The course's version of a lesson in its place again, and where the learner's copy, if any, was moved to."""
    root = folder()
    names = {path.stem: path for path in _shipped(language, course)}
    if lesson not in names:
        raise CourseError("shardwise.workspace-no-lesson", lesson=lesson, known=", ".join(names))
    target = root / language.code / names[lesson].name
    with _explained(root):
        target.parent.mkdir(parents=True, exist_ok=True)
        listed = _List.read(root)
        kept = _free(target, "mine") if target.exists() else None
        if kept:
            target.replace(kept)
        text = names[lesson].read_bytes()
        _write(target, text)
        listed.hashes[_key(target, root)] = _content(text)
        listed.write()
    return target, kept


def remember(language: Language) -> None:
    """Keeps the language whose home was opened last: there the course opens again. Of no weight where it can't be."""
    with suppress(OSError):
        path = folder() / _LANGUAGE
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, f"{language.code}\n".encode())


def remembered() -> str | None:
    """The code of the language whose home was opened last, if any was."""
    try:
        return (folder() / _LANGUAGE).read_text(encoding="utf-8").strip()[:20] or None
    except (OSError, UnicodeDecodeError):
        return None


def _shipped(language: Language, course: Path) -> list[Path]:
    """The lessons of a language; of one in preparation those that it has, the others in English."""
    codes = (language.code,) if language.released else (SOURCE, language.code)
    by_name = {path.name: path for code in codes for path in course.joinpath(code).glob("*" + NOTEBOOK)}
    found = [by_name[name] for name in sorted(by_name)]
    if not found:
        raise CourseError("shardwise.workspace-no-lessons", path=course / language.code)
    return found


def _place(shipped: Path, target: Path, *, listed: _List, root: Path, language: Language) -> Iterator[CourseError]:
    """Puts one lesson into the workspace, and says what the learner should know of it."""
    text = shipped.read_bytes()
    new, key = _content(text), _key(target, root)
    put = listed.hashes.get(key)
    if not target.exists():
        _write(target, text)
        listed.hashes[key] = new
        return
    mine = _content(target.read_bytes())
    if mine == new:
        listed.hashes[key] = new
    elif mine == put:
        _write(target, text)
        listed.hashes[key] = new
        yield CourseError("shardwise.workspace-replaced", lesson=target.stem)
    elif put != new:
        beside = target.with_name(target.stem + NEW_VERSION + NOTEBOOK)
        noted = _with_notice(text, lesson=target.name, language=language)
        beside_key = _key(beside, root)
        if beside.exists() and _content(beside.read_bytes()) not in (listed.hashes.get(beside_key), _content(noted)):
            beside.replace(_free(beside, "mine"))
        _write(beside, noted)
        listed.hashes[beside_key] = _content(noted)
        listed.hashes[key] = new
        yield CourseError("shardwise.workspace-beside", lesson=target.stem, path=beside)


def _with_notice(text: bytes, *, lesson: str, language: Language) -> bytes:
    """The notebook, headed by a cell that says what it is."""
    notebook = json.loads(text)
    said = translator(language)("shardwise.workspace-new-version-cell", lesson=lesson)
    if language.direction == "rtl":
        said = f'<div dir="rtl" lang="{language.code}">\n\n{said}\n\n</div>'
    cell = {"cell_type": "markdown", "id": "new-version", "metadata": {"editable": False}, "source": said}
    notebook["cells"].insert(0, cell)
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def _content(text: bytes) -> str:
    """A hash of what the cells say and show; of the bytes where they are no notebook."""
    try:
        cells: list[dict[str, Any]] = json.loads(text)["cells"]
        told = [(each["cell_type"], "".join(each["source"]), each.get("outputs") or []) for each in cells]
        text = json.dumps(told, sort_keys=True).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return hashlib.sha256(text).hexdigest()


def _key(target: Path, root: Path) -> str:
    return target.relative_to(root).as_posix()


def _free(target: Path, word: str) -> Path:
    """A name beside the target that nothing has yet."""
    number = 1
    while (path := target.with_name(f"{target.stem}.{word}-{number}{target.suffix}")).exists():
        number += 1
    return path


@dataclass(kw_only=True)
class _List:
    """What the course put into a workspace: the hash of each copy by its place."""

    path: Path
    hashes: dict[str, str]
    notices: tuple[CourseError, ...] = ()

    @classmethod
    def read(cls, root: Path) -> _List:
        """The workspace's list. A broken one is kept under another name, and every copy then counts as touched."""
        path = root / _LIST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version, hashes = values["version"], values["lessons"]
            if not isinstance(version, int) or not all(isinstance(each, str) for each in hashes.values()):
                raise TypeError
        except FileNotFoundError:
            return cls(path=path, hashes={})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            kept = _free(path, "damaged")
            path.replace(kept)
            return cls(path=path, hashes={}, notices=(CourseError("shardwise.workspace-list-damaged", path=kept),))
        if version > _FORMAT:
            raise CourseError("shardwise.workspace-newer", path=root)
        return cls(path=path, hashes=dict(hashes))

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        values = {"version": _FORMAT, "lessons": dict(sorted(self.hashes.items()))}
        _write(self.path, (json.dumps(values, indent=1) + "\n").encode())


def _write(path: Path, text: bytes) -> None:
    """The file whole, or as it was."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    """The system's refusals as the course's errors."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise CourseError("shardwise.workspace-not-a-folder", path=error.filename or root) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        id = "shardwise.workspace-disk-full" if full else "shardwise.workspace-refused"
        values = {"path": root} if full else {"path": root, "reason": error.strerror or error}
        raise CourseError(id, **values) from error
