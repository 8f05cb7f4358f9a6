"""Servers to be killed, born quickly: this process has everything imported and forks one for each order.

python -m tests.shardwise.service.nursery FOLDER DATABASE-URL

An order is a line of JSON on its standard input, `{"die": null}` or `{"die": ["before", 3]}`: the server kills itself
with SIGKILL just before (or just after) its third commit of a writing transaction. The answer is a line `PID PORT`.
When the input ends, so do all servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session

from shardwise.record.tables import now
from shardwise.service import issuing, pages, serving
from tests.shardwise.service.making import core_of, pass_exam, person

assert pages


def main() -> None:
    folder, database = Path(sys.argv[1]), sys.argv[2]
    warm()
    children: set[int] = set()
    for line in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            live(folder, database, json.loads(line), writing)
        os.close(writing)
        children.add(pid)
        with os.fdopen(reading) as told:
            print(pid, told.readline().strip() or "0", flush=True)
        for each in tuple(children):
            if os.waitpid(each, os.WNOHANG)[0]:
                children.discard(each)
    for each in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
        os.waitpid(each, 0)


def warm() -> None:
    """Takes an exam once, so that every server finds read what it would read."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(core_of(Path(folder))) as core:
        who, _ = person(core)
        issuing.request(core, who, pass_exam(core, who).id)


def live(folder: Path, database: str, order: dict[str, Any], told: int) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        if order["die"]:
            die(*order["die"])
        core = core_of(folder, clock=now, database=database)  # type: ignore[arg-type]
        listening = serving.bound("127.0.0.1", 0)
        os.write(told, f"{listening.getsockname()[1]}\n".encode())
        os.close(told)
        serving.run(core, listening)
    finally:
        os._exit(1)


def die(when: str, number: int) -> None:
    count = 0

    def commit(connection: Connection) -> None:
        nonlocal count
        if connection.get_execution_options().get("writes"):
            count += 1
            if when == "before" and count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    def committed(_session: Session) -> None:
        if when == "after" and count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "commit", commit)
    event.listen(Session, "after_commit", committed)


if __name__ == "__main__":
    main()
