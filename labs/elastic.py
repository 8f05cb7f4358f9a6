"""The elastic lab: ranks are killed while they train, and the run goes on, on fewer ranks and again on more.

The script is an ordinary one for torchrun, which starts it again after a failure, on as many machines as there are:

    torchrun --nnodes 1:2 --nproc-per-node 2 --max-restarts 10 --rdzv-backend c10d --rdzv-endpoint host:29400
        labs/elastic.py --checkpoints /shared/run

Each time it starts, it goes on from the latest checkpoint in that folder, whatever number of ranks has saved it. As a
lab, two agents of torchrun on this machine stand for two machines, and what happens to them is on the timeline.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil
from torch._C._distributed_c10d import TCPStore

from labs import training
from labs.catalogue import LabRun, together
from labs.checkpoint import OnOutput, OnRow, Session, at_rest, reference, summary, told
from labs.data import order
from labs.options.elastic import NODES, ElasticOptions
from labs.runner import heartbeat, processes
from labs.runner import rank as this
from labs.runner.agent import COMMAND
from labs.runner.results import read_value
from labs.telemetry.events import Event, Follower, event, tell
from labs.telemetry.rows import Reader
from labs.telemetry.rows import read as read_rows
from translations import CourseError

__all__ = ["at_rest", "conduct", "train"]

RESTARTS = 10
PATIENCE = timedelta(seconds=30)
SILENT = 3
"""Seconds without a sign of life after which a machine counts as lost."""


def train(options: ElasticOptions) -> dict[str, Any]:
    """What this rank reports, where it comes to the end."""
    with this.group() as group, training.watched(options) as tracker:
        session = Session(options, group=group, folder=Path(options.checkpoints or "checkpoints"))
        session.resume(or_begin=True)
        first = session.progress.step

        def step(number: int) -> float:
            event("step", step=number)
            time.sleep(options.pace)
            loss = session.step()
            if session.progress.step % options.interval == 0:
                session.save()
            return loss

        try:
            report = training.steps(options, tracker, step, first=first)
            with told():
                session.checkpoints.wait()
        except RuntimeError as error:
            event("detected", kind=type(error).__name__)
            raise
        event("finished")
    return report | summary(session, options, first=first)


# --- the lab: what happens to two machines


class Machine:
    """An agent of torchrun, which starts ranks and starts them again; first it only gets ready."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.agent = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def join(self) -> None:
        """As soon as it is ready."""
        assert self.agent.stdin is not None
        self.agent.stdin.write(b"\n")
        self.agent.stdin.close()

    def end(self) -> None:
        """At once; its ranks go with it, or are ended by their ids."""
        with self.agent:
            self.agent.kill()

    def has(self, pid: int) -> bool:
        """Whether a process belongs to it."""
        with contextlib.suppress(psutil.Error):
            return any(each.pid == self.agent.pid for each in psutil.Process(pid).parents())
        return False

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:].strip()


