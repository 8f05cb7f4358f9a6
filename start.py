#!/usr/bin/env python3
"""Starts the course from a fresh clone: ``python start.py learn``. Needs Python 3.11 and nothing else.

Every command first sees to it that ``.venv`` holds what the lock names, says how much it downloads, and goes on where
an interrupted installation stopped; then it runs the course's own program there. What is installed is written in one
stamp, so that a second start needs neither network nor time. Any Python can run this file, be it to say which one it
needs: it keeps to the standard library and to the syntax of Python 3.7.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import xml.etree.ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).resolve().parent
NEEDED = (3, 11)
TORCH_INDEX = "https://download.pytorch.org/whl/"
ROCM = "rocm7.2"
"""The ROCm release for which PyTorch builds the locked torch; another one is named in full: ``TORCH=rocm7.1``."""
DISK_FACTOR, TORCH_FACTOR = 5, 4
"""How many times its own size a download takes on the disk, unpacked and with pip's copy."""
FULL = 2_000_000
"""A disk with less than this is full, whatever the program says that could not write."""
RETRIES = 3
INDEX_SECONDS = 6
BIDI = ("\u2066", "\u2069")


class Problem(Exception):
    """What stopped the start, as a message's id and values."""

    def __init__(self, id: str, **values: object) -> None:
        super().__init__(id)
        self.id = id
        self.values = values


class Words:
    """The messages that are shown before anything is installed, in the learner's language.

    They are extracted from the course's catalogs into ``shardwise/start.json`` by ``tools/start_words.py``.
    """

    def __init__(
        self, *, asked: str | None, environ: Mapping[str, str], path: Path = ROOT / "shardwise" / "start.json"
    ) -> None:
        languages: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        chosen = [asked or "", environ.get("SHARDWISE_LANG", "")]
        theirs: list[str] = []
        for variable in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
            theirs += [re.split(r"[_.@]", each)[0].lower() for each in environ.get(variable, "").split(":")]
        offered = [each for each in theirs if languages.get(each, {}).get("released")]
        self.code = next((each for each in (*chosen, *offered) if each in languages), "en")
        self.rtl = languages[self.code]["direction"] == "rtl"
        self.messages: dict[str, str] = {**languages["en"]["messages"], **languages[self.code]["messages"]}

    def __call__(self, id: str, **values: object) -> str:
        shown = {key: f"{BIDI[0]}{each}{BIDI[1]}" if self.rtl else each for key, each in values.items()}
        return self.messages[id].format(**shown)

    def size(self, count: int) -> str:
        """Bytes in three significant digits."""
        value, unit = (count / 1e9, "GB") if count >= 1e9 else (count / 1e6, "MB")
        text = f"{value:.3g}" if value < 1000 else str(round(value))
        return "{}\u202f{}".format(text.replace(".", ",") if self.code == "nl" else text, unit)


class Package(NamedTuple):
    """One line of a lock, with what its comments say."""

    requirement: str
    name: str
    bytes: int
    url: str
    hashes: tuple[str, ...]


class Lock:
    """A lock: the packages, and what its header says about the download's size."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.download: dict[str, int] = {}
        self.torch: dict[str, int] = {}
        self.packages: list[Package] = []
        for line in self.text.splitlines():
            head = re.match(r"# (download|torch) (.+) (\d+)$", line)
            note = re.match(r"#   (bytes |url |sha256:)(.+)$", line)
            if head:
                (self.download if head.group(1) == "download" else self.torch)[head.group(2)] = int(head.group(3))
            elif note and self.packages:
                last, value = self.packages[-1], note.group(2)
                if note.group(1) == "bytes ":
                    last = last._replace(bytes=int(value))
                elif note.group(1) == "url ":
                    last = last._replace(url=value)
                else:
                    last = last._replace(hashes=(*last.hashes, value))
                self.packages[-1] = last
            elif line and not line.startswith("#"):
                name = re.split(r"[=<>;\s]", line)[0]
                self.packages.append(Package(requirement=line, name=name, bytes=0, url="", hashes=()))

    def find(self, name: str) -> Package:
        return next(each for each in self.packages if each.name == name)

    def requirements(self) -> str:
        """The hashed packages as a requirements file with pip's ``--hash`` options."""
        hashed = [each for each in self.packages if each.hashes]
        return "".join(
            each.requirement + "".join(" --hash=sha256:" + one for one in each.hashes) + "\n" for each in hashed
        )


