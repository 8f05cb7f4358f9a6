"""Walls by bubblewrap, as root or as an ordinary user: namespaces of its own for users, processes, network, host name,
messages and cgroups. It is the parent of the sandbox's first process, and takes it along when it ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwise.classroom.interior import ENVIRONMENT, FILES, HOST, USER, WRITABLE, Interior
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
        built = [PROGRAM, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)]
        built += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", "--hostname", HOST]
        for at, target in inside.links.items():
            built += ["--symlink", target, at]
        built += ["--proc", "/proc", "--dev", "/dev"]
        for folder in WRITABLE:  # before what is shown, which may lie below one of them on this machine
            built += ["--size", str(FILES), "--tmpfs", folder]
        for outside, at in inside.shown:
            built += ["--ro-bind", str(outside), at]
        for variable, value in ENVIRONMENT.items():
            built += ["--setenv", variable, value]
        return [*built, "--chdir", "/", "--remount-ro", "/", *program]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """The first process of the namespace dies with bubblewrap, and with it all others."""
        process.kill()
        process.wait()
