"""Walls by bubblewrap, as root or as an ordinary user: namespaces of its own for users, processes, network, host name,
messages and cgroups. It is the parent of the sandbox's first process, and takes it along when it ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwise.classroom.interior import ENVIRONMENT, FILES, HOST, KERNEL, USER, WRITABLE, Interior, is_root
from translations import CourseError

PROGRAM = "bwrap"


class Bubblewrap:
    """As `walls.Backend`."""

    name = "bubblewrap"

    def missing(self) -> CourseError | None:
        if sys.platform == "linux" and shutil.which(PROGRAM) is not None:
            return None
        return CourseError("shardwise.sandbox-no-bubblewrap")

    def command(self, inside: Interior, place: Path, program: Sequence[str]) -> list[str]:
        built = [PROGRAM, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        built += ["--cap-drop", "ALL"]
        if is_root():  # the sandbox's first process becomes somebody else, and loses these two with it
            built += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        else:
            built += ["--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)]
        built += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", HOST]
        for at, target in inside.links.items():
            built += ["--symlink", target, at]
        built += ["--proc", "/proc", "--dev", "/dev"]
        for system in KERNEL:  # bubblewrap forgets them where root is in a namespace of users
            built += ["--ro-bind-try", system, system]
        for folder in WRITABLE:  # before what is shown, which may lie below one of them on this machine
            built += ["--size", str(FILES), "--perms", "1777", "--tmpfs", folder]
        for folder in inside.folders():
            built += ["--perms", "0755", "--dir", folder]
        for outside, at in inside.shown:
            built += ["--ro-bind", str(outside), at]
        for variable, value in ENVIRONMENT.items():
            built += ["--setenv", variable, value]
        return [*built, "--chdir", "/", "--remount-ro", "/", *program]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """The first process of the namespace dies with bubblewrap, and with it all others."""
        process.kill()
        process.wait()
