"""The hostile set is held: by each kind of walls, as root and as an ordinary user; who comes next is graded."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs.exercises import Verdict, check, exercise
from labs.exercises.content import ids
from labs.runner import Run
from labs.runner.results import Folder, RankResult, read_value
from shardwise.classroom import asked, processes, walls
from shardwise.classroom.grading import grade_one
from shardwise.classroom.interior import ROOT
from shardwise.classroom.sandbox import Limits, Sandbox, sandbox
from tests.shardwise.classroom import hostile
from tests.shardwise.classroom.test_sandbox import BARRED
from translations import CourseError, language

ENGLISH = language("en")
SEED = 3
QUICK: dict[str, Any] = {"timeout": 12.0, "patience": 5.0}
TOGETHER = [name for name, attack in hostile.SCORES.items() if not attack.alone]
SOON = ("many files",)
"""Of those that take too much, what every run of the tests tries; `test_sandbox` has the plain ones."""
ON_THE_WAY = ("model-states", "ring-all-reduce")
"""Exercises for which every kind of forged report is compared in every run of the tests; in the soak it is all."""

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("sandbox")]
needs_walls = pytest.mark.skipif(bool(BARRED), reason=BARRED)


def probes(host: Path, port: int, abstract: str) -> str:
    """The file of all that is only tried. Elsewhere than on x86-64 calls have other numbers: those are left out."""
    source = hostile.PROBES % {"host": str(host), "checkout": str(ROOT / ".git"), "port": port, "abstract": abstract}
    if platform.machine() == "x86_64":
        return source
    kept = [line for line in source.splitlines() if not re.match(r"tried\(.*(call\(|by_32_bit|another_thread)", line)]
    return "\n".join(kept)


def tries(source: str) -> int:
    return len(re.findall(r"^tried\(", source, re.MULTILINE))


def printed_in(box: Sandbox, source: str) -> list[str]:
    """All lines that one rank prints: a verdict keeps the first of them only."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "probes.py")
        file.write_text(source, encoding="utf-8")
        return (
            box.execute("model-states", file, 0, ranks=1, seed=SEED, timeout=60, patience=5)
            .ranks[0]
            .output.split("\n")[:-1]
        )


def verdict_in(box: Sandbox, source: str, id: str = "model-states") -> Verdict:
    return check(id, source, ENGLISH, seed=SEED, execute=box.execute, **QUICK)


def holds(box: Sandbox, host: Path) -> list[str]:
    """What a sandbox lets through of all that is tried: nothing."""
    name = f"shardwise-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        source = probes(host, server.getsockname()[1], name)
        found = printed_in(box, source)
        for each in (server, abstract):
            each.settimeout(0.1)
            try:
                each.accept()
            except TimeoutError:
                continue
            found.append("DID reach a server of this machine")
    let_through = [each for each in found if not each.startswith("refused ")]
    if not let_through and len(found) != tries(source):
        let_through.append(f"{len(found)} of {tries(source)} were tried")
    return let_through + [f"DID leave {each}" for each in host.iterdir()]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """One sandbox for all that can share one. That they can is part of what is shown: none of them ends it."""
    with sandbox(Limits(seconds=290, cpu=290)) as made:
        yield made


# --- each in turn, by the walls that are chosen here


