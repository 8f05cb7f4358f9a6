"""The runner for a long time: a cell run 50 times, in two notebooks at once, interrupted and killed at any moment."""

import gc
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs import runner
from tests.labs.runner.conftest import Parent, gone, parent  # noqa: F401
from tests.labs.runner.test_ending import ENDLESS, interrupted

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

TRAINING = """
import torch, torch.distributed as dist
from labs.runner import rank
with rank.group() as group:
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        rank.step(step)
        model(torch.ones(8, 64)).sum().backward()
        for each in model.parameters():
            dist.all_reduce(each.grad, group=group)
        optimizer.step()
    rank.report(rank.number(), {"weight": model.weight})
"""


def test_a_cell_runs_fifty_times() -> None:
    runner.run(TRAINING, ranks=4)
    before = len(list(Path("/dev/fd").iterdir())), threading.active_count()
    times = []
    for _ in range(50):
        begun = time.monotonic()
        run = runner.run(TRAINING, ranks=4)
        times.append(time.monotonic() - begun)
        assert [each.value for each in run.ranks] == [0, 1, 2, 3]
        assert not runner.survivors()
    del run
    gc.collect()
    assert (len(list(Path("/dev/fd").iterdir())), threading.active_count()) == before
    assert not list(Path(tempfile.gettempdir()).glob(f"shardwise-run-{os.getpid()}-*"))
    print(f"\n50 runs on 4 ranks: median {statistics.median(times):.2f} s, slowest {max(times):.2f} s")


def test_failures_come_and_go() -> None:
    for number in range(30):
        trouble = ("1 / 0", "__import__('os')._exit(1)", "__import__('os').kill(__import__('os').getpid(), 9)")[
            number % 3
        ]
        script = TRAINING.replace("        optimizer.step()", f"        if step == rank.number() == 1: {trouble}")
        with pytest.raises(runner.RankFailed) as caught:
            runner.run(script, ranks=3)
        assert (caught.value.rank, caught.value.step) == (1, 1)
        assert not runner.survivors()


def test_sixty_interrupts(parent: Callable[[str], Parent]) -> None:  # noqa: F811
    parent(interrupted(count=60, seed=2)).finish(within=300)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_parents_killed_at_any_moment(method: str, parent: Callable[[str], Parent]) -> None:  # noqa: F811
    slowest = 0.0
    for number in range(15):
        asking = parent(f"""
from labs import runner
print("asking", flush=True)
while True:
    runner.run({TRAINING!r}, ranks=3, start_method={method!r}, on_output=lambda *_: None)
""")
        asking.wait_for("asking")
        time.sleep(random.Random(number).uniform(0, 8))
        assert asking.process.poll() is None
        asking.kill()
        begun = time.monotonic()
        assert gone(asking.survivors), asking.survivors()
        slowest = max(slowest, time.monotonic() - begun)
    print(f"\n15 parents killed ({method}): the last process was gone after at most {slowest:.2f} s")


def test_endless_runs_of_killed_parents(parent: Callable[[str], Parent]) -> None:  # noqa: F811
    for _ in range(5):
        asking = parent(f"""
from labs import runner
runner.run({ENDLESS!r}, ranks=4, on_output=lambda rank, line: print(line, flush=True))
""")
        asking.wait_for("running")
        asking.kill()
        assert gone(asking.survivors)


def test_two_notebooks_at_once(parent: Callable[[str], Parent]) -> None:  # noqa: F811
    source = f"""
from labs import runner
for number in range(25):
    assert [each.value for each in runner.run({TRAINING!r}, ranks=2).ranks] == [0, 1]
"""
    both = parent(source), parent(source)
    for each in both:
        each.finish(within=300)