class Progress:
    """One line a step; on a terminal one bar that is drawn again and again."""

    def __init__(self, *, total: int, out: IO[str]) -> None:
        self.total, self.out, self.done, self.name = total, out, 0, ""
        self.drawn = 0.0

    def step(self, name: str) -> None:
        self.done, self.name = min(self.done + 1, self.total), name
        if self.out.isatty():
            self.draw("", force=True)
        else:
            self.out.write(f"  {self.done}/{self.total} {name}\n")
            self.out.flush()

    def draw(self, note: str, *, force: bool = False) -> None:
        if not self.out.isatty() or (not force and time.monotonic() - self.drawn < 0.1):
            return
        self.drawn = time.monotonic()
        full = 30 * self.done // max(self.total, 1)
        line = "  [{}{}] {}/{} {} {}".format("#" * full, "." * (30 - full), self.done, self.total, self.name, note)
        width = shutil.get_terminal_size().columns - 1
        self.out.write("\r" + line[:width].ljust(width))
        self.out.flush()

    def end(self) -> None:
        if self.out.isatty() and self.total:
            self.out.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self.out.flush()


class Environment:
    """The course's virtual environment, and the stamp that says what is in it."""

    def __init__(self, *, root: Path, words: Words, out: IO[str], build: str = "cpu") -> None:
        self.root, self.words, self.build, self.out = root, words, build, out
        self._lies_in(root / ".venv")
        self.counts = False
        self.claim = -1

    def _lies_in(self, folder: Path) -> None:
        self.folder = folder
        self.python = self.folder / "bin" / "python"
        self.stamp = self.folder / "shardwise-stamp.json"
        self.log = self.folder / "shardwise-install.log"

    def say(self, id: str, **values: object) -> None:
        self.out.write(self.words(id, **values) + "\n")
        self.out.flush()

    # --- what is wanted, what is there

    def wanted(self, locks: Sequence[str]) -> dict[str, str]:
        """What the stamp says when all is installed."""
        course = hashlib.sha256((self.root / "pyproject.toml").read_bytes())
        for path in sorted((self.root / "shardwise" / "jupyter").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                course.update(str(path.relative_to(self.root)).encode() + path.read_bytes())
        wanted = {
            "python": platform.python_version(),
            "root": str(self.root),
            "torch": self.build,
            "course": course.hexdigest(),
        }
        for name in locks:
            wanted[name] = hashlib.sha256((self.root / name).read_bytes()).hexdigest()
        return wanted

    def found(self) -> dict[str, str]:
        """What the stamp says; nothing where there is none or it can't be read."""
        try:
            found = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and self.python.exists() else {}

    def ensure(self, locks: Sequence[str]) -> None:
        """Installs what is missing; does nothing, and needs no network, where the stamp says that all is there."""
        wanted = self.wanted(locks)
        if self._has(wanted):
            return
        with self._alone():
            if not self._has(wanted):
                try:
                    self._install(wanted, [Lock(self.root / each) for each in locks], self.found())
                except OSError as error:
                    raise problem_of(str(error), folder=self.root, log=self.log) from error

    def _has(self, wanted: Mapping[str, str]) -> bool:
        found = self.found()
        return all(found.get(key) == value for key, value in wanted.items())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One installation at a time in this folder. A pip whose start was killed keeps the claim until it ends too."""
        import fcntl  # not on Windows, where the course is refused before it comes here

        self.claim = os.open(str(self.root), os.O_RDONLY)
        try:
            try:
                fcntl.flock(self.claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.say("start-waiting")
                fcntl.flock(self.claim, fcntl.LOCK_EX)
            yield
        finally:
            os.close(self.claim)

    # --- installing

    def _install(self, wanted: Mapping[str, str], locks: Sequence[Lock], found: dict[str, str]) -> None:
        same = all(found.get(key) == wanted[key] for key in ("python", "root")) and self.python.exists()
        lock = locks[0]
        names = [name for name in wanted if name.endswith(".lock")]
        missing = [each for name, each in zip(names, locks, strict=True) if not same or found.get(name) != wanted[name]]
        torch = not same or found.get("torch") != wanted["torch"]
        if missing or torch:
            self._announce(missing, torch=lock.torch if torch else {})
        if not same:
            self.say("start-making", folder=self.folder)
            self._make(lock.find("pip"))
            found = {key: wanted[key] for key in ("python", "root")}
            self._write(found)
        elif "course" not in found:
            self.say("start-repairing")
        repaired = self._drop_broken()
        for name, each in zip(names, locks, strict=True):
            if found.get(name) != wanted[name] or repaired:
                self._pip_self(lock.find("pip"))
                self._packages(each)
                found[name] = wanted[name]
                self._write(found)
        if found.get("torch") != wanted["torch"] or "torch" in repaired:
            self._torch(lock, change="torch" in found and found["torch"] != wanted["torch"])
            found["torch"] = wanted["torch"]
            self._write(found)
        self.say("start-course")
        self._pip(["--no-deps", "--no-build-isolation", "--no-index", "--editable", str(self.root)], total=0)
        self._write({**found, **wanted})
        self.say("start-ready")

    def _announce(self, locks: Sequence[Lock], *, torch: Mapping[str, int]) -> None:
        """How much comes over the network and how much stays on the disk; refuses where the disk can't hold it. `torch`
        has the bytes of its builds, and none where torch is here.
        """
        packages = sum(each.download.get(machine(), each.download["linux-x86_64"]) for each in locks)
        builds = (f"{self.build} {machine()}", f"{self.build} linux-x86_64", "cuda linux-x86_64")
        of_torch = next((torch[each] for each in builds if torch.get(each)), 0)
        size = self.words.size
        self.say("start-size", size=size(packages + of_torch), packages=size(packages), torch=size(of_torch))
        needed = DISK_FACTOR * packages + TORCH_FACTOR * of_torch
        free = shutil.disk_usage(str(self.root)).free
        if free < needed and not self.stamp.exists():
            raise Problem("start-disk-full", folder=self.root, needed=size(needed), free=size(free))

    def _make(self, pip: Package) -> None:
        """A fresh environment with pip, also where the system's Python was packaged without it."""
        command = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode == 0:
            return
        if importlib.util.find_spec("ensurepip"):
            raise problem_of(made.stdout, folder=self.root, log=None)
        subprocess.run([*command, "--without-pip"], check=True)
        with tempfile.TemporaryDirectory() as name:
            wheel = Path(name) / pip.url.rsplit("/", 1)[-1]
            try:
                with urllib.request.urlopen(pip.url, timeout=30) as answer:
                    wheel.write_bytes(answer.read())
            except OSError as error:
                raise Problem("start-no-network", reason=error) from error
            if hashlib.sha256(wheel.read_bytes()).hexdigest() not in pip.hashes:
                raise Problem("start-hash", package="pip")
            command = [str(self.python), str(wheel / "pip"), "install", "--no-index", "--quiet", str(wheel)]
            subprocess.run(command, check=True)

    def _pip_self(self, pip: Package) -> None:
        """The locked pip, so that what follows reads one pip's output; a pip since 24.1 also counts its bytes."""
        version = pip.requirement.split("==")[1]
        command = [str(self.python), "-m", "pip", "--version"]
        installed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if f" {version} " not in installed.stdout:
            self._pip(["--no-deps", pip.requirement], total=0)
        self.counts = int(version.split(".")[0]) > 24

    def _drop_broken(self) -> list[str]:
        """The packages that an interrupted installation left without some of their files; pip no longer sees them."""
        answer = subprocess.run([str(self.python), "-I", "-c", BROKEN], stdout=subprocess.PIPE, text=True, check=True)
        broken: list[list[str]] = json.loads(answer.stdout)
        for _, folder in broken:
            shutil.rmtree(folder, ignore_errors=True)
        return [name for name, _ in broken]

    def _packages(self, lock: Lock, options: Sequence[str] = ()) -> None:
        total = sum(1 for each in lock.packages if each.hashes)
        self.say("start-packages")
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "requirements.txt"
            path.write_text(lock.requirements(), encoding="utf-8")
            self._pip([*options, "--no-deps", "--require-hashes", "--requirement", str(path)], total=total)

    def _torch(self, lock: Lock, *, change: bool) -> None:
        """torch in the build that was asked for: PyTorch's own index first, then the ordinary one."""
        requirement = lock.find("torch").requirement
        version = requirement.split("==")[1]
        again = ["--force-reinstall"] if change else []
        if self.build == "cuda":
            self.say("start-torch-build", version=version, build=self.build)
            self._pip([*again, requirement], total=1)
        elif self.build != "cpu":
            self.say("start-torch-build", version=version, build=self.build)
            self._pip([*again, "--index-url", TORCH_INDEX + self.build, requirement], total=1)
        else:
            self.say("start-torch-cpu", version=version)
            own = platform.system() == "Linux" and reachable(TORCH_INDEX + "cpu/torch/")
            index = ["--index-url", TORCH_INDEX + "cpu"] if own else []
            self._pip([*again, "--no-deps", *index, requirement], total=1)
            missing = self._import_error()
            if missing:
                size = self.words.size(lock.torch["cuda linux-x86_64"])
                self.say("start-torch-libraries", reason=missing, size=size)
                self._pip([requirement], total=1)
        missing = self._import_error()
        if missing:
            raise Problem("start-torch-broken", reason=missing)

    def _import_error(self) -> str:
        """Why torch can't be imported; empty where it can."""
        command = [str(self.python), "-c", "import torch"]
        tried = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, cwd=str(self.folder))
        lines = tried.stderr.strip().splitlines()
        return "" if tried.returncode == 0 else (lines[-1] if lines else str(tried.returncode))

    def _pip(self, arguments: Sequence[str], *, total: int) -> None:
        """One ``pip install`` with progress; all that it says goes to the log."""
        command = [
            str(self.python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
        ]
        command += ["--retries", str(RETRIES), "--progress-bar", "raw" if self.counts else "off", *arguments]
        environ = {**os.environ, **BUILDING, "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "LC_MESSAGES": "C"}
        progress = Progress(total=total, out=self.out)
        said: list[str] = []
        streams: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "errors": "replace",
        }
        with self.log.open("a", encoding="utf-8") as log:
            pip = subprocess.Popen(command, env=environ, cwd=str(self.root), pass_fds=(self.claim,), **streams)
            with pip:
                try:
                    for line in pip.stdout or ():
                        self._follow(line, progress, said, log)
                except BaseException:
                    pip.terminate()
                    raise
                finally:
                    progress.end()
        if pip.returncode:
            raise problem_of("".join(said), folder=self.root, log=self.log)

    def _follow(self, line: str, progress: Progress, said: list[str], log: IO[str]) -> None:
        part = re.match(r"Progress (\d+) of (\d+)", line)
        if part:
            if int(part.group(2)) > 2_000_000:
                progress.draw(f"{self.words.size(int(part.group(1)))} / {self.words.size(int(part.group(2)))}")
            return
        said.append(line)
        log.write(line)
        started = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)(?:==(\S+))?", line)
        started = started or re.match(r"Processing .*/([\w.]+)-([\w.+]+)-\S+\.whl", line)
        if started and progress.total:
            progress.step(" ".join(each for each in started.groups() if each))
        elif line.startswith("Ignoring "):
            progress.total -= 1
        elif line.startswith("Installing collected packages") and progress.total > 1:
            progress.end()
            self.say("start-unpacking")

    def _write(self, stamp: Mapping[str, str]) -> None:
        """Says what is installed by now; whole or not at all."""
        part = self.stamp.with_suffix(".part")
        part.write_text(json.dumps(stamp, indent=1, sort_keys=True), encoding="utf-8")
        part.replace(self.stamp)

    # --- running

    def environ(self) -> dict[str, str]:
        """The environment's programs first; no other Python's settings."""
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH")}
        path = str(self.folder / "bin") + os.pathsep + kept.get("PATH", os.defpath)
        return {**kept, "VIRTUAL_ENV": str(self.folder), "PATH": path}

    def run(self, *arguments: str) -> int:
        """Runs a module or script of the course; its exit code."""
        return subprocess.run(
            [str(self.python), *arguments], cwd=str(self.root), env=self.environ(), check=False
        ).returncode


