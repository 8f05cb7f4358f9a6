"""What a sandbox shows, whoever builds its walls: Python and what ranks need of the course, read-only; small folders in
memory to write in; nothing else of the machine, and none of its environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwise.classroom import asked, cell

_CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN = 6, 7, 21
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
"""Who an ordinary user is in a namespace of users."""
SOMEBODY = 1_800_000_000
"""Who root becomes: as itself it would own what the kernel shows of this machine, in whatever namespace (measured: the
program for core files of the host could be set). Nobody has this number.
"""
WRITABLE = ("/dev/shm", "/tmp", str(cell.FOLDER))
KERNEL = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""By what is there the kernel is told what to do: read-only, whoever is in the sandbox."""
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

    def folders(self) -> Iterator[str]:
        """Those that must be there before anything is shown, each after the one that it lies in. All may enter them."""
        known = {"/", *(at for _, at in self.shown), *WRITABLE}
        for _, at in self.shown:
            for parent in reversed(Path(at).parents):
                if str(parent) not in known:
                    known.add(str(parent))
                    yield str(parent)


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
        (place / name).chmod(0o644)
        shown.append((place / name, f"/etc/{name}"))
    return Interior(shown=tuple(shown), links=links)


def exercises(folder: Path) -> Path:
    """The folder, with what ranks need of the exercises, readable by whoever is in the sandbox."""
    folder.mkdir()
    folder.chmod(0o755)
    for name, text in asked.files().items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.parent.chmod(0o755)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
    return folder


def is_root() -> bool:
    """Whether this is root of the machine itself, or of a container, who needs no namespace of users to build walls."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    return all(held >> each & 1 for each in (_CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN))
