"""The issuing service under load, on one core: exam answers a second and their 99th percentile, beside a bare FastAPI
route of the same run; and a few hundred learners who take an exam at once, none of whose answers may be lost.

`python -m tools.bench_service` prints JSON. The server is a process of its own, held to one core; learners ask from
another one, over loopback, each with a connection that stays open. An answer counts as lost where it was acknowledged
and is not in the database when the server has been killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
QUESTIONS = 12
SECRET = "0123456789abcdef0123456789abcdef"
START_SECONDS = 60


@dataclass(frozen=True)
class Learner:
    """Somebody in an exam: the token of the visit, the attempt, and how each question can be answered."""

    token: str
    attempt: str
    forms: tuple[str, ...]
    offered: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Load:
    """What was asked, how long each answer took (seconds), and what was acknowledged: attempt, question, revision."""

    seconds: float
    taken: tuple[float, ...]
    acknowledged: tuple[tuple[str, int, int], ...]
    refused: int

    @property
    def per_second(self) -> float:
        return len(self.taken) / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.taken)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# --- the service, filled


def settings_in(folder: Path, *, port: int = 0) -> Any:
    from shardwise.service.settings import Secret, Settings

    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Settings(
        data=data,
        database=f"sqlite:///{data / 'service.db'}",
        public_url=f"http://127.0.0.1:{port}",
        secret=Secret(SECRET),
        exams=folder / "exams",
        accounts="open",
        port=port,
    )


def filled(folder: Path, *, learners: int) -> list[Learner]:
    """A service in which so many have begun an exam of the public bank."""
    from shardwise.service import accounts, attempts, cohorts
    from shardwise.service.app import make_core
    from shardwise.service.tables import Account

    plan = {"version": 1, "id": "load", "title": {"en": "Load"}}
    lines = [{"unit": "04-zero-1", "items": QUESTIONS}]
    exam = {"blueprint": "plans/load.yaml", "banks": [], "public_bank": True, "minutes": 60, "practical": None}
    (folder / "exams" / "plans").mkdir(parents=True)
    (folder / "exams" / "plans" / "load.yaml").write_text(yaml.safe_dump({**plan, "lines": lines}), encoding="utf-8")
    (folder / "exams" / "load.yaml").write_text(yaml.safe_dump({"version": 1, "exam": exam}), encoding="utf-8")
    found = []
    with closing(make_core(settings_in(folder))) as core:
        at = core.clock()
        opens, closes = at - timedelta(hours=1), at + timedelta(days=1)
        sitting = cohorts.open_sitting(core, None, exam="load", opens=opens, closes=closes)
        for number in range(learners):
            with core.store.writing() as session:
                account = Account(email=f"learner{number}@example.org", name=f"Learner {number}", made=at)
                session.add(account)
                session.flush()
                signed = accounts.enter(session, account, provider="email", settings=core.settings, at=at, wanted={})
            with core.store.reading() as session:
                person = accounts.person_of(session, signed.token, at)
            assert person is not None
            begun = attempts.start(core, person, sitting)
            asked = [attempts.question(core, person, begun.id, each) for each in range(1, begun.questions + 1)]
            found.append(
                Learner(
                    token=signed.token,
                    attempt=begun.id,
                    forms=tuple(each.form for each in asked),
                    offered=tuple(len(each.offered) for each in asked),
                    rows=tuple((len(each.offered), len(each.answers)) for each in asked),
                )
            )
    return found


def answer_to(learner: Learner, question: int, chance: random.Random) -> Any:
    """Some answer that the question's form allows."""
    form, offered = learner.forms[question - 1], learner.offered[question - 1]
    match form:
        case "choice" | "fault":
            return str(chance.randint(1, offered))
        case "several":
            return [str(each) for each in sorted(chance.sample(range(1, offered + 1), chance.randint(1, offered)))]
        case "order":
            return [str(each) for each in chance.sample(range(1, offered + 1), offered)]
        case "match":
            rows, fits = learner.rows[question - 1]
            return {str(row): str(chance.randint(1, fits)) for row in range(1, rows + 1)}
        case _:
            return f"{chance.randint(1, 10**6)}"


def stored(folder: Path) -> set[tuple[str, int, int]]:
    """Every answer in the database."""
    from sqlalchemy import select

    from shardwise.service.store import Store
    from shardwise.service.tables import Answer

    with closing(Store.open(settings_in(folder).database)) as store, store.reading() as session:
        rows = session.execute(select(Answer.attempt, Answer.position, Answer.revision))
        return {(row[0], row[1], row[2]) for row in rows}


# --- servers, one a process, on one core