class Extra(Environment):
    """An environment of its own on top of the course's, where it finds what it does not hold: torch above all."""

    def __init__(self, base: Environment, *, name: str) -> None:
        super().__init__(root=base.root, words=base.words, out=base.out, build=base.build)
        self.base = base
        self._lies_in(base.root / name)

    def wanted(self, locks: Sequence[str]) -> dict[str, str]:
        wanted = {"python": platform.python_version(), "root": str(self.root)}
        return {**wanted, **{name: hashlib.sha256((self.root / name).read_bytes()).hexdigest() for name in locks}}

    def ensure(self, locks: Sequence[str]) -> None:
        self.base.ensure(["requirements.lock"])
        super().ensure(locks)

    def _install(self, wanted: Mapping[str, str], locks: Sequence[Lock], found: dict[str, str]) -> None:
        self.say("start-extra", size=self.words.size(sum(each.download.get(machine(), 0) for each in locks)))
        if not self.python.exists() or any(found.get(key) != wanted[key] for key in ("python", "root")):
            self.say("start-making", folder=self.folder)
            subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(self.folder)], check=True)
            base, own = (
                folder / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
                for folder in (self.base.folder, self.folder)
            )
            (own / "course.pth").write_text(f"import site; site.addsitedir({str(base)!r})\n", encoding="utf-8")
        self._drop_broken()
        self._pip_self(Lock(self.root / "requirements.lock").find("pip"))
        for each in locks:
            self._packages(each, ["--no-build-isolation"])
        self._write(wanted)
        self.say("start-ready")


