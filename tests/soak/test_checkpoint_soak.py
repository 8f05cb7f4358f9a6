"""Killed while they save, again and again: the last good checkpoint stays whole, and no process stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from labs import runner
from labs.catalogue import run_lab
from labs.runner import processes
from labs.strategies.checkpoint import latest, problem_in, read_whole, steps_in

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

SAVING = """
import os, sys
from pathlib import Path
import torch.distributed as dist
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies import parts
from labs.strategies.checkpoint import Checkpoints, latest
from labs.strategies.units import Recipe
from labs.strategies.zero_3 import Zero3

folder = Path(sys.argv[1])
with this.group() as group:
    Path(os.environ["SHARDWISE_RUN"], f"pid-{dist.get_rank()}").write_text(str(os.getpid()))
    model = GPT(Shape(layers=2, hidden=32, heads=2, sequence=8))
    strategy = Zero3(model, model.pieces, group=group, recipe=Recipe())
    places = parts.places_of(parts.shapes_in(strategy.units), parts.names_of(model))
    checkpoints, held = Checkpoints(folder), parts.parts_of(strategy.units, places)
    step = 0
    if checkpoints.latest() is not None:
        step = checkpoints.load(held)["step"]
        assert all(bool((part.local == step).all()) for part in held if part.name.startswith("model."))
    while step < 1000:
        step += 1
        for part in held:
            part.local.fill_(step)
        checkpoints.save(held, {"step": step}, step=step)
"""


def test_a_kill_in_the_middle_of_a_save_never_damages_the_last_good_checkpoint(tmp_path: Path) -> None:
    """What is saved after step n is n everywhere: a checkpoint of two halves would show."""
    chance, folder = random.Random(1), tmp_path / "checkpoints"
    reached = []
    for number in range(40):
        ranks = chance.choice([1, 2, 3])
        until = time.monotonic() + chance.uniform(0.3, 2.0)

        def kill(place: Path, ranks: int = ranks, until: float = until) -> None:
            if time.monotonic() > until:
                for rank in chance.sample(range(ranks), chance.randint(1, ranks)):
                    pid = (place / f"pid-{rank}").read_text() if (place / f"pid-{rank}").is_file() else ""
                    if pid and processes.there(int(pid)):
                        os.kill(int(pid), signal.SIGKILL)

        with pytest.raises(runner.RankFailed) as failed:
            runner.run(SAVING, ranks=ranks, arguments=[str(folder)], on_tick=kill, timeout=60)
        assert "AssertionError" not in failed.value.rank_traceback, number
        step = latest(folder)
        if step is None:
            continue
        reached.append(step)
        assert problem_in(folder, step) is None, number
        tensors, progress = read_whole(folder, step)
        assert progress == {"step": step}
        assert all(bool((each == step).all()) for each in tensors.values())
        assert len(steps_in(folder)) <= 3
    assert reached == sorted(reached)
    print(f"\n40 kills; saves that were committed: {reached[-1]}")


def test_failures_and_resumes_one_after_the_other() -> None:
    for number in range(8):
        run = run_lab("elastic", ranks=(2, 4)[number % 2], stage=number % 4, layers=2, hidden=32, timeout=200)
        assert run.data["examples"]["in_order"], number
        assert len(run.data["attempts"]) == 4, number
        assert run.losses == pytest.approx(run.data["reference_losses"], abs=2e-6)
        pids = [each["pid"] for each in run.data["events"] if each["event"] == "started"]
        assert not [pid for pid in pids if processes.there(pid)], number


def test_whoever_leads_an_elastic_run_may_be_killed() -> None:
    for number in range(5):
        command = [Path(sys.executable).with_name("shardwise"), "lab", "run", "elastic", "--ranks", "2", "--json"]
        lead = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(4 + 2 * number)
        assert lead.poll() is None
        begun = [each.pid for each in psutil.Process(lead.pid).children(recursive=True)]
        lead.kill()
        lead.wait()
        until = time.monotonic() + 15
        while (left := [pid for pid in begun if processes.there(pid)]) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, number