class Machines:
    """The machines of a run, and who of their ranks is alive. Leaving the context ends every process of theirs.

    The store in which agents find each other is held here, on a port that the system gave: no machine that is lost
    takes it along.
    """

    def __init__(self, options: ElasticOptions, *, ranks: int, folder: Path) -> None:
        self.options, self.each, self.folder = options, ranks // NODES, folder
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
        self.owner = uuid.uuid4().hex
        self.joined: list[Machine] = []
        self.alive: dict[int, tuple[int, Machine]] = {}  # process -> rank and machine
        heartbeat.create(folder, ranks)
        self.ready: list[Machine] = []

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        for machine in (*self.joined, *self.ready):
            machine.end()
        until = time.monotonic() + 10
        while (left := processes.marked(self.owner)) and time.monotonic() < until:
            for pid in left:
                processes.end(pid)
            time.sleep(0.02)

    def prepare(self) -> None:
        """One more machine gets ready."""
        settings = {
            "is_host": "false",
            "keep_alive_interval": 1,
            "keep_alive_max_attempt": SILENT,
            "last_call_timeout": 1,
        }
        command = [
            *(*COMMAND, "--nnodes", f"1:{NODES}"),
            *("--nproc-per-node", str(self.each), "--max-restarts", str(RESTARTS), "--monitor-interval", "0.2"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.store.port}", "--rdzv-id", self.owner),
            *("--rdzv-conf", ",".join(f"{name}={value}" for name, value in settings.items())),
            *("--local-addr", "127.0.0.1", str(Path(__file__)), *self.options.arguments()),
        ]
        environment = {
            **processes.with_path(os.environ),
            "OMP_NUM_THREADS": "1",
            "SHARDWISE_RUN": str(self.folder),
            "TMPDIR": str(self.folder),  # what agents that are killed leave behind is gone with the run
            processes.OWNER: self.owner,
            # Ranks would meet in the agents' store under the number of restarts, which each agent counts for itself.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        self.ready.append(Machine(command, environment, self.folder / f"machine-{uuid.uuid4().hex}.log"))

    def join(self) -> None:
        """The machine that got ready takes part."""
        machine = self.ready.pop()
        machine.join()
        self.joined.append(machine)

    def kill(self, rank: int) -> None:
        """SIGKILL for one rank."""
        pid = next(pid for pid, (number, _) in self.alive.items() if number == rank)
        processes.end(pid)
        del self.alive[pid]
        tell(self.folder, "killed", rank=rank)

    def lose(self) -> None:
        """The machine with the highest rank is gone, with its agent and all its ranks."""
        _, lost = max(self.alive.values(), key=lambda each: each[0])
        self.joined.remove(lost)
        lost.agent.kill()
        for rank in sorted(rank for rank, machine in self.alive.values() if machine is lost):
            self.kill(rank)
        lost.end()

    def started(self, event: Event) -> None:
        """A rank says that it is there."""
        pid = event.values["pid"]
        for machine in (each for each in self.joined if each.has(pid)):
            self.alive[pid] = event.rank or 0, machine

    def gone(self) -> set[int]:
        """The ranks that are no more and that nobody here killed: they came to their end, or torchrun ended them to
        start all of them again.
        """
        gone = {pid: rank for pid, (rank, _) in self.alive.items() if not processes.there(pid)}
        for pid in gone:
            del self.alive[pid]
        return {*gone.values()}

    def ended(self, *, finished: bool) -> bool:
        """Whether all machines have come to the end. Raises CourseError where one gave up: not one that came too late,
        when ranks had finished already.
        """
        codes = [machine.agent.poll() for machine in self.joined]
        for code, machine in zip(codes, self.joined, strict=True):
            if code and not finished:
                raise CourseError("labs.elastic-gave-up", code=code, detail=machine.last_words())
        return all(code is not None for code in codes)


def conduct(
    options: ElasticOptions,
    *,
    ranks: int,
    timeout: float,
    on_row: OnRow | None,
    on_output: OnOutput | None,  # noqa: ARG001
) -> LabRun:
    """A rank is killed; a machine is lost, and half of the ranks go on; a machine joins, and all go on."""
    from labs.runner import run

    origin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = Path(place)
        settings = replace(options, checkpoints=str(Path(options.checkpoints or Path(place, "checkpoints")).resolve()))
        watching = Reader(folder, ranks=ranks, on_row=on_row, origin=origin) if on_row else nullcontext()
        with watching, Machines(settings, ranks=ranks, folder=folder) as machines:
            events = played(settings, machines, ranks=ranks, origin=origin, timeout=timeout)
        reports = [reported(folder, rank) for rank in range(ranks)]
        rows = read_rows(folder)
    words = ["--reference", str(ranks), *options.arguments()]
    alone = run(Path(__file__), ranks=1, arguments=words, timeout=timeout)
    losses = cast("dict[str, Any]", alone.ranks[0].value)["losses"]

    told = history(events, options, ranks=ranks)
    for report in reports:
        report["losses"] = told["losses"]
    data = together("elastic", options, reports, reference_losses=losses)
    return LabRun(data=data | told | {"events": [each.as_dict() for each in events]}, rows=rows)


def reported(folder: Path, rank: int) -> dict[str, Any]:
    """What a rank reported at its end. Raises CourseError where the run was over before its machine had come back."""
    told = read_value(folder, rank)
    if told is None:
        raise CourseError("labs.elastic-too-quick", rank=rank)
    return cast("dict[str, Any]", told)


def played(options: ElasticOptions, machines: Machines, *, ranks: int, origin: float, timeout: float) -> list[Event]:
    """Let happen what is to happen, each in its step, and see the run to its end; all events in the order of time."""
    events = list[Event]()
    actions = (partial(machines.kill, ranks - 1), machines.lose, machines.join)
    to_come: deque[tuple[int, Callable[[], None], int]]
    to_come = deque(zip(options.happens, actions, (ranks, ranks, ranks // NODES), strict=True))
    restarting, finished = True, set[int | None]()
    for _ in range(NODES):
        machines.prepare()
        machines.join()
    with closing(Follower(machines.folder, ranks=ranks)) as follower:
        ended = False
        while not ended:
            ended = machines.ended(finished=bool(finished))
            if time.monotonic() - origin > timeout:
                raise CourseError(
                    "labs.elastic-too-long", seconds=round(timeout), detail=machines.joined[0].last_words()
                )
            gone = machines.gone()  # before their last words are read
            for each in follower.new(origin=origin):
                events.append(each)
                if each.name == "started":
                    if to_come and not machines.ready:  # the machine that will join, once the others are there
                        machines.prepare()
                    machines.started(each)
                    restarting = False
                elif each.name == "finished":
                    finished.add(each.rank)
                elif each.name == "step" and to_come:
                    step, happen, on = to_come[0]
                    if each.values["step"] >= step and len(machines.alive) == on and not restarting:
                        to_come.popleft()
                        happen()
            if gone - finished and not restarting:
                restarting = True
                tell(machines.folder, "restarting", ranks=len(machines.joined) * machines.each)
            time.sleep(0.01)
    return events


def history(events: Sequence[Event], options: ElasticOptions, *, ranks: int) -> dict[str, Any]:
    """What the ranks told, put together: the attempts, each with its losses; of every step the loss that counts, which
    is that of the last attempt at it; how often a step was done that did not count; and whether the steps that count
    have seen every example once, in the order of a run that nothing happened to.
    """
    attempts: dict[float, dict[str, Any]] = {}
    seen: dict[tuple[float, int], list[tuple[int, list[int]]]] = {}
    for each in events:
        if each.name == "started" and each.rank == 0:
            attempts[each.values["began"]] = {"ranks": each.values["ranks"], "first": 0, "losses": []}
        elif each.name == "resumed" and each.rank == 0:
            [*attempts.values()][-1]["first"] = each.values["step"]
        elif each.name == "trained" and each.rank is not None:
            began, step = each.values["began"], each.values["step"]
            seen.setdefault((began, step), []).append((each.rank, each.values["examples"]))
            if each.rank == 0:
                attempts[began]["losses"].append(each.values["loss"])
    counts = {step: (began, loss) for began, step, loss in tried(attempts)}
    consumed = [chosen for step, (began, _) in sorted(counts.items()) for _, chosen in sorted(seen[began, step])]
    examples = [example for chosen in consumed for example in chosen]
    wanted = order(0, options.steps * options.global_batch(ranks), sequence=options.sequence, seed=options.seed)
    return {
        "losses": [loss for _, (_, loss) in sorted(counts.items())],
        "attempts": list(attempts.values()),
        "lost_steps": sum(len(attempt["losses"]) for attempt in attempts.values()) - len(counts),
        "examples": {
            "consumed": len(examples),
            "missing": sum((Counter(wanted) - Counter(examples)).values()),
            "repeated": sum((Counter(examples) - Counter(wanted)).values()),
            "in_order": examples == wanted,
        },
    }


def tried(attempts: Mapping[float, Mapping[str, Any]]) -> Iterator[tuple[float, int, float]]:
    """Every step that was taken, in the order of time: attempt, step, loss."""
    for began, attempt in attempts.items():
        for number, loss in enumerate(attempt["losses"]):
            yield began, attempt["first"] + number, loss


if __name__ == "__main__":
    training.main(ElasticOptions, train, reference)