BUILDING = {"DS_BUILD_OPS": "0"}
"""DeepSpeed comes as source; without this its installation would compile for minutes what its labs do not use."""
BROKEN = """
import importlib.metadata, json, pathlib, sysconfig
broken = [["", str(each)] for each in pathlib.Path(sysconfig.get_path("purelib")).glob("~*")]
for each in importlib.metadata.distributions(path=[sysconfig.get_path("purelib")]):
    try:
        name, files = each.metadata["Name"], each.files
    except Exception:
        name, files = None, None
    if not name or files is None or not all(one.suffix == ".pyc" or each.locate_file(one).exists() for one in files):
        broken.append([name or "", str(each._path)])
print(json.dumps(broken))
"""
"""Run by the environment's Python: name and folder of each installed package that lacks some of its files."""


def machine() -> str:
    """This machine as the locks name it."""
    processor = {"amd64": "x86_64", "arm64": "arm64" if sys.platform == "darwin" else "aarch64"}
    name = platform.machine().lower()
    return "{}-{}".format("macos" if sys.platform == "darwin" else "linux", processor.get(name, name))


def reachable(url: str) -> bool:
    """Whether an address answers within seconds, also where the name server doesn't."""
    answers: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=INDEX_SECONDS) as answer:
            answers.append(answer.status == 200)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(INDEX_SECONDS)
    return bool(answers and answers[0])


