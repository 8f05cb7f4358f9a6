"""Starts JupyterLab on the course's home, in the learner's language, without touching the user's own Jupyter.

Everything that Jupyter and IPython keep (settings, open tabs, running servers, history) goes into folders of the
course's own, beside the learner's record. The interface is in the course's language where JupyterLab has a language
pack for it installed, and in English elsewhere.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from shardwise import workspace
from shardwise.record.database import folder as data_folder
from translations import CourseError, Language, translator

JUPYTER = Path(__file__).resolve().parent / "jupyter"
KERNEL = "shardwise"
HOME = "home.ipynb"
FIRST_PORT = 8888
TEACHERS_PAGES = ("@jupyter/nbgrader",)
TEACHERS_SERVER = tuple(
    f"nbgrader.server_extensions.{name}"
    for name in ("formgrader", "validate_assignment", "assignment_list", "course_list")
)
"""What nbgrader adds to every JupyterLab of its environment: who learns alone has no use for it."""
_PORTS = 100
_START_SECONDS = 60


def learn(language: Language, *, port: int | None = None, browser: bool = True) -> NoReturn:
    """Runs JupyterLab until it is stopped, then ends the process. Raises CourseError where it can't be started."""
    chosen = workspace.prepare(language)
    text = translator(language)
    for notice in chosen.notices:
        print(notice.in_language(text))
    port = free_port() if port is None else _checked(port)
    os.environ.update(environment(chosen))
    token = secrets.token_hex(24)
    opened = browser and has_screen()
    address = f"http://localhost:{port}/lab/tree/{_home(chosen)}?token={token}"
    ready = threading.Thread(target=_announce, args=(address, port, opened, chosen), daemon=True)
    ready.start()
    _launch(arguments(chosen, port=port, token=token, browser=opened))


def environment(chosen: workspace.Workspace) -> dict[str, str]:
    """What Jupyter and the kernels are to find in their environment; the settings of this launch are written there."""
    private = data_folder() / "jupyter"
    config = private / "launch" / chosen.language.code
    files = {
        "labconfig/default_setting_overrides.json": settings(chosen.language),
        "labconfig/page_config.json": {"disabledExtensions": dict.fromkeys(TEACHERS_PAGES, True)},
        "jupyter_server_config.json": {"ServerApp": {"jpserver_extensions": dict.fromkeys(TEACHERS_SERVER, False)}},
    }
    try:
        for name, content in files.items():
            file = config / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    except OSError as error:
        raise CourseError("shardwise.record-refused", path=private, reason=error.strerror or error) from error
    return {
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_CONFIG_PATH": str(config),
        "JUPYTER_DATA_DIR": str(private / "data"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "JUPYTER_PATH": str(JUPYTER),
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(private / "ipython"),
        "SHARDWISE_HOME": str(chosen.folder),
        "SHARDWISE_LANG": chosen.language.code,
    }


def settings(language: Language) -> dict[str, dict[str, object]]:
    """What JupyterLab's settings are until the learner changes them."""
    return {
        "@jupyterlab/translation-extension:plugin": {"locale": interface(language)},
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True},
    }


def interface(language: Language) -> str:
    """The locale of JupyterLab's own words: the language's, where a pack for it is installed, else English."""
    packs = sorted(each.name for each in entry_points(group="jupyterlab.languagepack"))
    return next((name for name in packs if name.split("_")[0] == language.code), "en")


def arguments(chosen: workspace.Workspace, *, port: int, token: str, browser: bool) -> list[str]:
    """What JupyterLab is started with."""
    given = [
        f"--ServerApp.root_dir={chosen.folder}",
        f"--LabApp.default_url=/lab/tree/{_home(chosen)}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.open_browser={browser}",
        "--ServerApp.use_redirect_file=False",
        "--ServerApp.answer_yes=True",
        f"--MultiKernelManager.default_kernel_name={KERNEL}",
        "--HTMLExporter.template_name=shardwise",
        "--LabApp.news_url=None",
        "--LabApp.extension_manager=readonly",
        "--Application.log_level=ERROR",
        "--ServerApp.log_level=ERROR",
        "--LabApp.log_level=ERROR",
    ]
    return [*given, "--allow-root"] if os.getuid() == 0 else given


def has_screen(environ: dict[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Whether a browser can be shown to the person at this terminal."""
    known = dict(os.environ) if environ is None else environ
    if known.get("BROWSER"):
        return True
    if platform == "darwin":
        return "SSH_CONNECTION" not in known
    return any(known.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))


def free_port() -> int:
    """A port that nothing listens on: the first from Jupyter's usual one, so that bookmarks tend to hold."""
    return next((port for port in range(FIRST_PORT, FIRST_PORT + _PORTS) if _is_free(port)), 0) or _any_port()


def _checked(port: int) -> int:
    if not _is_free(port):
        raise CourseError("shardwise.learn-port-busy", port=port)
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _any_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def _home(chosen: workspace.Workspace) -> str:
    """The page that opens first, as a part of the address: the home of the language, else its folder."""
    home = Path(chosen.language.code) / HOME
    return quote((home if (chosen.folder / home).exists() else home.parent).as_posix())


def _announce(address: str, port: int, opened: bool, chosen: workspace.Workspace) -> None:
    """Says where the course is, once it answers."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        with socket.socket() as tried:
            tried.settimeout(1)
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                text = translator(chosen.language)
                print(text("shardwise.learn-opening" if opened else "shardwise.learn-no-screen", address=address))
                print(text("shardwise.learn-stop", path=chosen.folder), flush=True)
                return
        time.sleep(0.1)


def _launch(given: list[str]) -> NoReturn:
    """Runs JupyterLab and then ends this process at once.

    A worker thread of the server's that waits for work is left behind when its loop is stopped (anyio); Python would
    wait for it for ever, and Ctrl-C would seem to do nothing.
    """
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    code = 0
    try:
        LabApp.launch_instance(given)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
