"""One submission in a sandbox: the verdict is the notebook's own, and hostile code gains, reads, changes, leaves
nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labs.exercises import check, exercise
from shardwise import cli
from shardwise.classroom import processes, walls
from shardwise.classroom.grading import Result, grade_one
from shardwise.classroom.interior import ROOT
from shardwise.classroom.sandbox import Broken, Limits, sandbox
from translations import CourseError, language

ENGLISH = language("en")
EXERCISE = "model-states"
HEAD = "import os, sys\ndef model_states(parameters, *, precision):\n"


def barred() -> str:
    """Why bubblewrap itself can make no namespace here; empty where it can. A fault of our own is no reason."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap (the program bwrap) is not installed"
    tried = subprocess.run(
        [program, "--unshare-all", "--ro-bind", "/", "/", sys.executable, "-c", ""],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return f"this system lets nobody make namespaces: {tried.stderr.strip()}" if tried.returncode else ""


BARRED = barred()

pytestmark = [
    pytest.mark.skipif(bool(BARRED), reason=BARRED),
    pytest.mark.timeout(120),
    pytest.mark.xdist_group("sandbox"),
]


def version(id: str, name: str) -> str:
    return (exercise(id).folder / f"{name}.py").read_text(encoding="utf-8")


def graded(body: str, folder: Path, *, id: str = EXERCISE, limits: Limits | None = None) -> Result:
    """The result for a file; a body that is indented becomes the function of the exercise."""
    file = folder / "handed-in.py"
    file.write_text(HEAD + body if body.startswith("    ") else body, encoding="utf-8")
    return grade_one(file, exercise_id=id, language=ENGLISH, seed=3, limits=limits)


@pytest.mark.parametrize(("id", "name"), [("zero-1", "solution"), ("ring-all-reduce", "broken")])
def test_grading_finds_what_the_notebook_finds(id: str, name: str, tmp_path: Path) -> None:
    result = graded(version(id, name), tmp_path, id=id)
    assert result.verdict == check(id, version(id, name), ENGLISH, seed=3)
    assert result.verdict.passed == (name == "solution")


READS = r"""
import os, socket, sys
from pathlib import Path

def tried(name, what):
    try:
        print("DID", name, str(what())[:60])
    except BaseException as error:
        print("refused", name, type(error).__name__)

HOST = %r
CHECKOUT = %r
tried("home", lambda: os.listdir(HOST))
tried("etc-passwd", lambda: Path("/etc/passwd").read_text())
tried("checkout", lambda: os.listdir(CHECKOUT))
tried("solution", lambda: 1 / len(Path("/course/labs/exercises/zero_1/solution.py").read_text()))
tried("broken", lambda: 1 / len(Path("/course/labs/exercises/zero_1/broken.py").read_text()))
tried("bank", lambda: os.listdir("/course/quiz"))
tried("host-environment", lambda: os.environ["SHARDWISE_SECRET"])
tried("parents", lambda: 1 / (len([p for p in os.listdir("/proc") if p.isdigit()]) < 2))
tried("write-course", lambda: Path("/course/labs/exercises/zero_1/check.py").write_text("CASES = ()"))
tried("write-python", lambda: Path(sys.prefix, "pyvenv.cfg").write_text("x"))
tried("write-host", lambda: Path(HOST, "left.txt").write_text("x"))
tried("write-etc", lambda: Path("/etc/hosts").write_text("x"))
tried("write-root", lambda: Path("/left").write_text("x"))
tried("remount", lambda: os.system("mount -o remount,rw /") and 1 / 0)
tried("fork", os.fork)
tried("program", lambda: os.execv("/usr/bin/true", ["true"]))
tried("spawn", lambda: os.posix_spawn("/usr/bin/true", ["true"], {}))
tried("setuid", lambda: os.setuid(0))
tried("chroot", lambda: os.chroot("/tmp"))
tried("namespace", lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else 1 / 0)
tried("network", lambda: socket.create_connection(("1.1.1.1", 53), timeout=2))
tried("host-loopback", lambda: socket.create_connection(("127.0.0.1", %d), timeout=2))
tried("raw-socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("init-memory", lambda: os.pwrite(os.open("/proc/1/mem", os.O_RDWR), b"x", 0))
tried("big-file", lambda: Path("/tmp/big").write_bytes(b"x" * 400_000_000))
tried("big-shared", lambda: Path("/dev/shm/big").write_bytes(b"x" * 400_000_000))
tried("device", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))

def model_states(parameters, *, precision):
    return None
"""


def test_hostile_code_reads_writes_reaches_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setenv("SHARDWISE_SECRET", "of the host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = graded(READS % (str(tmp_path), str(ROOT / ".git"), server.getsockname()[1]), tmp_path)
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert "DID" not in result.verdict.printed, result.verdict.printed
    assert result.verdict.printed.count("refused") == READS.count("tried(") - 1
    assert not result.verdict.points
    assert sorted(path.name for path in tmp_path.iterdir()) == ["handed-in.py"]


FORGED = {
    "equal to all": "    class Yes:\n        __eq__ = lambda *_: True\n        __hash__ = None\n    return Yes()",
    "report": "    from labs.runner import rank\n    rank.report({'passed': True, 'points': 10})\n    os._exit(0)",
    "exit": "    sys.exit(0)",
    "patched compare": (
        "    import labs.exercises.model_states.check as c\n    c.compare = lambda *a: iter(())\n    return None"
    ),
    "answer on the pipe": (
        '    head = b\'{"outputs": [""], "files": [["rank-0.json", 4]], "failed": null}\\nnull\'\n'
        "    for pid in [p for p in os.listdir('/proc') if p.isdigit()]:\n"
        "        for fd in range(3, 12):\n"
        "            try:\n"
        "                os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK), head * 3)\n"
        "            except OSError:\n"
        "                pass"
    ),
    "file outside": (
        "    from pathlib import Path\n    run = Path(os.environ['SHARDWISE_RUN'])\n"
        "    (run / 'rank-0.safetensors').symlink_to('/etc/hosts')\n    return None"
    ),
    "ends the runner": "    os.kill(os.getppid(), 9)\n    return None",
    "ends everything": "    os.kill(-1, 9)",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_result_earns_nothing(name: str, tmp_path: Path) -> None:
    result = graded(FORGED[name], tmp_path)
    assert not result.verdict.passed
    assert result.verdict.points == 0, result.verdict.message


BOUNDED = {
    "memory": ("    held = []\n    while True:\n        held.append(bytearray(b'x' * 50_000_000))"),
    "time": ("    while True:\n        pass"),
    "output": ("    while True:\n        print('x' * 100_000)"),
    "threads": (
        "    import threading, time\n"
        "    while True:\n        threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_submission_that_takes_too_much_is_ended_and_gets_a_reason(name: str, tmp_path: Path) -> None:
    limits = Limits(seconds=15, memory=900 * 2**20)
    begun = time.monotonic()
    result = graded(BOUNDED[name], tmp_path, limits=limits)
    assert time.monotonic() - begun < 30
    assert not result.verdict.passed
    assert len(result.verdict.message) > 20
    assert len(result.verdict.printed) < 10_000


def test_nothing_of_a_sandbox_is_left(tmp_path: Path) -> None:
    before = set(processes.descendants(os.getpid()))
    file = tmp_path / "x.py"
    file.write_text(HEAD + "    os.kill(-1, 9)", encoding="utf-8")
    with sandbox() as box:
        with pytest.raises(CourseError):
            box.execute(EXERCISE, file, 0, ranks=1, seed=0, timeout=20, patience=5)
        box.end()
        with pytest.raises(Broken):
            box.execute(EXERCISE, file, 0, ranks=1, seed=0, timeout=20, patience=5)
    assert set(processes.descendants(os.getpid())) <= before
    assert not list(Path("/tmp").glob(f"shardwise-sandbox-*{os.getpid()}*"))


def test_the_command_writes_a_result_and_says_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "result.json"
    file.write_text(version(EXERCISE, "solution"), encoding="utf-8")
    assert cli.run(["classroom", "grade-one", str(file), "--exercise", EXERCISE, "--out", str(out)]) == 0
    assert "Everything holds" in capsys.readouterr().out
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["version"], found["sandboxed"], found["verdict"]["passed"]) == (1, True, True)
    assert len(found["sha256"]) == 64
    file.write_text(version(EXERCISE, "stub"), encoding="utf-8")
    again = ["classroom", "grade-one", str(file), "--exercise", EXERCISE, "--json", "--seed", str(found["seed"])]
    assert cli.run(again) == 1
    assert json.loads(capsys.readouterr().out)["verdict"]["failed_at"] == "file/unwritten"


@pytest.mark.parametrize("words", [["no-such.py", "--exercise", EXERCISE], ["--exercise", "no-such"]])
def test_wrong_use_is_told(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("x = 1", encoding="utf-8")
    given = [str(tmp_path / "a.py"), *words] if words[0].startswith("--") else words
    assert cli.run(["classroom", "grade-one", *given]) == 2
    assert "no-such" in capsys.readouterr().err


def test_without_a_sandbox_nothing_is_run_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = CourseError("shardwise.sandbox-no-bubblewrap")
    monkeypatch.setattr("shardwise.classroom.walls.unavailable", lambda _by: missing)
    file = tmp_path / "mine.py"
    file.write_text(version(EXERCISE, "solution"), encoding="utf-8")
    with pytest.raises(CourseError) as refused:
        grade_one(file, exercise_id=EXERCISE, language=ENGLISH)
    assert refused.value is missing
    assert grade_one(file, exercise_id=EXERCISE, language=ENGLISH, sandboxed=False).verdict.passed


def test_a_machine_without_a_sandbox_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "refusal", walls.refusal.__wrapped__)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(walls.VARIABLE, raising=False)
    missing = walls.unavailable()
    assert missing is not None
    assert missing.id == "shardwise.sandbox-none"
    assert "bubblewrap" in str(missing)
    assert "podman" in str(missing)
    for name in ("bwrap", "runc"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'No permissions for {name}' >&2\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    refused = walls.unavailable()
    assert refused is not None
    assert "bubblewrap" in str(refused)
    assert "No permissions for bwrap" in str(refused)
    assert "No permissions for runc" in str(refused)
    forced = walls.unavailable("crun")
    assert forced is not None
    assert forced.id == "shardwise.sandbox-no-runtime"
    monkeypatch.setenv(walls.VARIABLE, "bubblewrap")
    assert "runc" not in str(walls.unavailable())
    monkeypatch.setenv(walls.VARIABLE, "docker")
    assert "bubblewrap, crun, runc" in str(walls.unavailable())


def test_a_rank_that_is_confined_has_threads_and_no_processes() -> None:
    tried = (
        "import os, threading\nfrom labs.exercises.confined import confine\nconfine()\n"
        "one = threading.Thread(target=print, args=('thread',)); one.start(); one.join()\n"
        "true = '/bin/true'\n"
        "for call in (os.fork, lambda: os.execv(true, ['true']), lambda: os.posix_spawn(true, ['true'], {})):\n"
        "    try:\n        call(); print('started')\n"
        "    except PermissionError:\n        print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", tried], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["thread", *["refused"] * 3]
