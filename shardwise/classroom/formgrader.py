"""formgrader on a teacher's own machine: a Jupyter server in the course folder, which opens it in a tab of its own."""

from __future__ import annotations

import importlib.util
import os
import secrets
import sys
from pathlib import Path
from typing import NoReturn

from shardwise import learn
from translations import CourseError, Translator

EXTENSIONS = ("nbgrader.server_extensions.formgrader", "jupyterlab", "notebook")


def open_here(folder: Path, text: Translator, *, port: int | None = None, browser: bool = True) -> NoReturn:
    """Runs the server until it is stopped, then ends the process. Raises CourseError where nbgrader is missing."""
    if importlib.util.find_spec("nbgrader") is None:
        raise CourseError("shardwise.classroom-needs-nbgrader")
    port = learn.free_port() if port is None else port
    token = secrets.token_hex(24)
    os.chdir(folder)  # nbgrader reads the settings of the folder that it is started in
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    given = [
        f"--ServerApp.root_dir={folder}",
        "--ServerApp.default_url=/formgrader",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.open_browser={browser and learn.has_screen()}",
        f"--ServerApp.jpserver_extensions={dict.fromkeys(EXTENSIONS, True)}",
        "--ServerApp.log_level=ERROR",
    ]
    print(text("shardwise.learn-no-screen", address=f"http://localhost:{port}/formgrader?token={token}"), flush=True)
    from jupyter_server.serverapp import ServerApp

    code = 0
    try:
        ServerApp.launch_instance([*given, "--allow-root"] if os.getuid() == 0 else given)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
