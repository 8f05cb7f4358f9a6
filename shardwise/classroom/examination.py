"""What this machine has for a class, tried and not guessed, and how to mend what is missing: `doctor --classroom`."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

from shardwise.classroom import needs, walls
from shardwise.classroom.course import Course
from shardwise.doctor import Examination, Finding, Size
from translations import CourseError

NBGRADER = (0, 9)
"""The line of versions that the tests run with."""
_NEW_USER = 0x10000000
_TRIED = f"""
import ctypes, os, sys
account = int(sys.argv[1])
if account and os.getuid() == 0:
    os.setgroups([]); os.setgid(account); os.setuid(account)
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(0 if libc.unshare({_NEW_USER}) == 0 else ctypes.get_errno())
"""
_SETTINGS = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
"""Settings of Linux that bar user namespaces: name, the value that does, the one that does not."""
_SECONDS = 60
_FEEDBACK = """
from bs4 import BeautifulSoup
found = BeautifulSoup('<h2 id="a">x</h2>', "html.parser").select("h2[id]")
assert len(found) == 1
"""


def examine(course: Course | None = None, folder: Path | None = None) -> Examination:
    """Looks at everything that a class needs, with `course` also at its exchange and its folder. Takes some seconds."""
    findings = [*_sandbox(), *_namespaces(), *_nbgrader(), *_alembic(), *_python(), *_fonts(), *_zones(), *_server()]
    if course is not None:
        findings += [*_exchange(course), *_course_folder(folder)]
    else:
        findings += _students_exchange()
    return Examination(findings=tuple(findings))


def _ok(id: str, **values: object) -> Finding:
    return Finding(id=id, state="ok", message=f"doctor-class-{id}", values=values)


def _missing(id: str, why: str, **values: object) -> Finding:
    return Finding(id=id, state="missing", message=f"doctor-class-{id}-{why}", values=values)


def _warn(id: str, why: str, **values: object) -> Finding:
    return Finding(id=id, state="warn", message=f"doctor-class-{id}-{why}", values=values)


# --- the sandbox


def _sandbox() -> Iterator[Finding]:
    """A sandbox is really made, and what must be held is tried inside."""
    try:
        yield _ok("sandbox", backend=walls.backend().name)
    except CourseError as error:
        yield _missing("sandbox", "none", reason=error)


def _namespaces() -> Iterator[Finding]:
    """A user namespace is really made: as whoever runs this, and where that is root also as an ordinary account."""
    if not sys.platform.startswith("linux"):
        yield _warn("namespaces", "elsewhere", system=sys.platform)
        return
    accounts = (0, 65534) if os.getuid() == 0 else (0,)
    refused = [errno for account in accounts if (errno := _unshare(account))]
    if not refused:
        yield _ok("namespaces")
        return
    barred = [(name, free) for name, bars, free in _SETTINGS if _setting(name) == bars]
    if barred:
        mend = "; ".join(f"sudo sysctl -w {name}={free}" for name, free in barred)
        yield _missing("namespaces", "barred", settings=", ".join(name for name, _ in barred), mend=mend)
    else:
        yield _missing("namespaces", "refused", reason=os.strerror(refused[0]))


def _unshare(account: int) -> int:
    """What the system said to a new user namespace: 0 for yes, else its error."""
    command = [sys.executable, "-I", "-c", _TRIED, str(account)]
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return ctypes.get_errno() or 1


def _setting(name: str) -> str | None:
    try:
        return (Path("/proc/sys") / name.replace(".", "/", 1)).read_text(encoding="ascii").strip()
    except OSError:
        return None


# --- nbgrader and what it calls


def _nbgrader() -> Iterator[Finding]:
    try:
        version = importlib.metadata.version("nbgrader")
    except importlib.metadata.PackageNotFoundError:
        yield _missing("nbgrader", "missing")
        return
    line = tuple(int(each) for each in version.split(".")[:2] if each.isdecimal())
    yield _ok("nbgrader", version=version) if line == NBGRADER else _warn("nbgrader", "other", version=version)


def _alembic() -> Iterator[Finding]:
    """nbgrader calls it by its name when it makes or updates a gradebook."""
    found = shutil.which("alembic")
    beside = Path(sys.executable).parent
    if found is None:
        yield _missing("alembic", "missing", folder=beside)
        return
    try:
        tried = subprocess.run([found, "--help"], capture_output=True, timeout=_SECONDS, check=False)
        code = tried.returncode
    except (OSError, subprocess.TimeoutExpired):
        code = 1
    yield _ok("alembic", path=found) if code == 0 else _missing("alembic", "broken", path=found, folder=beside)


def _python() -> Iterator[Finding]:
    """Debian 12's own Python 3.11.2 can't compile the patterns of the library that nbgrader makes its feedback pages
    with (soupsieve); the same call is made here.
    """
    version = sys.version.split()[0]
    if importlib.util.find_spec("bs4") is None:
        yield _ok("python", version=version)
        return
    tried = subprocess.run([sys.executable, "-c", _FEEDBACK], capture_output=True, timeout=_SECONDS, check=False)
    if tried.returncode == 0:
        yield _ok("python", version=version)
    else:
        said = (tried.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        yield _missing("python", "broken", version=version, reason=said[:200])


def _fonts() -> Iterator[Finding]:
    """The course's own typeface for what it sets, and one of the system's for Arabic in a browser."""
    own = importlib.util.find_spec("fontpkg_amiri")
    folder = Path(own.origin).parent if own is not None and own.origin else None
    if folder is None or not any(folder.rglob("*.ttf")):
        yield _missing("fonts", "missing")
        return
    if shutil.which("fc-list") is None:
        yield _ok("fonts")
        return
    listed = subprocess.run(["fc-list", ":lang=ar", "family"], capture_output=True, timeout=_SECONDS, check=False)
    yield _ok("fonts") if listed.stdout.strip() else _warn("fonts", "no-arabic")


def _zones() -> Iterator[Finding]:
    """Due moments have zones, which come from the system or from the package tzdata."""
    try:
        ZoneInfo("Europe/Amsterdam")
        ZoneInfo("Africa/Cairo")
        yield _ok("zones")
    except Exception:
        yield _missing("zones", "missing")


def _server() -> Iterator[Finding]:
    """What a student's server should be given, out of the labs' own needs."""
    yield _ok("limits", memory=Size(needs.memory()), cores=needs.cores())
    try:
        version = importlib.metadata.version("jupyterhub")
    except importlib.metadata.PackageNotFoundError:
        return
    yield _ok("hub", version=version)


# --- the exchange and the course folder


def _students_exchange() -> list[Finding]:
    """The exchange that nbgrader's settings name here, if there are any."""
    from shardwise.classroom import student

    if student.configured() is None:
        return []
    try:
        found = student.classes()
    except CourseError as error:
        return [_missing("exchange", "refused", reason=error)]
    return [finding for each in found if each.exchange is not None for finding in _folders(each.exchange, each.id)]


