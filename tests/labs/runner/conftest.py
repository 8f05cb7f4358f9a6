import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labs import runner
from labs.runner import processes

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def _warm() -> None:
    runner.run("pass", ranks=1)


@pytest.fixture(autouse=True)
def _nothing_left(_warm: None) -> Iterator[None]:
    """No test of this folder leaves a process of the runner behind, but for the idle server."""
    yield
    assert gone(runner.survivors)


def gone(look: Callable[[], tuple[int, ...]], *, within: float = 8.0) -> bool:
    """Whether the processes that ``look`` finds are all gone before the time is over."""
    until = time.monotonic() + within
    while look():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


class Parent:
    """A process of its own that uses the runner, like a notebook's kernel."""

    def __init__(self, source: str) -> None:
        self.owner = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error", "-c", source],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, processes.OWNER: self.owner},
            cwd=ROOT,
            start_new_session=True,
        )

    def wait_for(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if word in line:
                return line
        raise AssertionError(f"the parent ended without saying {word!r}")

    def finish(self, *, within: float = 60.0) -> str:
        output, _ = self.process.communicate(timeout=within)
        assert self.process.returncode == 0, output
        return output

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def survivors(self) -> tuple[int, ...]:
        return tuple(each for each in runner.survivors(self.owner) if each != self.process.pid)


@pytest.fixture
def parent() -> Iterator[Callable[[str], Parent]]:
    started: list[Parent] = []

    def start(source: str) -> Parent:
        started.append(Parent(source))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()
        if each.process.stdout is not None:
            each.process.stdout.close()
        assert gone(each.survivors)
