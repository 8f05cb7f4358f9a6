"""A real JupyterHub with real accounts: its proxy, its Hub, servers that run as their users. Only root can have one.

A server's user must be able to run Python. Where this Python lies in a folder that only its owner opens, a copy (of
hard links, where that goes) is laid beside the accounts' homes, with the packages of this environment.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

NODE = Path(__file__).parent / "node" / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
PASSWORD = "a password of the tests"
MARK = "SHARDWISE_HUB_TEST"
START_SECONDS = 60


def why_not() -> str | None:
    """Why there can be no Hub here; None where there can."""
    if not sys.platform.startswith("linux") or os.getuid() != 0:
        return "Accounts are made by root alone, so this test of a JupyterHub is skipped."
    if shutil.which("useradd") is None or shutil.which("userdel") is None:
        return "useradd is not here, so this test of a JupyterHub is skipped (apt install passwd)."
    if shutil.which("node") is None:
        return "Node.js is not here, so this test of a JupyterHub is skipped (apt install nodejs npm)."
    if not NODE.is_file():
        return f"The Hub's proxy is not installed, so this test is skipped (npm ci in {NODE.parents[3]})."
    try:
        import jupyterhub  # noqa: F401
    except ImportError:
        return "jupyterhub is not here, so this test is skipped (pip install jupyterhub)."
    return None


@contextlib.contextmanager
def accounts(*names: str) -> Iterator[dict[str, str]]:
    """Accounts of this machine, each with a home, under names of their own; gone afterwards with all they own."""
    folder = Path(tempfile.mkdtemp(prefix="shardwise-homes-"))
    folder.chmod(0o755)
    tail = uuid.uuid4().hex[:6]
    made = {name: f"{name}-{tail}" for name in names}
    try:
        for account in made.values():
            home = folder / account
            command = ["useradd", "--home-dir", str(home), "--create-home", "--skel", "/dev/null", "--shell", "/bin/sh"]
            subprocess.run([*command, account], check=True, capture_output=True, timeout=30)
            home.mkdir(exist_ok=True)
            home.chmod(0o700)
            shutil.chown(home, account, account)
        yield made
    finally:
        for account in made.values():
            with contextlib.suppress(KeyError):
                _end_all_of(pwd.getpwnam(account).pw_uid)
                subprocess.run(["userdel", "--force", account], check=False, capture_output=True, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _end_all_of(uid: int) -> None:
    """Every process of an account that these tests made."""
    for each in psutil.process_iter(["uids"]):
        with contextlib.suppress(psutil.Error):
            if each.info["uids"] is not None and each.info["uids"].real == uid:
                each.kill()


def python_for(account: str, folder: Path) -> Path:
    """A Python with this environment's packages that the account can run; `folder` is one that it can read."""
    if _runs(Path(sys.executable), account):
        return Path(sys.executable)
    base, made = folder / "base", folder / "env"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    real = Path(sys.executable).resolve()
    (base / "bin").mkdir(parents=True)
    (made / "bin").mkdir(parents=True)
    _copied(real, base / "bin" / version)
    for library in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        _copied(library.resolve(), base / "lib" / library.name)
    left_out = shutil.ignore_patterns("site-packages", "test", "idlelib", "config-*")
    shutil.copytree(
        Path(sys.base_prefix, "lib", version), base / "lib" / version, ignore=left_out, copy_function=_copied
    )
    wrapper = made / "bin" / "python"
    wrapper.write_text(
        f'#!/bin/bash\nexport LD_LIBRARY_PATH={base}/lib\nexec -a "$0" {base}/bin/{version} "$@"\n', encoding="ascii"
    )
    wrapper.chmod(0o755)
    (made / "pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n", encoding="ascii")
    packages = made / "lib" / version
    packages.mkdir(parents=True)  # a sandbox shows a Python's own folders: the packages must lie there
    own = Path(sys.prefix, "lib", version, "site-packages")
    linked = subprocess.run(["cp", "-al", str(own), str(packages)], capture_output=True, timeout=120, check=False)
    if linked.returncode != 0:
        raise RuntimeError(linked.stderr.decode(errors="replace")[-500:])
    for program in ("alembic", "nbgrader", "jupyter"):
        script = made / "bin" / program
        found = Path(sys.prefix, "bin", program).read_text(encoding="utf-8").split("\n", 1)[1]
        script.write_text(f"#!{wrapper}\n{found}", encoding="utf-8")
        script.chmod(0o755)
    (made / "share" / "jupyter").mkdir(parents=True)
    for part in ("lab", "nbconvert"):
        (made / "share" / "jupyter" / part).symlink_to(Path(sys.prefix, "share", "jupyter", part))
    (made / "etc").symlink_to(Path(sys.prefix, "etc"))
    if not _runs(wrapper, account):
        raise RuntimeError(f"{account} can't run {wrapper}")
    return wrapper


def _copied(source: str | Path, target: str | Path) -> str:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return str(target)


def _runs(python: Path, account: str) -> bool:
    command = [str(python), "-c", "import jupyterhub, shardwise, ssl, sqlite3"]
    try:
        return run_as(account, command).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def run_as(
    account: str, command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command as an account, in its home, with what a login gives in its environment, and `environment`."""
    home = pwd.getpwnam(account).pw_dir
    given = {"HOME": home, "PATH": f"{Path(command[0]).parent}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    return subprocess.run(
        list(command),
        user=account,
        group=account,
        extra_groups=[],
        cwd=cwd or home,
        env={**given, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


class Hub:
    """A Hub whose servers run from `python`; `subconfig` is loaded at the end of its configuration."""

    def __init__(
        self,
        folder: Path,
        *,
        python: Path,
        users: Sequence[str],
        subconfig: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.port, hub, api = (free_port() for _ in range(3))
        config = folder / "jupyterhub_config.py"
        config.write_text(
            f"""c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{self.port}"
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = ["node", {str(NODE)!r}]
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = {PASSWORD!r}
c.Authenticator.allowed_users = {set(users)!r}
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = [{str(python)!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab"
c.Spawner.args = ["--LabApp.expose_app_in_browser=True"]
c.Spawner.start_timeout = {START_SECONDS}
c.Spawner.http_timeout = {START_SECONDS}
c.Spawner.environment.update({environment or {}!r})
c.JupyterHub.log_level = "INFO"
load_subconfig({str(subconfig)!r})
""",
            encoding="utf-8",
        )
        self.log = folder / "hub.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(config)],
                cwd=folder,
                env={**os.environ, MARK: self.mark},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Hub:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if self._answers():
                return self
            time.sleep(0.3)
        self.stop()
        raise AssertionError(self.said())

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/hub/login", timeout=2):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]

    def stop(self) -> None:
        """Ends Hub, proxy, services and servers."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        for each in self._left():
            with contextlib.suppress(psutil.Error):
                each.kill()

    def _left(self) -> list[psutil.Process]:
        found = []
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if each.environ().get(MARK) == self.mark:
                    found.append(each)
        return found


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
