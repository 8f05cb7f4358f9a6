"""However a run ends, and whoever ends it, none of its processes is left."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs import runner
from labs.runner import client
from labs.runner.client import StartMethod
from tests.labs.runner.conftest import Parent, gone
from translations import CourseError

ENDLESS = """
import os
import torch, torch.distributed as dist
from labs.runner import rank
with rank.group():
    print("running", os.getpid(), os.getppid(), flush=True)
    while True:
        dist.all_reduce(torch.ones(4))
"""
INTERRUPTED = f"""
import os, random, signal, threading, time
from labs import runner

runner.run("pass", ranks=3)
main = threading.main_thread().ident
random.seed(SEED)
for number in range(COUNT):
    delay = random.uniform(0, 0.5)
    timer = threading.Timer(delay, signal.pthread_kill, [main, signal.SIGINT])
    try:
        timer.start()
        runner.run({ENDLESS!r}, ranks=3)
        raise SystemExit("the run ended by itself")
    except KeyboardInterrupt:
        pass
    left = runner.survivors()
    assert not left, (number, delay, left)
    if number % 3 == 0:
        assert runner.run("print(1)", ranks=2).ranks[1].output == "1\\n"
assert threading.active_count() == 1, threading.enumerate()
"""


def interrupted(*, count: int, seed: int) -> str:
    return INTERRUPTED.replace("COUNT", str(count)).replace("SEED", str(seed))


def test_an_interrupt_at_any_moment_ends_every_rank(parent: Callable[[str], Parent]) -> None:
    parent(interrupted(count=6, seed=1)).finish()


def test_an_interrupt_does_not_wait_for_the_first_start(parent: Callable[[str], Parent]) -> None:
    parent(f"""
import signal, threading, time
from labs import runner
for method in ("forkserver", "spawn"):
    times = []
    def interrupt():
        times.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)
    threading.Timer(0.3, interrupt).start()
    try:
        runner.run({ENDLESS!r}, ranks=3, start_method=method)
        raise SystemExit("the run ended by itself")
    except KeyboardInterrupt:
        assert time.monotonic() - times[0] < 3
    assert not [each for each in runner.survivors()]
""").finish()


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_nothing_survives_a_killed_parent(method: str, parent: Callable[[str], Parent], tmp_path: Path) -> None:
    """Not even where a process that the parent forked lives on: it must keep no channel open."""
    asking = parent(f"""
import os, tempfile, time, warnings
from labs import runner
warnings.simplefilter("ignore", DeprecationWarning)
tempfile.tempdir = {str(tmp_path)!r}

def fork_once(rank, line, forked=[]):
    if not forked:
        forked.append(os.fork())
        if not forked[0]:
            print("forked", os.getpid(), flush=True)
            time.sleep(600)

runner.run({ENDLESS!r}, ranks=3, on_output=fork_once, start_method={method!r})
""")
    child = int(asking.wait_for("forked").split()[1])
    try:
        assert len(asking.survivors()) >= 5
        asking.kill()
        assert gone(lambda: tuple(each for each in asking.survivors() if each != child))
        assert not list(tmp_path.iterdir())
    finally:
        os.kill(child, signal.SIGKILL)


def test_nothing_survives_a_parent_killed_while_it_starts(parent: Callable[[str], Parent]) -> None:
    asking = parent(f"from labs import runner; print('asking', flush=True); runner.run({ENDLESS!r}, ranks=3)")
    asking.wait_for("asking")
    time.sleep(0.4)
    asking.kill()
    assert gone(asking.survivors)


def test_two_parents_at_once_do_not_meet(parent: Callable[[str], Parent]) -> None:
    script = """
import torch, torch.distributed as dist
from labs.runner import rank
with rank.group():
    x = torch.ones(1)
    dist.all_reduce(x)
    rank.report(x)
"""
    other = parent(f"""
from labs import runner
print("running", flush=True)
for number in range(10):
    assert [each.value for each in runner.run({script!r}, ranks=2).ranks] == [[2.0], [2.0]]
""")
    other.wait_for("running")
    while other.process.poll() is None:
        assert [each.value for each in runner.run(script, ranks=2).ranks] == [[2.0], [2.0]]
    other.finish()


def test_what_a_rank_starts_ends_with_it() -> None:
    script = """