class Server:
    """`serve` in a process of its own, held to the first core."""

    def __init__(self, kind: str, folder: Path) -> None:
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            self.port = int(asked.getsockname()[1])
        command = [sys.executable, "-m", "tools.bench_service", "--serve", kind, str(folder), str(self.port)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Server:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.kill()
        raise RuntimeError("the server did not begin")

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """At once, without a word: what was acknowledged must be on the disk."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)


def serve(kind: str, folder: Path, port: int) -> None:
    import uvicorn

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    app = bare() if kind == "bare" else service(folder, port)
    uvicorn.run(
        app, host="127.0.0.1", port=port, log_config=None, access_log=False, backlog=2048, timeout_keep_alive=15
    )


def bare() -> Any:
    """The least that FastAPI can do for the same request: a body of the same kind read, a few values sent back."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Given(BaseModel):
        answer: str | list[str] | dict[str, str] | None

    app = FastAPI()

    def take(attempt: str, number: int, body: Given) -> dict[str, Any]:
        return {"number": number, "revision": len(body.model_fields_set), "at": attempt, "seconds_left": 1.5}

    take.__annotations__["body"] = Given
    app.put("/api/attempts/{attempt}/answers/{number}")(take)
    return app


def service(folder: Path, port: int) -> Any:
    from shardwise.service import logs
    from shardwise.service.app import create_app, make_core

    logs.configure(Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    return create_app(core=make_core(settings_in(folder, port=port)), work=False)


# --- learners


async def _learner(
    port: int,
    learner: Learner,
    questions: Sequence[int],
    *,
    pause: tuple[float, float],
    seed: int,
    taken: list[float],
    acknowledged: list[tuple[str, int, int]],
) -> int:
    """One learner with one connection: an answer, its acknowledgement, a thought, the next. How many were refused."""
    chance, refused = random.Random(seed), 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for question in questions:
            if pause[1]:
                await asyncio.sleep(chance.uniform(*pause))
            body = json.dumps({"answer": answer_to(learner, question, chance)}).encode()
            head = (
                f"PUT /api/attempts/{learner.attempt}/answers/{question} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Authorization: Bearer {learner.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            began = time.perf_counter()
            if reader.at_eof():  # closed while the learner thought; a browser connects again, too
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            length = next(int(each.split(b":")[1]) for each in lines if each.lower().startswith(b"content-length"))
            said = await reader.readexactly(length)
            taken.append(time.perf_counter() - began)
            if lines[0].split()[1] == b"200":
                found = json.loads(said)
                acknowledged.append((learner.attempt, found["number"], found["revision"]))
            else:
                refused += 1
    finally:
        writer.close()
    return refused


async def _all(port: int, learners: Sequence[Learner], *, each: int, pause: tuple[float, float], seed: int) -> Load:
    taken: list[float] = []
    acknowledged: list[tuple[str, int, int]] = []
    began = time.perf_counter()
    questions = [1 + number % QUESTIONS for number in range(each)]
    refused = await asyncio.gather(
        *(
            _learner(port, learner, questions, pause=pause, seed=seed + at, taken=taken, acknowledged=acknowledged)
            for at, learner in enumerate(learners)
        )
    )
    seconds = time.perf_counter() - began
    return Load(seconds=seconds, taken=tuple(taken), acknowledged=tuple(acknowledged), refused=sum(refused))


def load(
    port: int, learners: Sequence[Learner], *, each: int, pause: tuple[float, float] = (0, 0), seed: int = 1
) -> Load:
    """All learners at once, each giving so many answers one after another, with pauses of so many seconds between."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, here - {min(here)})
        try:
            return asyncio.run(_all(port, learners, each=each, pause=pause, seed=seed))
        finally:
            os.sched_setaffinity(0, here)
    return asyncio.run(_all(port, learners, each=each, pause=pause, seed=seed))


# --- figures


def exams_at_once(*, learners: int, each: int, pause: tuple[float, float]) -> dict[str, float]:
    """So many in an exam at once; then the server is killed, and every acknowledged answer is looked for."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        people = filled(folder, learners=learners)
        with Server("service", folder) as server:
            found = load(server.port, people, each=each, pause=pause)
            server.kill()
        kept = stored(folder)
        return {
            "learners": learners,
            "answers": len(found.taken),
            "refused": found.refused,
            "lost": len(set(found.acknowledged) - kept),
            "acknowledged": len(found.acknowledged),
            "per_second": found.per_second,
            "p50_ms": 1000 * found.percentile(0.5),
            "p99_ms": 1000 * found.percentile(0.99),
        }


def answers(*, learners: int = 16, each: int = 60) -> dict[str, dict[str, float]]:
    """Answers a second on one core, and their percentiles, of the service and of a bare route, in turns."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        people = filled(folder, learners=learners)
        for turn in range(2):
            for kind in ("bare", "service"):
                with Server(kind, folder) as server:
                    load(server.port, people, each=5, seed=1000 + turn)
                    got = load(server.port, people, each=each, seed=turn)
                assert got.refused == 0, f"{got.refused} answers were refused"
                best = {
                    "per_second": got.per_second,
                    "p50_ms": 1000 * got.percentile(0.5),
                    "p99_ms": 1000 * got.percentile(0.99),
                }
                if kind not in found or best["per_second"] > found[kind]["per_second"]:
                    found[kind] = best
    return found


def figures(*, learners: int = 300) -> dict[str, dict[str, Any]]:
    """All of them: answers beside a bare route, and learners at once, who think between answers."""
    return {
        "answers": dict(answers()),
        "at once": exams_at_once(learners=learners, each=QUESTIONS, pause=(2.0, 8.0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "FOLDER", "PORT"))
    parser.add_argument("--learners", type=int, default=300)
    arguments = parser.parse_args()
    if arguments.serve:
        kind, folder, port = arguments.serve
        serve(kind, Path(folder), int(port))
        return
    print(json.dumps(figures(learners=arguments.learners), indent=1))


if __name__ == "__main__":
    main()