@needs_walls
def test_a_submission_reads_writes_reaches_and_starts_nothing(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWISE_SECRET", "of the host")
    assert holds(box, tmp_path) == []


@needs_walls
@pytest.mark.parametrize("name", TOGETHER)
def test_an_attack_earns_nothing_and_the_next_is_graded(name: str, box: Sandbox) -> None:
    attack = hostile.SCORES[name]
    verdict = verdict_in(box, attack.source, attack.exercise)
    assert not verdict.passed
    assert verdict.points == 0, verdict.message
    assert len(verdict.message) < 60_000
    assert all(each in "\n\t" or each.isprintable() or ord(each) >= 0x2000 for each in verdict.message), verdict.message
    verdict.message.encode("utf-8")


@needs_walls
def test_after_all_of_them_an_honest_solution_has_all_points_in_the_same_sandbox(box: Sandbox) -> None:
    verdict = verdict_in(box, exercise("model-states").code("solution"))
    assert verdict.passed, verdict.message


@needs_walls
@pytest.mark.parametrize("name", SOON)
def test_what_takes_too_much_is_ended_and_gets_the_reason(name: str, tmp_path: Path) -> None:
    assert ended(name, tmp_path) == ""


def ended(name: str, folder: Path) -> str:
    """What is wrong with how a greedy submission was ended; nothing where all is right."""
    greedy = hostile.BOUNDED[name]
    file = folder / "greedy.py"
    file.write_text(hostile.whole(greedy.body), encoding="utf-8")
    # Only what is ended by time must not wait for long; the others must be seen, on a slow machine too.
    seconds = 20 if "time" in greedy.ends_as else 150
    limits = Limits(**{"seconds": seconds, "memory": 1200 * 2**20, **greedy.limits})  # type: ignore[arg-type]
    begun = time.monotonic()
    result = grade_one(file, exercise_id=greedy.exercise, language=ENGLISH, seed=SEED, limits=limits)
    verdict, took = result.verdict, time.monotonic() - begun
    known = {f"sandbox/{each}" for each in greedy.ends_as}
    if verdict.passed or verdict.points or took > seconds + 60 or len(verdict.printed) > 10_000:
        return f"{verdict} after {took:.0f} s"
    return "" if verdict.failed_at in known or "" in greedy.ends_as else f"{name}: {verdict.failed_at}"


# --- who reads what was handed in and what came out of a sandbox: in the grader's own process


@pytest.mark.parametrize("name", hostile.SOURCES)
def test_a_source_that_attacks_its_reader_gets_a_verdict(name: str) -> None:
    """The sandbox is not reached, or is told the same text: nothing is compiled here, only parsed."""
    source, reached = hostile.SOURCES[name](), list[bool]()

    def execute(*_: object, **__: object) -> Run:
        reached.append(True)
        raise CourseError("labs.runner-ended")

    begun = time.monotonic()
    verdict = check("model-states", source, ENGLISH, seed=SEED, execute=execute)
    assert time.monotonic() - begun < 15
    assert not verdict.passed
    assert verdict.points == 0
    assert len(verdict.message) < 5_000
    assert verdict.failed_at is not None
    assert verdict.failed_at.startswith("file/") or reached


def forged(value: bytes, tensors: bytes, folder: Path) -> Any:
    """An `execute` of which every rank left these files."""

    def execute(_exercise: str, _file: Path, _number: int, *, ranks: int, **_: object) -> Run:
        place = Folder(folder, temporary=False)
        for rank in range(ranks):
            (folder / f"rank-{rank}.json").write_bytes(value)
            if tensors:
                (folder / f"rank-{rank}.safetensors").write_bytes(tensors)
        results = [
            RankResult(rank=rank, value=read_value(folder, rank), output="", _folder=place) for rank in range(ranks)
        ]
        return Run(ranks=tuple(results), seconds=0.0, _folder=place)

    return execute


@pytest.mark.parametrize("name", hostile.REPORTS)
def test_a_forged_report_is_only_a_wrong_answer(name: str, tmp_path: Path) -> None:
    assert compared(name, ON_THE_WAY, tmp_path) == []
    assert not Path("/tmp/unpickled").exists()


def compared(name: str, exercises: tuple[str, ...], folder: Path) -> list[str]:
    """Exercises that take a forged report for an answer, or take long."""
    wrong = []
    for id in exercises:
        begun = time.monotonic()
        solution = exercise(id).code("solution")
        verdict = check(id, solution, ENGLISH, seed=SEED, execute=forged(*hostile.REPORTS[name], folder))
        if verdict.passed or time.monotonic() - begun > 10:
            wrong.append(f"{id}: {verdict} after {time.monotonic() - begun:.1f} s")
    return wrong


def test_what_knows_an_answer_is_in_no_sandbox() -> None:
    """Of every check there is what asks, and nothing that compares, or that only what compares needs."""
    files = asked.files()
    assert {f"{id.replace('-', '_')}/check.py" for id in ids()} <= files.keys()
    assert not [name for name in files if name.endswith(("solution.py", "faded.py", "broken.py", "stub.py"))]
    for name, text in files.items():
        compile(text, name, "exec")
        if name.endswith("check.py"):
            assert "def work(" in text
            assert "def compare(" not in text
            assert "def remarks(" not in text
    assert "def twin(" not in files["small.py"]
    assert "PER_PARAMETER" not in files["model_states/check.py"]
    assert "RIGHT" not in files["what_ran/check.py"]


def test_a_module_is_cut_down_to_what_is_reached() -> None:
    source = (
        "from a import b, c\nimport d\n\nX = 1\nY = X + b.z\n\n\n@d.e\ndef work():\n    Z = 2\n    return Y + Z\n\n\n"
        "def compare():\n    return c\n\n\nZ = 3\n"
    )
    assert asked.reduced(source, ["work"]) == source.replace("b, c", "b").replace(
        "def compare():\n    return c\n\n\nZ = 3\n", "\n\n\n\n\n"
    )


# --- every kind of walls, and both kinds of users

OTHERS = [each.name for each in walls.BACKENDS]


def barred(name: str) -> str:
    return str(walls.unavailable(name) or "")


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_walls_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := barred(name):
        pytest.skip(reason)
    if name == walls.backend().name:
        pytest.skip("the tests above are of these walls")
    monkeypatch.setenv("SHARDWISE_SECRET", "of the host")
    before = set(processes.descendants(os.getpid()))
    with sandbox(by=name) as made:
        assert holds(made, tmp_path) == []
        verdict = verdict_in(made, exercise("model-states").code("solution"))
        assert verdict.passed, verdict.message
        made.end()
        assert set(processes.descendants(os.getpid())) <= before


GRADER = """
import sys, time
from shardwise.classroom.sandbox import sandbox
with sandbox(by=sys.argv[1]) as box:
    print(box._process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("name", OTHERS)
def test_no_process_outlives_a_killed_grader(name: str) -> None:
    if reason := barred(name):
        pytest.skip(reason)
    grader = subprocess.Popen([sys.executable, "-c", GRADER, name], stdout=subprocess.PIPE, cwd=ROOT)
    left: set[int] = set()
    try:
        assert grader.stdout is not None
        sandboxed = int(grader.stdout.readline())
        until = time.monotonic() + 60
        while not any("cell.py" in command(each) for each in processes.descendants(sandboxed)):
            assert time.monotonic() < until, "the sandbox did not begin"
            time.sleep(0.1)
        left = {sandboxed, *processes.descendants(sandboxed)}
        grader.kill()
        until = time.monotonic() + 30
        while left := {each for each in left if command(each)}:
            assert time.monotonic() < until, [command(each) for each in left]
            time.sleep(0.1)
    finally:
        grader.kill()
        grader.communicate()
        for each in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def command(pid: int) -> str:
    """What a process was started with; nothing where it is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


AS_SOMEBODY = """
import json, os, sys
from pathlib import Path
from shardwise.classroom import walls
from tests.shardwise.classroom import test_hostile as own
from shardwise.classroom.sandbox import sandbox
told = {}
for name in sys.argv[2].split(","):
    folder = Path(sys.argv[1], name)
    folder.mkdir()
    if reason := own.barred(name):
        told[name] = "barred: " + reason
        continue
    os.environ[walls.VARIABLE] = name
    with sandbox() as box:
        told[name] = own.holds(box, folder)
        told[name] += [] if own.verdict_in(box, own.exercise("model-states").code("solution")).passed else ["failed"]
    for greedy in sys.argv[3].split(",") if sys.argv[3] else ():
        told[name] += filter(None, [own.ended(greedy, Path(sys.argv[1]))])
print(json.dumps(told))
"""
SEEN = """
set -e
home=$1; base=$2; shift 2
case "$base" in "$home"/*)
  held=$(mktemp -d)
  mount --bind "$base" "$held"
  mount -t tmpfs -o mode=755 none "$home"
  mkdir -p "$base"
  mount --bind "$held" "$base"
  umount "$held"
  rmdir "$held";;
esac
if [ -n "$ONE_TREE" ]; then umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; fi
exec setpriv --reuid "$SOMEBODY" --regid "$SOMEBODY" --clear-groups "$@"
"""
"""Shows Python to an ordinary user where it lies in root's home, in a name space of mounts that ends with the test."""
SOMEBODY = "54321"


def as_somebody(names: str, greedy: str = "", *, one_tree: bool = False) -> dict[str, Any]:
    """What the sandboxes of these names let through for an ordinary user, who has no name and no home."""
    if os.geteuid() == 0:
        missing = [each for each in ("unshare", "setpriv") if shutil.which(each) is None]
        if missing:
            pytest.skip(f"{missing} (util-linux) is not here, so nobody can become an ordinary user")
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False, timeout=20)
        if tried.returncode:
            pytest.skip(f"this system lets root make no name space of mounts: {tried.stderr.strip()}")
        inner = ["sh", "-c", SEEN, "sh", str(Path("~root").expanduser()), sys.base_prefix]
        before = ["unshare", "-m", "--propagation", "private", *inner]
    else:
        before = []
    place = Path(tempfile.mkdtemp(prefix="somebody-"))
    place.chmod(0o777)
    try:
        told = subprocess.run(
            [*before, sys.executable, "-c", AS_SOMEBODY, str(place), names, greedy],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(place),
                "TMPDIR": str(place),
                "SOMEBODY": SOMEBODY,
                "ONE_TREE": "1" if one_tree else "",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert told.returncode == 0, told.stderr[-3000:]
        found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
        assert not list(place.glob("shardwise-sandbox-*")), "a sandbox left its folder"
        return found
    finally:
        shutil.rmtree(place, ignore_errors=True)


@needs_walls
def test_the_walls_hold_for_an_ordinary_user() -> None:
    name = walls.backend().name
    assert as_somebody(name) == {name: []}


# --- the soak: everything, alone, by every kind of walls


@pytest.mark.soak
@needs_walls
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", OTHERS)
def test_each_attack_alone_earns_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := barred(name):
        pytest.skip(reason)
    monkeypatch.setenv(walls.VARIABLE, name)
    wrong, before = [], set(processes.descendants(os.getpid()))
    for title, attack in hostile.SCORES.items():
        file = tmp_path / "attack.py"
        file.write_text(attack.source, encoding="utf-8", errors="surrogatepass")
        result = grade_one(file, exercise_id=attack.exercise, language=ENGLISH, limits=Limits(seconds=60))
        if result.verdict.passed or result.verdict.points:
            wrong.append(f"{title}: {result.verdict}")
        result.write(tmp_path / "result.json")
    for title in hostile.BOUNDED:
        wrong += filter(None, [ended(title, tmp_path)])
    assert wrong == []
    assert set(processes.descendants(os.getpid())) <= before


@pytest.mark.soak
@needs_walls
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("one_tree", [False, True], ids=["as it is", "one tree of cgroups"])
def test_every_kind_of_walls_binds_an_ordinary_user(one_tree: bool) -> None:
    if one_tree and os.geteuid() != 0:
        pytest.skip("only root can mount another tree of cgroups")
    greedy = "" if one_tree else ",".join(hostile.BOUNDED)
    found = as_somebody(",".join(OTHERS), greedy, one_tree=one_tree)
    held = {name: told for name, told in found.items() if not str(told).startswith("barred")}
    assert held
    assert held == {name: [] for name in held}


@pytest.mark.soak
@needs_walls
@pytest.mark.timeout(3600)
def test_every_solution_passes_without_what_knows_the_answer() -> None:
    wrong = []
    with sandbox(Limits(seconds=3000, cpu=3000)) as box:
        for id in ids():
            for name in ("solution", "broken"):
                source = exercise(id).code(name)
                inside = check(id, source, ENGLISH, seed=SEED, execute=box.execute)
                if inside != check(id, source, ENGLISH, seed=SEED):
                    wrong.append(f"{id}/{name}: {inside}")
    assert wrong == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", hostile.REPORTS)
def test_a_forged_report_is_only_a_wrong_answer_in_every_exercise(name: str, tmp_path: Path) -> None:
    assert compared(name, ids(), tmp_path) == []