def problem_of(output: str, *, folder: Path, log: Path | None) -> Problem:
    """What pip's or the system's words mean for the learner."""
    left = shutil.disk_usage(str(folder)).free
    if left < FULL or re.search(r"No space left on device|Errno 28|Disk quota exceeded", output):
        return Problem("start-disk-full-now", folder=folder, free=f"{left / 1e6:.0f}\u202fMB")
    if re.search(r"Permission denied|Read-only file system|Errno (13|30)\b", output):
        return Problem("start-read-only", folder=folder)
    network = (
        r"NewConnectionError|NameResolutionError|name resolution|Network is unreachable|ProxyError|No route to host"
    )
    waited = r"ConnectTimeout|ReadTimeout|timed out|Connection (refused|reset|aborted|broken)|Max retries exceeded"
    if re.search(f"{network}|{waited}", output):
        broken = [line for line in output.splitlines() if "connection broken by" in line]
        reason = re.split(r"['\"]\)", re.split(r">: |\('|\(\"", broken[0])[-1])[0] if broken else last_line(output)
        return Problem("start-no-network", reason=reason)
    if "DO NOT MATCH THE HASHES" in output or "Hash mismatch" in output:
        package = re.search(r"\n\s+(\S+) from \S+", output)
        return Problem("start-hash", package=package.group(1) if package else "?")
    if re.search(r"No matching distribution found for torch\b", output):
        return Problem("start-no-torch", machine=machine(), python=platform.python_version())
    return Problem("start-failed", reason=last_line(output), log=log or "-")


