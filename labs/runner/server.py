"""The fork server: imports torch once, then copies itself for each run, which takes milliseconds.

``python -m labs.runner.server PARENT CONTROL FOLDER``. It only imports; a tensor operation would start threads, and a
copy of a process with threads may hang. Each message on the socket CONTROL brings the channel of one run, which a copy
then leads. When the socket closes or the process PARENT is gone, it ends, and FOLDER with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from typing import NoReturn

from labs.runner import leader, processes

MODULES = (
    "torch",
    "torch.distributed",
    "torch._dynamo",  # what torch imports when the first optimizer is made, which takes a second
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.checkpoint",
    "torch.utils.checkpoint",
    "numpy",
    "safetensors.torch",
    "labs.runner.rank",
    "labs.zero",  # for what it imports: a rank reads the course's own modules afresh
)


def main() -> NoReturn:
    parent, control, folder = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])), sys.argv[3]
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN if each == signal.SIGINT else signal.SIG_DFL)
    if processes.CONFINED in os.environ:
        processes.close_to_others()
    with processes.only_while(
        lambda: processes.is_there(parent, control), otherwise=lambda: shutil.rmtree(folder, ignore_errors=True)
    ):
        _import()
    gc.collect()
    gc.freeze()
    while os.getppid() == parent:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if not select.select([control], [], [], 1.0)[0]:
            continue
        try:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except OSError:
            break
        if not message:
            break
        channel = socket.socket(fileno=descriptors[0])
        _lead_in_a_copy(control, channel)
        channel.close()
    _await_leaders()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _import() -> None:
    for name in MODULES:
        # A module that cannot be imported is the rank's to complain about.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _lead_in_a_copy(control: socket.socket, channel: socket.socket) -> None:
    server = os.getpid()
    if os.fork():
        return
    try:
        control.close()
        plan = leader.receive_plan(channel)
        leader.Leader(plan, channel, leader.fork, parent=server).lead()
    except EOFError:
        pass
    finally:
        os._exit(0)


def _await_leaders() -> None:
    """Each run's leader sees the same end, and ends its ranks; a leader that does not is ended here."""
    deadline = time.monotonic() + 8
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
    processes.end_children(within=1.0)


if __name__ == "__main__":
    main()