import subprocess, sys
sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleeping)
subprocess.Popen(sleeping, start_new_session=True)
print("started")
"""
    assert runner.run(script, ranks=2, timeout=20).ranks[0].output == "started\n"
    assert not runner.survivors()


def test_a_caller_that_fails_ends_the_run() -> None:
    def refuse(_rank: int, _line: str) -> None:
        raise LookupError("no place for output")

    with pytest.raises(LookupError):
        runner.run(ENDLESS, ranks=2, on_output=refuse)
    assert not runner.survivors()


@pytest.mark.parametrize("place", [1, 2])
def test_a_rank_or_a_leader_that_someone_else_kills(place: int) -> None:
    """The first id that a rank prints is its own, the second its leader's."""

    def kill(_rank: int, line: str) -> None:
        if line.startswith("running "):  # on a busy machine gloo has something to say, too
            os.kill(int(line.split()[place]), signal.SIGKILL)

    with pytest.raises(CourseError) as caught:
        runner.run(ENDLESS, ranks=2, on_output=kill)
    assert isinstance(caught.value, runner.RankFailed) == (place == 1)
    assert gone(runner.survivors, within=2)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_rank_is_ended_by_both_methods(method: StartMethod) -> None:
    with pytest.raises(runner.RankFailed, match="ended after 1 s"):
        runner.run("while True: pass", ranks=2, timeout=1, start_method=method)
    assert not runner.survivors()


def test_a_closed_pipe_ends_a_process_where_the_system_has_no_other_way(parent: Callable[[str], Parent]) -> None:
    source = """
import os, time
from labs.runner import processes
read, write = os.pipe()
if not os.fork():
    os.setsid()
    os.close(write)
    processes.die_at_end(read)
    print("watching", flush=True)
    while True:
        time.sleep(1)
time.sleep(600)
"""
    asking = parent(source)
    asking.wait_for("watching")
    asking.kill()
    assert gone(asking.survivors, within=2)


def test_a_server_that_is_killed_or_shut_down_is_replaced() -> None:
    runner.run("pass", ranks=1)
    (server,) = client._servers.pids

    def kill(_rank: int, _line: str) -> None:
        os.kill(server, signal.SIGKILL)

    with pytest.raises(CourseError, match="ended from outside"):
        runner.run(ENDLESS, ranks=2, on_output=kill)
    assert gone(runner.survivors, within=2)
    runner.warm_up()
    runner.run("pass", ranks=1)
    assert client._servers.pids not in ((), (server,))
    runner.shut_down()
    assert client._servers.pids == ()
    assert not runner.survivors()
    runner.run("pass", ranks=1)


def test_a_run_that_is_over_before_its_ranks_are_ready() -> None:
    with pytest.raises(runner.RankFailed) as caught:
        runner.run("import time; time.sleep(9)", ranks=4, timeout=0.001)
    assert caught.value.kind == "hung"


STOPPING = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)\n"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_rank_that_stops_its_leader_does_not_hang_the_caller(
    method: StartMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SILENCE_LIMIT", 5.0)
    begun = time.monotonic()
    with pytest.raises(CourseError, match="ended from outside"):
        runner.run(STOPPING, ranks=2, start_method=method)
    assert time.monotonic() - begun < 40
    assert gone(runner.survivors)
    assert runner.run("print(1)", ranks=1).ranks[0].output == "1\n"


def test_an_interrupt_ends_a_leader_that_a_rank_stopped(parent: Callable[[str], Parent]) -> None:
    parent(f"""
import signal, time
from labs import runner

def interrupt(_rank, line):
    if line == "stopping":
        time.sleep(0.5)
        signal.raise_signal(signal.SIGINT)

try:
    runner.run({STOPPING!r}.replace("os.kill", "print('stopping', flush=True); time.sleep(0.2); os.kill"), ranks=1,
               on_output=interrupt)
except KeyboardInterrupt:
    pass
until = time.monotonic() + 12
while runner.survivors() and time.monotonic() < until:
    time.sleep(0.1)
assert not runner.survivors()
""").finish()