def last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("[notice]")]
    return lines[-1] if lines else "?"


# --- the commands


class Call(NamedTuple):
    """One command as it was typed."""

    environment: Environment
    arguments: Sequence[str]
    language: str | None


def learn(call: Call) -> int:
    """Opens JupyterLab on the course's home."""
    call.environment.ensure(["requirements.lock"])
    chosen = ["--lang", call.language] if call.language else []
    command = [str(call.environment.python), "-m", "shardwise.cli", "learn", *chosen, *call.arguments]
    os.execve(command[0], command, call.environment.environ())


def doctor(call: Call) -> int:
    """Says what this machine has and what is missing."""
    call.environment.ensure(["requirements.lock"])
    return call.environment.run(
        "-m", "shardwise.cli", "doctor", *(["--lang", call.language] if call.language else []), *call.arguments
    )


CLASSROOM, SERVICE = "requirements-classroom.lock", "requirements-service.lock"
LOCKS = ("requirements.lock", CLASSROOM, SERVICE, "requirements-dev.lock")
CHECKS: Mapping[str, Sequence[str]] = {
    "types": ("-m", "mypy"),
    "exercises": ("-m", "labs.exercises", "check"),
    "format": ("-m", "ruff", "format", "--check", "."),
    "lint": ("-m", "ruff", "check", "."),
    "schemas": ("tools/schemas.py",),
    "translations": ("-m", "translations", "check"),
    "quiz": ("-m", "quiz", "check"),
    "lessons": ("-m", "lessons", "check"),
}


