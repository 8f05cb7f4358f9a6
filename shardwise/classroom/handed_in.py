"""The files that were handed in, wherever they lie: in folders in folders, in archives in folders.

They are read into memory and nowhere else. Links are not followed (they could lead to another student's work or to the
gradebook), what is no ordinary file is left alone, and archives are read only as far as they stay small.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shardwise.classroom.result import Finding

LARGEST = 256_000_000
"""Bytes of one file that are read."""
ALL = 400_000_000
"""Bytes that are read in all, unpacked."""
MOST = 3_000
"""Files that are looked at."""
DEEPEST = 12
SKIPPED = {".git", ".ipynb_checkpoints", "__MACOSX", "__pycache__", ".venv", "node_modules"}
OWN = {"timestamp.txt", "submission_secret.txt"}
"""What nbgrader adds at handing in: another time alone is no other work."""
WANTED = (".ipynb", ".py")
_ENTRY = b"PK\x01\x02"
"""Before each entry in the list of a zip."""
ARCHIVES = (".zip", ".tar", ".tgz", ".gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file, by its name within what was handed in; `archive` is the name of the archive that it lay in, if any."""

    name: str
    data: bytes
    archive: str = ""

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix.lower()

    @property
    def looks_like_a_notebook(self) -> bool:
        """Whatever it is called: browsers and mail programs rename files."""
        start = self.data[:4000].lstrip(b"\xef\xbb\xbf \t\r\n")
        if not start.startswith(b"{"):
            return False
        return any(word in self.data for word in (b'"cells"', b'"worksheets"')) and b'"nbformat"' in self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Files that may be work, in the order of their names, and what was odd. `empty`: nothing at all was handed in.
    `digest` is of every file.
    """

    files: tuple[File, ...]
    findings: tuple[Finding, ...]
    empty: bool
    digest: str


class _Gathering:
    def __init__(self) -> None:
        self.files: list[File] = []
        self.findings: list[Finding] = []
        self.seen = 0
        self.left = ALL

    def add(self, name: str, data: bytes, archive: str = "") -> None:
        self.left -= len(data)
        file = File(name=name, data=data, archive=archive)
        if file.suffix in ARCHIVES and not archive:
            self.unpack(file)
        elif file.suffix in WANTED or file.looks_like_a_notebook:
            self.files.append(file)

    def told(self, id: str, name: str) -> None:
        self.findings.append(Finding(id=id, values={"file": _shown(name)}))

    def unpack(self, file: File) -> None:
        try:
            for name, data in _members(file, self.left):
                self.seen += 1
                if self.seen > MOST or self.left <= 0:
                    self.told("handed-in-too-much", file.name)
                    return
                if not SKIPPED & set(PurePosixPath(name).parts):
                    self.add(name, data, archive=file.name)
        except TooMuch:
            self.told("handed-in-too-much", file.name)
        except (*_BAD, zipfile.BadZipFile, tarfile.TarError, zlib.error):
            self.told("handed-in-bad-archive", file.name)


_BAD = (OSError, ValueError, EOFError, LookupError, RuntimeError, NotImplementedError)


class TooMuch(Exception):
    """An archive holds more than is read."""


def gather(path: Path) -> Gathered:
    """What lies at the path. It never fails: what cannot be read is told."""
    gathering = _Gathering()
    empty = True
    for name, place in _walk(path, gathering):
        empty = empty and PurePosixPath(name).name in OWN
        data = _bytes(place)
        if data is None:
            gathering.told("handed-in-unreadable", name)
            continue
        if gathering.left < len(data):
            gathering.told("handed-in-too-much", name)
            continue
        gathering.add(name, data)
    files = tuple(sorted(gathering.files, key=lambda each: (each.archive, each.name)))
    return Gathered(files=files, findings=tuple(gathering.findings), empty=empty, digest=digest(path))


def digest(path: Path) -> str:
    """Of every file that was handed in, name and content, but for what nbgrader adds."""
    whole = hashlib.sha256()
    for name, place in _walk(path, _Gathering()):
        if PurePosixPath(name).name in OWN:
            continue
        whole.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
        one = hashlib.sha256()
        with contextlib.suppress(OSError), os.fdopen(_opened(place), "rb") as opened:
            while piece := opened.read(1 << 20):
                one.update(piece)
        whole.update(one.digest())
    return whole.hexdigest()


def _walk(path: Path, gathering: _Gathering) -> Iterator[tuple[str, Path]]:
    """Ordinary files, by name, in the order of their names."""
    waiting = [(path.name, path)] if not path.is_dir() or path.is_symlink() else _inside(path, "")
    while waiting:
        name, place = waiting.pop(0)
        gathering.seen += 1
        if gathering.seen > MOST:
            gathering.told("handed-in-too-much", name)
            return
        try:
            mode = place.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            gathering.told("handed-in-link", name)
        elif stat.S_ISDIR(mode):
            if place.name not in SKIPPED and name.count("/") < DEEPEST:
                waiting = _inside(place, f"{name}/") + waiting
        elif stat.S_ISREG(mode):
            yield name, place


def _inside(folder: Path, before: str) -> list[tuple[str, Path]]:
    with contextlib.suppress(OSError):
        return [(f"{before}{each.name}", each) for each in sorted(folder.iterdir())]
    return []


def _bytes(place: Path) -> bytes | None:
    """A file's bytes; None for one that is too large or cannot be read. A link put there meanwhile is not followed."""
    try:
        with os.fdopen(_opened(place), "rb") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                return None
            data = opened.read(LARGEST + 1)
            return data if len(data) <= LARGEST else None
    except OSError:
        return None


def _opened(place: Path) -> int:
    return os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _members(file: File, left: int) -> Iterator[tuple[str, bytes]]:
    """The ordinary files of an archive, by name; a name says nothing of where on a disk. Raises TooMuch."""
    if file.data.count(_ENTRY) > MOST:
        raise TooMuch
    if zipfile.is_zipfile(io.BytesIO(file.data)):
        with zipfile.ZipFile(io.BytesIO(file.data)) as opened:
            for member in opened.infolist():
                if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
                    continue
                with opened.open(member) as stream:
                    yield _inner(member.filename), _up_to(stream.read, min(left, LARGEST))
        return
    with tarfile.open(fileobj=io.BytesIO(_unzipped(file.data, min(left, LARGEST))), mode="r:") as packed:
        for entry in packed:
            if entry.isreg() and (reader := packed.extractfile(entry)) is not None:
                yield _inner(entry.name), _up_to(reader.read, min(left, LARGEST))


def _unzipped(data: bytes, limit: int) -> bytes:
    """A tar as it is without gzip: what its headers claim can then be no more than is there."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    return _up_to(lambda most: zlib.decompressobj(31).decompress(data, most), limit)


def _up_to(reading: Callable[[int], bytes], limit: int) -> bytes:
    data = reading(limit + 1)
    if len(data) > limit:
        raise TooMuch
    return data


def _inner(name: str) -> str:
    """A member's name without ways up or to the root."""
    return "/".join(each for each in PurePosixPath(name.replace("\\", "/")).parts if each not in ("/", "..", "."))


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")[-200:]
