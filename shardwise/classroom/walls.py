"""The walls of a sandbox, as arguments of bubblewrap: namespaces of its own for users, processes, network, host name
and messages; nothing of the machine but Python and the labs, read-only; small folders in memory to write in.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from shardwise.classroom import cell
from translations import CourseError

ROOT = Path(__file__).resolve().parent.parent.parent
COURSE = "/course"
"""Where the course's own packages lie in the sandbox."""
CELL = f"{COURSE}/cell.py"
PACKAGES = ("labs", "translations")
HIDDEN = ("solution.py", "faded.py", "broken.py")
"""What an exercise's folder holds and no submission may read: empty files stand in their place."""
ETC = {"hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n", "nsswitch.conf": "hosts: files\n"}
"""Files of /etc, so that a rank knows its own machine's name."""
WRITABLE = ("/dev/shm", "/tmp", str(cell.FOLDER))
FILES = 256 * 2**20
"""Bytes that each of the folders in memory may hold."""
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": COURSE,
}
TRIAL = "from labs.exercises.confined import confine; confine()"


@functools.cache
def unavailable() -> CourseError | None:
    """Why no sandbox can be made on this machine; None where one can. Tried, not guessed."""
    if shutil.which("bwrap") is None:
        return CourseError("shardwise.sandbox-no-bubblewrap")
    with TemporaryDirectory(prefix="shardwise-sandbox-") as place:
        command = [*walls(place=Path(place)), sys.executable, "-c", TRIAL]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return CourseError("shardwise.sandbox-refused", detail=str(error))
    if tried.returncode != 0:
        return CourseError("shardwise.sandbox-refused", detail=tried.stderr.strip()[-500:])
    return None


def walls(*, place: Path) -> list[str]:
    """What stands before the command to be run. `place` is a folder of this sandbox's own: it gets the files that are
    shown in place of the machine's.
    """
    for name, text in {"empty": "", **ETC}.items():
        (place / name).write_text(text, encoding="ascii")
    built = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    built += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    for system in map(Path, ("/usr", "/lib", "/lib64", "/bin")):
        if system.is_symlink():
            built += ["--symlink", str(system.readlink()), str(system)]
        elif system.exists():
            built += _shown(system)
    built += ["--proc", "/proc", "--dev", "/dev"]
    for folder in WRITABLE:  # before what is shown, which may lie below one of them on this machine
        built += ["--size", str(FILES), "--tmpfs", folder]
    for python in dict.fromkeys((sys.base_prefix, sys.prefix)):
        built += [] if python == "/usr" else _shown(python)
    for package in PACKAGES:
        built += _shown(ROOT / package, f"{COURSE}/{package}")
    built += _shown(Path(cell.__file__), CELL)
    for name in ETC:
        built += _shown(place / name, f"/etc/{name}")
    exercises = ROOT / "labs" / "exercises"
    for hidden in sorted(each for name in HIDDEN for each in exercises.glob(f"*/{name}")):
        built += _shown(place / "empty", f"{COURSE}/{hidden.relative_to(ROOT)}")
    for variable, value in ENVIRONMENT.items():
        built += ["--setenv", variable, value]
    return [*built, "--chdir", str(cell.FOLDER), "--remount-ro", "/"]


def _shown(outside: Path | str, inside: Path | str | None = None) -> list[str]:
    """A file or folder that can be read in the sandbox."""
    return ["--ro-bind", str(outside), str(inside or outside)]
