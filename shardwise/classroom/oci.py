"""Walls by an OCI runtime, crun or runc: what podman and docker themselves start containers with, and what a system
that bars bubblewrap often lets make namespaces (Ubuntu's AppArmor does). As root or as an ordinary user, without a
daemon, an image, or a line in /etc/subuid.

The bundle is ours: its root is an empty folder, in which the interior is mounted; no capability, no new privileges, one
user, namespaces of their own for everything, the kernel's files masked. Without cgroups of its own: the watcher of the
sandbox counts, and the cell's filter bars what no rank needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shardwise.classroom import processes
from shardwise.classroom.interior import ENVIRONMENT, FILES, HOST, KERNEL, SOMEBODY, WRITABLE, Interior, is_root
from translations import CourseError

_ENDING = 5.0
"""Seconds in which a runtime whose container was killed removes what it kept of it."""
_KERNEL = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/scsi"),
    *("/proc/latency_stats", "/proc/sched_debug", "/proc/timer_list", "/proc/timer_stats", "/proc/kmsg"),
)
"""What of the kernel nobody reads in there."""
_INODES = 100_000


class Runtime:
    """As `walls.Backend`, by this program."""

    def __init__(self, program: str, *options: str) -> None:
        self.name = program
        self._options = options

    def missing(self) -> CourseError | None:
        if sys.platform == "linux" and shutil.which(self.name) is not None:
            return None
        return CourseError("shardwise.sandbox-no-runtime", program=self.name)

    def command(self, inside: Interior, place: Path, program: Sequence[str]) -> list[str]:
        bundle = place / "bundle"
        _root(bundle / "root", inside)
        (bundle / "config.json").write_text(json.dumps(config(inside, program)), encoding="utf-8")
        state = ["--root", str(place / "state"), *self._options]
        return [self.name, *state, "run", "--bundle", str(bundle), f"shardwise-{place.name}"]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills the container's first process, which takes all others along; the runtime then removes its state."""
        until = time.monotonic() + _ENDING
        while process.poll() is None and time.monotonic() < until:
            _kill(processes.descendants(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        left = tuple(processes.descendants(process.pid))
        process.kill()
        process.wait()
        _kill(left)


CRUN, RUNC = Runtime("crun", "--cgroup-manager=disabled"), Runtime("runc")


def config(inside: Interior, program: Sequence[str]) -> dict[str, Any]:
    """The bundle's config.json."""
    none: list[str] = []
    user = SOMEBODY if is_root() else 0
    namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup", *([] if is_root() else ["user"])]
    mapped = [] if is_root() else [{"containerID": 0, "hostID": os.getuid(), "size": 1}]
    groups = [] if is_root() else [{"containerID": 0, "hostID": os.getgid(), "size": 1}]
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        _memory("/dev", 2**20, "noexec", mode="0755"),
        *(_memory(folder, FILES, "nodev", mode="1777") for folder in WRITABLE),
        *(
            {"destination": at, "type": "bind", "source": str(outside), "options": ["rbind", "ro", "nosuid", "nodev"]}
            for outside, at in inside.shown
        ),
    ]
    return {
        "ociVersion": "1.0.2",
        "hostname": HOST,
        "root": {"path": "root", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": user, "gid": user},
            "args": [*program],
            "env": [f"{variable}={value}" for variable, value in ENVIRONMENT.items()],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "inheritable", "permitted", "ambient"), none),
            "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": each} for each in namespaces],
            "uidMappings": mapped,
            "gidMappings": groups,
            "maskedPaths": [*_KERNEL],
            "readonlyPaths": [*KERNEL],
        },
    }


def _memory(folder: str, size: int, *more: str, mode: str) -> dict[str, Any]:
    options = ["nosuid", *more, f"mode={mode}", f"size={size}", f"nr_inodes={_INODES}"]
    return {"destination": folder, "type": "tmpfs", "source": "tmpfs", "options": options}


def _root(root: Path, inside: Interior) -> None:
    """An empty folder for everything that is mounted: the root itself is read-only when the runtime comes to it."""
    root.mkdir(parents=True)
    tops = [at for _, at in inside.shown if not any(Path(other) in Path(at).parents for _, other in inside.shown)]
    files = {at for outside, at in inside.shown if outside.is_file()}
    for at in ("/proc", "/dev", *WRITABLE, *inside.folders(), *tops):
        spot = root / at[1:]
        if at in files:
            spot.touch()
        else:
            spot.mkdir(parents=True, exist_ok=True)
            spot.chmod(0o1777 if at in WRITABLE else 0o755)  # runc gives what it mounts there the same mode
    root.chmod(0o755)
    for at, target in inside.links.items():
        (root / at[1:]).symlink_to(target)


def _kill(pids: Iterable[int]) -> None:
    for each in tuple(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
