"""What a sandbox shows, whoever builds its walls: Python and what ranks need of the course, read-only; small folders in
memory to write in; nothing else of the machine, and none of its environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwise.classroom import asked, cell

ROOT = Path(__file__).resolve().parent.parent.parent
COURSE = "/course"
"""Where the course's own packages lie in the sandbox."""
CELL = f"{COURSE}/cell.py"
PACKAGES = ("labs", "translations")
EXERCISES = "labs/exercises"
ETC = {"hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n", "nsswitch.conf": "hosts: files\n"}
"""Files of /etc, so that a rank knows its own machine's name."""
HOST = "sandbox"
USER = 1000
WRITABLE = ("/dev/shm", "/tmp", str(cell.FOLDER))
FILES = 256 * 2**20
"""Bytes that each of the folders in memory may hold."""
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONPATH": COURSE,
}


@dataclass(frozen=True, kw_only=True)
class Interior:
    """`shown`: what is seen in the sandbox at the second path, read-only, in this order. `links`: symbolic links, by
    where they lie.
    """

    shown: tuple[tuple[Path, str], ...]
    links: Mapping[str, str]


def interior(place: Path) -> Interior:
    """`place` is a folder of this sandbox's own: it gets the files that are shown in place of the machine's."""
    links = {}
    shown: list[tuple[Path, str]] = []
    for system in map(Path, ("/usr", "/lib", "/lib64", "/bin")):
        if system.is_symlink():
            links[str(system)] = str(system.readlink())
        elif system.exists():
            shown.append((system, str(system)))
    for python in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not python.startswith("/usr/") and python != "/usr":
            shown.append((Path(python), python))
    shown += [(ROOT / package, f"{COURSE}/{package}") for package in PACKAGES]
    shown.append((exercises(place / "exercises"), f"{COURSE}/{EXERCISES}"))
    shown.append((Path(cell.__file__), CELL))
    for name, text in ETC.items():
        (place / name).write_text(text, encoding="ascii")
        shown.append((place / name, f"/etc/{name}"))
    return Interior(shown=tuple(shown), links=links)


def exercises(folder: Path) -> Path:
    """The folder, with what ranks need of the exercises, readable by whoever is in the sandbox."""
    for name, text in asked.files().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