def check(call: Call) -> int:
    """Runs every static check, two at a time; shows what the failing ones say, and a table."""
    call.environment.ensure(LOCKS)
    chosen = {name: command for name, command in CHECKS.items() if name in (call.arguments or CHECKS)}
    results: dict[str, tuple[int, float, str]] = {}
    waiting = iter(list(chosen.items()))
    guard = threading.Lock()

    def work() -> None:
        while True:
            with guard:
                name, command = next(waiting, ("", ()))
            if not name:
                return
            started = time.monotonic()
            done = subprocess.run(
                [str(call.environment.python), *command],
                cwd=str(call.environment.root),
                env=call.environment.environ(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            results[name] = (done.returncode, time.monotonic() - started, done.stdout)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in chosen:
        code, _, output = results[name]
        if code:
            print(f"--- {name}\n{output.rstrip()}")
    for name in chosen:
        code, seconds, _ = results[name]
        print("{:14} {:6} {:5.1f} s".format(name, "FAILED" if code else "ok", seconds))
    return 1 if any(code for code, _, _ in results.values()) else 0


def test(call: Call) -> int:
    """Runs every test but the soaks and those of the real stacks: two at a time, then one by one those that measure
    time or drive a browser.
    """
    call.environment.ensure(LOCKS)
    alone = "(serial or browser) and not soak and not stacks"
    quick = "not serial and not browser and not soak and not stacks"
    groups = [["-n", "2", "--dist", "loadgroup", "-m", quick], ["-m", alone]]
    return pytest(call.environment, groups, call.arguments)


def classroom(call: Call) -> int:
    """Installs what a teacher needs besides the course: nbgrader."""
    call.environment.ensure(["requirements.lock", CLASSROOM])
    return 0


def service(call: Call) -> int:
    """Installs what an issuer of certificates needs besides the course: the web server and its sign-in."""
    call.environment.ensure(["requirements.lock", SERVICE])
    return 0


def stacks(call: Call) -> int:
    """Installs the real stacks into ``.venv-stacks``: DeepSpeed, Megatron Core, Accelerate and Transformers."""
    Extra(call.environment, name=".venv-stacks").ensure(["requirements-stacks.lock"])
    return 0


def test_stacks(call: Call) -> int:
    """Runs the tests of the real stacks; the tests run in ``.venv``, their ranks in ``.venv-stacks``."""
    call.environment.ensure(LOCKS)
    stacks(call)
    return pytest(call.environment, [["-m", "stacks and not soak"]], call.arguments)


def soak(call: Call) -> int:
    """Runs the long tests."""
    call.environment.ensure(LOCKS)
    return pytest(call.environment, [["-m", "soak", "--timeout", "3600"]], call.arguments)


def pytest(environment: Environment, groups: Iterable[Sequence[str]], arguments: Sequence[str]) -> int:
    """Runs groups of tests one after the other and prints one closing line for all."""
    failed, counts = 0, {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as name:
        for index, group in enumerate(groups):
            report = Path(name) / f"{index}.xml"
            code = environment.run("-m", "pytest", *group, "--junit-xml", str(report), *arguments)
            failed = failed or (0 if code == 5 else code)
            if report.exists():
                for suite in xml.etree.ElementTree.parse(str(report)).iter("testsuite"):
                    for key in counts:
                        counts[key] += int(suite.get(key, "0"))
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    print("{} passed, {} failed, {} skipped".format(passed, bad, counts["skipped"]))
    return failed or (0 if counts["tests"] else 5)


def bench(call: Call) -> int:
    """Measures the course's speed, as ratios."""
    call.environment.ensure(LOCKS)
    return call.environment.run("tools/bench.py", *call.arguments)


def lessons(call: Call) -> int:
    """Takes changed English texts into the catalogs and builds the notebooks of every language."""
    call.environment.ensure(LOCKS)
    for command in (("translations", "update"), ("tools/start_words.py",), ("lessons", "build")):
        code = call.environment.run(*(["-m", *command] if len(command) == 2 else command))
        if code:
            return code
    return 0


def site(call: Call) -> int:
    """Writes the web edition into ``site/pages``."""
    return edition(call, "site")


def book(call: Call) -> int:
    """Sets the printed edition, one PDF a language, into ``book``."""
    return edition(call, "book")


def edition(call: Call, name: str) -> int:
    """Runs the lessons that have changed, and writes an edition of them."""
    call.environment.ensure(["requirements.lock"])
    chosen = ["--language", call.language] if call.language else []
    return call.environment.run("-m", "lessons", name, *chosen, *call.arguments)


COMMANDS: Mapping[str, Callable[[Call], int]] = {
    "learn": learn,
    "test": test,
    "check": check,
    "doctor": doctor,
    "bench": bench,
    "soak": soak,
    "classroom": classroom,
    "service": service,
    "stacks": stacks,
    "test-stacks": test_stacks,
    "lessons": lessons,
    "site": site,
    "book": book,
}


def refusal(version: tuple[int, ...], system: str) -> Problem | None:
    """Why this Python can't start the course, if so."""
    if system == "nt":
        return Problem("start-windows")
    if version[:2] < NEEDED:
        return Problem("start-python-old", needed=".".join(map(str, NEEDED)), found=".".join(map(str, version)))
    return None


def build_of(asked: str, *, installed: str) -> str:
    """The build of torch that ``TORCH`` asks for; without it the installed one stays, and the CPU's comes first."""
    build = {"": installed or "cpu", "rocm": ROCM}.get(asked, asked)
    if not re.match(r"(cpu|cuda|cu\d+|rocm[\d.]+|xpu)$", build):
        raise Problem("start-unknown-build", asked=asked)
    return build


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("command", nargs="?", default="")
    parser.add_argument("--lang", default=os.environ.get("COURSE_LANG") or None)
    parser.add_argument("-h", "--help", action="store_true")
    parsed, rest = parser.parse_known_args(arguments)
    words = Words(asked=parsed.lang, environ=os.environ)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        refused = refusal(sys.version_info[:3], os.name)
        if refused:
            raise refused
        if parsed.help and parsed.command in ("learn", "doctor"):
            rest.append("--help")
        elif parsed.help or not parsed.command:
            print(words("start-help"))
            return 0 if parsed.help else 2
        if parsed.command not in COMMANDS:
            raise Problem("start-unknown-command", command=parsed.command)
        environment = Environment(root=ROOT, words=words, out=sys.stdout)
        environment.build = build_of(os.environ.get("TORCH", ""), installed=environment.found().get("torch", ""))
        asked = [each for each in rest if each != "--"]
        return COMMANDS[parsed.command](Call(environment, asked, parsed.lang))
    except Problem as problem:
        sys.stderr.write(words(problem.id, **problem.values) + "\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\n" + words("start-interrupted") + "\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
