"""One submission in a sandbox: the verdict is the notebook's own, what takes too much is ended, and nothing is left.
`test_hostile` has what attacks.
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
    limits = Limits(seconds=8, memory=900 * 2**20)
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_watches_any_more_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise PermissionError("nobody may look")

    monkeypatch.setattr(processes, "use", lost)
    file = tmp_path / "x.py"
    file.write_text(version(EXERCISE, "solution"), encoding="utf-8")
    with sandbox() as box, pytest.raises(Broken):
        box.execute(EXERCISE, file, 0, ranks=1, seed=0, timeout=20, patience=5)


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
