"""The process that leads one run: it starts the ranks, watches them, passes on their output, and ends them.

It is the ranks' parent, so that it alone knows for certain when one is gone and may end them by id. It ends them when
the channel to the asking process is closed, whatever closed it. Events go over the channel as lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from labs.runner import child, heartbeat, processes
from labs.runner.plan import Plan

OUTPUT_LIMIT = 1_000_000
"""Bytes of output of one rank that are passed on; the rest is read and dropped."""

_TICK = 0.05
_WORD = 1.0
"""Seconds between two signs of life to the asking process."""
_GRACE = 1.0
_GRACE_AFTER_MISMATCH = 0.2
_LINE_LIMIT = 10_000
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rank starts: the store's port, the descriptor it writes to, the pipe that closes when the leader is gone,
    and the leader's own descriptors."""

    rank: int
    port: int
    output: int
    lifeline: int
    not_for_it: tuple[int, ...]


Start = Callable[[Plan, Place], int]
"""Starts one rank and returns its process id."""


@dataclass(kw_only=True)
class _Rank:
    number: int
    pid: int
    output: int
    pending: bytes = b""
    passed: int = 0
    dropped: int = 0
    code: int | None = None
    ended_at: float = 0.0
    was_ended: bool = False


@dataclass(kw_only=True)
class _Collectives:
    """Compares what ranks call: the calls of one stream and number must agree."""

    open: OrderedDict[tuple[int, int], dict[int, heartbeat.Call]] = field(default_factory=OrderedDict)
    latest: dict[int, dict[int, heartbeat.Call]] = field(default_factory=dict)
    disagreed: dict[int, heartbeat.Call] | None = None
    """The first calls that did not agree, by rank; filled further by ranks that come to the same call."""

    def take(self, rank: int, call: heartbeat.Call) -> None:
        self.latest.setdefault(call.stream, {})[rank] = call
        calls = self.open.setdefault((call.stream, call.number), {})
        calls[rank] = call
        if self.disagreed is None and len({(each.content, each.history) for each in calls.values()}) > 1:
            self.disagreed = calls
        if len(self.open) > _REMEMBERED:
            self.open.popitem(last=False)

    def told(self, *, at_the_end: bool) -> dict[str, Any] | None:
        """The disagreement: who called what, and who did not call at all, once all have come to their ends."""
        if self.disagreed is not None:
            return {"calls": {rank: asdict(call) for rank, call in self.disagreed.items()}, "missing": []}
        for calls in self.latest.values() if at_the_end else ():
            most = max(calls, key=lambda rank: calls[rank].number)
            missing = [rank for rank in calls if calls[rank].number < calls[most].number]
            if missing:
                return {"calls": {most: asdict(calls[most])}, "missing": missing}
        return None


