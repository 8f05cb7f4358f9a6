"""What this machine has for the course, and what is missing, in words."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardwise import workspace
from shardwise.learn import KERNEL
from translations import Translator, formats, in_preparation, released

NEEDED_PYTHON = (3, 11)
LAB_MEMORY = 2_000_000_000
"""What four ranks and a notebook take, with room to spare."""
LOW_DISK = 1_000_000_000
EXTENSION = "shardwise-direction"
_RANKS_SECONDS = 60
_RANK = """
import datetime, sys, torch, torch.distributed as dist
rank, path = int(sys.argv[1]), sys.argv[2]
limit = datetime.timedelta(seconds=30)
dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2, timeout=limit)
total = torch.ones(1)
dist.all_reduce(total)
dist.destroy_process_group()
sys.exit(0 if total.item() == 2 else "wrong sum")
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. ``state`` is ``ok``, ``warn`` (learning works without it) or ``missing``."""

    id: str
    state: str
    message: str
    values: dict[str, object] = field(default_factory=dict)

    def sentence(self, text: Translator) -> str:
        """What to tell the learner; sizes and times are written as their language does."""
        return text(f"shardwise.{self.message}", **{key: _shown(each, text) for key, each in self.values.items()})


@dataclass(frozen=True)
class Size:
    """Bytes, to be written in a language's way."""

    bytes: int


@dataclass(frozen=True)
class Seconds:
    """A time, to be written in a language's way."""

    seconds: float


@dataclass(frozen=True)
class Languages:
    """Those of the course by their own names, those in preparation named as that."""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All that was found. It is ready for the course when nothing is missing."""

    findings: tuple[Finding, ...]

    @property
    def ready(self) -> bool:
        return all(each.state != "missing" for each in self.findings)

    def lines(self, text: Translator) -> list[str]:
        """One line a finding."""
        marks = {"ok": "+", "warn": "!", "missing": "x"}
        return [f"{marks[each.state]} {each.sentence(text)}" for each in self.findings]

    def as_json(self, text: Translator) -> list[dict[str, str]]:
        """The findings for a program."""
        return [{"id": each.id, "state": each.state, "sentence": each.sentence(text)} for each in self.findings]


def examine() -> Examination:
    """Looks at everything, which takes some seconds: two ranks are really started."""
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _torch,
        _machine,
        _disk,
        _jupyter,
        _workspace,
        _languages,
        _tests,
    )
    return Examination(findings=tuple(finding for look in looks for finding in look()))


def chromium() -> str | None:
    """The Chromium that the browser tests drive."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("SHARDWISE_CHROMIUM") or next(
        (found for name in names if (found := shutil.which(name))), None
    )


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    if sys.version_info[:2] >= NEEDED_PYTHON:
        yield Finding(id="python", state="ok", message="doctor-python", values={"version": version})
    else:
        values: dict[str, object] = {"version": version, "needed": ".".join(map(str, NEEDED_PYTHON))}
        yield Finding(id="python", state="missing", message="doctor-python-old", values=values)


def _torch() -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding(id="torch", state="missing", message="doctor-torch-missing", values={"reason": error})
        return
    build = (
        f"CUDA {torch.version.cuda}"
        if torch.version.cuda
        else f"ROCm {torch.version.hip}"
        if torch.version.hip
        else "CPU"
    )
    yield Finding(id="torch", state="ok", message="doctor-torch", values={"version": torch.__version__, "build": build})
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    if count:
        yield Finding(id="gpu", state="ok", message="doctor-gpu", values={"names": names})
    else:
        yield Finding(id="gpu", state="ok", message="doctor-gpu-none")
    yield _ranks()