def _exchange(course: Course) -> list[Finding]:
    if not course.exchange:
        return [_warn("exchange", "none")]
    return _folders(Path(course.exchange), course.id)


def _folders(root: Path, course: str) -> list[Finding]:
    """The exchange and its folders of one course: who may do what in each is what nbgrader's exchange rests on."""
    if not root.is_dir():
        return [_missing("exchange", "missing", path=root, mend=f"sudo install -d -m 1777 {root}")]
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & 0o7 != 0o7:
        return [_missing("exchange", "closed", path=root, mode=f"{mode:o}", mend=f"sudo chmod 1777 {root}")]
    found = [_ok("exchange", path=root)]
    if not mode & stat.S_ISVTX:
        found = [_warn("exchange", "not-sticky", path=root, mend=f"sudo chmod +t {root}")]
    for name, wanted, never in (("inbound", 0o3, 0o4), ("outbound", 0o5, 0o2), ("feedback", 0o1, 0o6)):
        folder = root / course / name
        if not folder.is_dir():
            continue
        others = stat.S_IMODE(folder.stat().st_mode) & 0o7
        if others & wanted != wanted or others & never:
            right = wanted | 0o730 if name == "inbound" else wanted | 0o750 if name == "outbound" else wanted | 0o710
            found.append(
                _missing("exchange", "modes", path=folder, mode=f"{others:o}", mend=f"chmod {right:o} {folder}")
            )
    return found


def _course_folder(folder: Path | None) -> list[Finding]:
    """Gradebook and submissions are nobody's but the teachers'."""
    if folder is None:
        return []
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o007:
        return [_missing("folder", "open", path=folder, mode=f"{mode:o}", mend=f"chmod o-rwx {folder}")]
    return [_ok("folder", path=folder)]