class Leader:
    """One run. ``lead()`` returns when no rank is left and everything has been told."""

    def __init__(self, plan: Plan, channel: socket.socket, start: Start, *, parent: int) -> None:
        self._plan = plan
        self._channel = channel
        self._start = start
        self._ranks: list[_Rank] = []
        self._unsent = bytearray()
        self._asker_gone = False
        self._parent = parent
        self._selector = selectors.DefaultSelector()
        self._collectives = _Collectives()

    def lead(self) -> None:
        try:
            if not self._is_wanted():
                self._asker_gone = True
                return
            self._tell({"event": "leading", "pid": os.getpid()})
            self._begin()
            why = self._watch()
            self._finish(why)
        except OSError as error:
            self._end_ranks()
            self._tell({"event": "failed", "detail": str(error)})
            self._send_rest()
        finally:
            self._give_up()

    def _is_wanted(self) -> bool:
        return processes.is_there(self._parent, self._channel)

    def _give_up(self) -> None:
        """Leave no rank, and no folder that nobody would remove."""
        self._end_ranks()
        processes.end_children(within=2.0)
        if (self._asker_gone or not self._is_wanted()) and self._plan.temporary:
            shutil.rmtree(self._plan.folder, ignore_errors=True)

    def _begin(self) -> None:
        processes.adopt_orphans()
        self._channel.setblocking(False)
        self._selector.register(self._channel, selectors.EVENT_READ, "channel")
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A rank that is not ready to show its stack must not die of being asked; it inherits this.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        self._selector.register(woken, selectors.EVENT_READ, "child")
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        port = listener.getsockname()[1]
        lifeline, self._alive = os.pipe()
        own = [self._channel.fileno(), woken.fileno(), wake.fileno(), listener.fileno(), self._alive]
        for number in range(self._plan.ranks):
            read, write = os.pipe()
            try:
                not_for_it = (*own, read, *(each.output for each in self._ranks))
                place = Place(rank=number, port=port, output=write, lifeline=lifeline, not_for_it=not_for_it)
                pid = self._start(self._plan, place)
            finally:
                os.close(write)
            os.set_blocking(read, False)
            self._ranks.append(_Rank(number=number, pid=pid, output=read))
            self._selector.register(read, selectors.EVENT_READ, number)
        self._tell({"event": "started", "pids": [each.pid for each in self._ranks]})
        with processes.only_while(self._is_wanted, otherwise=self._give_up):
            self._store = _store(listener, port)
        self._hearts = heartbeat.Hearts(self._plan.path, self._plan.ranks)

    def _watch(self) -> str:
        """Until the run is over. Returns why: finished, failed, hung, late or cancelled."""
        deadline = time.monotonic() + self._plan.timeout
        grace_until: float | None = None
        word_at = 0.0
        while True:
            self._wait(_TICK)
            now = time.monotonic()
            if now > word_at:
                self._tell({"event": "tick"})
                word_at = now + _WORD
            self._look_at_calls()
            if self._asker_gone or os.getppid() != self._parent:
                return "cancelled"
            if all(each.code is not None for each in self._ranks):
                return "finished" if all(each.code == 0 for each in self._ranks) else "failed"
            bad = self._collectives.disagreed is not None or any(each.code for each in self._ranks)
            if bad and grace_until is None:
                grace_until = now + (_GRACE_AFTER_MISMATCH if self._collectives.disagreed else _GRACE)
            if grace_until is not None:
                if now > grace_until:
                    return "failed"
            elif now > deadline:
                return "late"
            elif self._longest_wait(now) > self._plan.patience:
                return "hung"

    def _longest_wait(self, now: float) -> float:
        places = [self._hearts.now(each.number) for each in self._ranks if each.code is None]
        return max((now - each.since for each in places if each.state == heartbeat.WAITING), default=0.0)

    def _look_at_calls(self) -> None:
        for each in self._ranks:
            for call in self._hearts.calls(each.number):
                self._collectives.take(each.number, call)

    def _finish(self, why: str) -> None:
        """End what still runs, and tell how everything stood before that."""
        now = time.monotonic()
        places = [self._hearts.now(each.number) for each in self._ranks]
        self._look_at_calls()
        running = [each for each in self._ranks if each.code is None]
        if running and why != "cancelled":
            for each in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGUSR1)
            self._wait(0.3, only_output=True)
        if all(each.code == 0 for each in self._ranks):
            why = "finished"  # in the very last moment
        self._end_ranks()
        self._tell(
            {
                "event": "over",
                "why": why,
                "codes": [None if each.was_ended else each.code for each in self._ranks],
                "ended_at": [each.ended_at for each in self._ranks],
                "places": [asdict(each) for each in places],
                "waited": [now - each.since for each in places],
                "mismatch": self._collectives.told(at_the_end=why == "finished"),
                "dropped": [each.dropped for each in self._ranks],
            }
        )
        self._send_rest()

    def _wait(self, seconds: float, *, only_output: bool = False) -> None:
        """Serve the channel, the outputs and ended ranks for at most so long, or until something came."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, until - time.monotonic())
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            self._selector.modify(self._channel, events, "channel")
            ready = self._selector.select(left)
            for key, mask in ready:
                if key.data == "channel":
                    self._serve_channel(mask)
                elif key.data == "child":
                    with contextlib.suppress(BlockingIOError):
                        key.fileobj.recv(1024)  # type: ignore[union-attr]
                else:
                    self._read_output(self._ranks[key.data])
            self._reap()
            if not only_output or not left:
                return

    def _serve_channel(self, mask: int) -> None:
        if mask & selectors.EVENT_READ:
            with contextlib.suppress(BlockingIOError):
                try:
                    self._asker_gone = self._channel.recv(1024) == b"" or self._asker_gone
                except OSError:
                    self._asker_gone = True
        if mask & selectors.EVENT_WRITE:
            self._send()

    def _reap(self) -> None:
        for each in self._ranks:
            if each.code is not None:
                continue
            state = os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if state is None:
                continue
            processes.end(each.pid)  # what the rank itself started and left behind; its id is still taken
            _, status = os.waitpid(each.pid, 0)
            each.code = os.waitstatus_to_exitcode(status)
            each.ended_at = time.monotonic()
            self._read_output(each, last=True)

    def _read_output(self, rank: _Rank, *, last: bool = False) -> None:
        if rank.output < 0:
            return
        for _ in range(1000 if last else 4):
            try:
                data = os.read(rank.output, 65536)
            except BlockingIOError:
                break
            if not data:
                last = True
                break
            room = max(0, OUTPUT_LIMIT - rank.passed)
            rank.passed += len(data)
            rank.dropped += max(0, len(data) - room)
            rank.pending += data[:room]
        self._pass_on(rank, last=last)
        if last:
            self._selector.unregister(rank.output)
            os.close(rank.output)
            rank.output = -1

    def _pass_on(self, rank: _Rank, *, last: bool) -> None:
        *whole, rest = rank.pending.split(b"\n")
        if last or len(rest) > _LINE_LIMIT or rank.dropped:
            whole, rest = ([*whole, rest] if rest else whole), b""
        rank.pending = rest
        if whole:
            lines = [each.decode("utf-8", "replace") for each in whole]
            self._tell({"event": "output", "rank": rank.number, "lines": lines})

    def _end_ranks(self) -> None:
        for each in self._ranks:
            if each.code is None:
                processes.end(each.pid)
                each.was_ended = True
        for each in self._ranks:
            if each.code is None:
                _, status = os.waitpid(each.pid, 0)
                each.code = os.waitstatus_to_exitcode(status)
                self._read_output(each, last=True)

    def _tell(self, event: dict[str, Any]) -> None:
        self._unsent += json.dumps(event).encode() + b"\n"
        self._send()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._asker_gone, self._unsent = True, bytearray()

    def _send_rest(self) -> None:
        deadline = time.monotonic() + 30
        while self._unsent and time.monotonic() < deadline:
            select.select([], [self._channel], [], 1.0)
            self._send()


def fork(plan: Plan, place: Place) -> int:
    """Start a rank as a copy of this process, in which everything is imported already."""
    leader = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        processes.die_with(leader, lifeline=place.lifeline)
        signal.set_wakeup_fd(-1)
        os.dup2(place.output, 1)
        os.dup2(place.output, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for each in (*place.not_for_it, place.output, null):
            os.close(each)
        os.environ.clear()
        os.environ.update(plan.rank_environment(place.rank, place.port))
        child.main(plan, place.rank)
    finally:
        os._exit(1)


def spawn(plan: Plan, place: Place) -> int:
    """Start a rank as an interpreter of its own."""
    told = replace(plan, environment={}).to_json()
    started = subprocess.Popen(
        [
            *(sys.executable, *processes.MODULE, "labs.runner.child"),
            *(told, str(place.rank), str(os.getpid()), str(place.lifeline)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=place.output,
        stderr=place.output,
        env=processes.with_path(plan.rank_environment(place.rank, place.port)),
        start_new_session=True,
        pass_fds=[place.lifeline],
    )
    started.returncode = 0  # the leader waits for it by its id, the Popen object must not
    return started.pid


def receive_plan(channel: socket.socket) -> Plan:
    """The plan, which the asking process sends first: one line of JSON."""
    text = b""
    while not text.endswith(b"\n"):
        data = channel.recv(65536)
        if not data:
            raise EOFError
        text += data
    return Plan.from_json(text.decode())


def _store(listener: socket.socket, port: int) -> object:
    """The store in which ranks find each other, on a port that was never free to be taken by another."""
    from torch._C._distributed_c10d import TCPStore

    return TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())


def main() -> NoReturn:
    """A leader of its own, for plain processes: ``python -m labs.runner.leader PARENT CHANNEL``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, channel = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    Leader(receive_plan(channel), channel, spawn, parent=parent).lead()
    os._exit(0)


if __name__ == "__main__":
    main()