def _ranks() -> Finding:
    """Two ranks add their ones over gloo, as every lab does."""
    network = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _RANK]
        ranks = [
            subprocess.Popen(
                [*command, str(rank), str(Path(folder) / "store")],
                env={**os.environ, **network, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            for rank in range(2)
        ]
        said = ""
        try:
            for each in ranks:
                left = max(0.1, _RANKS_SECONDS - (time.monotonic() - started))
                _, errors = each.communicate(timeout=left)
                if each.returncode:
                    said = said or (errors.strip().splitlines() or [str(each.returncode)])[-1]
        except subprocess.TimeoutExpired:
            said = f"> {_RANKS_SECONDS} s"
        finally:
            for each in ranks:
                if each.poll() is None:
                    each.kill()
                each.wait()
                if each.stderr:
                    each.stderr.close()
    if said:
        return Finding(id="gloo", state="missing", message="doctor-gloo-missing", values={"reason": said})
    taken = Seconds(time.monotonic() - started)
    return Finding(id="gloo", state="ok", message="doctor-gloo", values={"seconds": taken})


def _machine() -> Iterator[Finding]:
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    few = cores < 2
    message = "doctor-cores-few" if few else "doctor-cores"
    yield Finding(id="cores", state="warn" if few else "ok", message=message, values={} if few else {"cores": cores})
    memory = psutil.virtual_memory()
    low = memory.available < LAB_MEMORY
    values: dict[str, object] = {"free": Size(memory.available), "total": Size(memory.total)}
    if low:
        values["needed"] = Size(LAB_MEMORY)
    message = "doctor-memory-low" if low else "doctor-memory"
    yield Finding(id="memory", state="warn" if low else "ok", message=message, values=values)


def _disk() -> Iterator[Finding]:
    path = _existing(workspace.folder())
    free = shutil.disk_usage(path).free
    low = free < LOW_DISK
    message = "doctor-disk-low" if low else "doctor-disk"
    yield Finding(id="disk", state="warn" if low else "ok", message=message, values={"path": path, "free": Size(free)})


def _jupyter() -> Iterator[Finding]:
    missing = []
    version = ""
    try:
        import jupyterlab  # type: ignore[import-untyped]

        version = jupyterlab.__version__
    except ImportError:
        missing.append("jupyterlab")
    share = Path(sys.prefix) / "share" / "jupyter"
    parts = {
        f"kernel {KERNEL}": share / "kernels" / KERNEL / "kernel.json",
        f"labextension {EXTENSION}": share / "labextensions" / EXTENSION / "package.json",
        f"template {KERNEL}": share / "nbconvert" / "templates" / KERNEL / "conf.json",
    }
    missing += [name for name, path in parts.items() if not _is_json(path)]
    if missing:
        values: dict[str, object] = {"parts": ", ".join(missing)}
        yield Finding(id="jupyter", state="missing", message="doctor-jupyter-missing", values=values)
    else:
        yield Finding(id="jupyter", state="ok", message="doctor-jupyter", values={"version": version})


def _workspace() -> Iterator[Finding]:
    path = workspace.folder()
    above = _existing(path)
    if not above.is_dir():
        yield Finding(id="workspace", state="missing", message="workspace-not-a-folder", values={"path": above})
    elif not os.access(above, os.R_OK | os.W_OK | os.X_OK):
        values: dict[str, object] = {"path": above, "reason": os.strerror(13)}
        yield Finding(id="workspace", state="missing", message="workspace-refused", values=values)
    else:
        message = "doctor-workspace" if above == path else "doctor-workspace-none"
        yield Finding(id="workspace", state="ok", message=message, values={"path": path})


def _languages() -> Iterator[Finding]:
    yield Finding(id="languages", state="ok", message="doctor-languages", values={"languages": Languages()})


def _tests() -> Iterator[Finding]:
    for id, found in (("chromium", chromium()), ("node", shutil.which("node")), ("bubblewrap", shutil.which("bwrap"))):
        state, message = ("ok", f"doctor-{id}") if found else ("warn", f"doctor-{id}-missing")
        yield Finding(id=id, state=state, message=message)


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _shown(value: object, text: Translator) -> object:
    if isinstance(value, Size):
        return formats.bytes_(value.bytes, text.language)
    if isinstance(value, Seconds):
        return formats.duration(value.seconds, text.language)
    if isinstance(value, Languages):
        waiting = (text("shardwise.language-in-preparation", language=each.name) for each in in_preparation())
        return ", ".join((*(each.name for each in released()), *waiting))
    return value
