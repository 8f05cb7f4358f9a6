"""A server killed with SIGKILL at any moment loses no acknowledged answer and never issues twice.

Two ways: at each commit in turn, just before it and just after it, so that no boundary is left to chance; and at
random moments while several learners answer, hand in and ask for their certificates at once. A learner's program does
what a real one does: it asks again, with the same key, until somebody answers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

import certificates
from certificates.trust import Trust
from quiz.exam.session import _named
from shardwise.service.attempts import paper_of
from shardwise.service.core import Core
from shardwise.service.tables import Answer, Attempt, Certificate, StatusEntry
from tests.shardwise.service.making import core_of, exam_folder, person, right, sitting

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0


class Nursery:
    """Servers over one folder and database, one at a time."""

    def __init__(self, folder: Path, database: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.shardwise.service.nursery", str(folder), database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self.pid = 0
        self.url = ""
        self.killed = 0

    def start(self, die: tuple[str, int] | None = None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"die": die}) + "\n")
        self._process.stdin.flush()
        pid, port = self._process.stdout.readline().split()
        self.pid, self.url = int(pid), f"http://127.0.0.1:{port}"

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.killed += 1

    @property
    def alive(self) -> bool:
        """Whether the server runs; one that died is its parent's zombie until the next order."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state != "Z"

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@dataclass
class Learner:
    """A learner's program: what it was told is what it believes. `told`: answers acknowledged, by attempt, number and
    revision.
    """

    nursery: Nursery
    token: str
    told: dict[tuple[str, int, int], Any] = field(default_factory=dict)
    certificates: dict[str, set[str]] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=20))

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """What the service answers in the end; asked again while nobody answers."""
        headers = {"authorization": f"Bearer {self.token}", **({"idempotency-key": key} if key else {})}
        until = time.monotonic() + PATIENCE
        if self.stopping.is_set():
            raise Stopped
        while time.monotonic() < until:
            try:
                found = self.client.request(method, self.nursery.url + path, json=body, headers=headers)
            except httpx.HTTPError:
                if self.stopping.is_set():
                    raise Stopped from None
                time.sleep(0.01)
                continue
            if found.status_code == 429:
                time.sleep(float(found.headers["retry-after"]))
                continue
            assert found.status_code < 300, found.text
            return found.json()
        raise AssertionError("nobody answered")

    def take(self, sitting: str, core: Core) -> str:
        """A whole exam: begun, answered (the first question twice), handed in, and its certificate asked for twice."""
        begun = self.ask("POST", f"/api/exams/{sitting}/start", {}, key=f"start-{random.random()}")
        id = begun["id"]
        for number in (1, *range(1, begun["questions"] + 1)):
            first = number == 1 and (id, 1, 1) not in self.told
            self.answer(id, number, "2" if first else right(core, id, number))
        assert self.ask("POST", f"/api/attempts/{id}/hand-in", {})["state"] == "graded"
        for _ in range(2):
            found = self.ask("POST", f"/api/attempts/{id}/certificate", {})
            self.certificates.setdefault(id, set()).add(found["jwt"])
        return str(id)

    def answer(self, id: str, number: int, given: Any) -> None:
        written = self.ask(
            "PUT", f"/api/attempts/{id}/answers/{number}", {"answer": given}, key=f"{random.random():.17f}"
        )
        self.told[id, number, written["revision"]] = given


class Stopped(Exception):
    """The test is over."""


def check(core: Core, learners: list[Learner]) -> None:
    """What was acknowledged is there, and nobody has two certificates."""
    with core.store.reading() as session:
        for learner in learners:
            for (id, number, revision), given in learner.told.items():
                attempt = session.get_one(Attempt, id)
                own = _named(paper_of(session, attempt).questions[number - 1], given)
                query = select(Answer).where(
                    Answer.attempt == id, Answer.position == number, Answer.revision == revision
                )
                kept = session.scalars(query).one()
                assert kept.given == own
            for id, jwts in learner.certificates.items():
                (jwt,) = jwts
                kept_ = session.scalars(select(Certificate).where(Certificate.attempt == id)).one()
                assert kept_.jwt == jwt
        assert session.scalar(select(func.count()).select_from(Certificate).where(Certificate.jwt.is_(None))) == 0
        issued = session.scalar(select(func.count()).select_from(Certificate))
        assert session.scalar(select(func.count()).select_from(StatusEntry)) == issued
        assert session.scalar(select(func.count(func.distinct(StatusEntry.position)))) == issued


@pytest.fixture
def place(tmp_path: Path) -> Path:
    exam_folder(tmp_path / "exams", questions=3, minutes=300, attempts=100, wait_hours=0)
    return tmp_path


@contextlib.contextmanager
def nursing(place: Path, url: str) -> Iterator[tuple[Nursery, Core]]:
    with contextlib.closing(_core(place, url)) as core:
        nursery = Nursery(place, url)
        try:
            yield nursery, core
        finally:
            nursery.end()


def _core(place: Path, url: str) -> Core:
    from shardwise.record.tables import now

    return core_of(place, clock=now, database=url)  # type: ignore[arg-type]


def at_every_commit(place: Path, url: str) -> int:
    """How many servers died: one before and one after each commit of a whole exam."""
    with nursing(place, url) as (nursery, core):
        id = sitting(core)
        learners = []
        died = 0
        for number in range(1, 100):
            here = 0
            for when in ("before", "after"):
                _, token = person(core, f"{when}-{number}@example.org")
                learner = Learner(nursery, token)
                learners.append(learner)
                nursery.start((when, number))
                doomed, watching = nursery.pid, threading.Event()

                def again(watching: threading.Event = watching, doomed: int = doomed) -> None:
                    while not watching.wait(0.005):
                        if nursery.pid == doomed and not nursery.alive:
                            nursery.start()

                watcher = threading.Thread(target=again)
                watcher.start()
                try:
                    learner.take(id, core)
                finally:
                    watching.set()
                    watcher.join()
                    learner.client.close()
                here += nursery.pid != doomed
                nursery.kill()
            died += here
            if not here:
                break
        nursery.start()
        watched = Learner(nursery, learners[0].token)
        watched.ask("GET", "/api/me")
        watched.client.close()
        nursery.kill()
        check(core, learners)
        return died


def at_random(place: Path, url: str, *, kills: int, learners: int, seed: int) -> int:
    """How many answers were acknowledged while servers were killed so often."""
    dice = random.Random(seed)
    with nursing(place, url) as (nursery, core):
        id = sitting(core)
        stopping = threading.Event()
        people = [Learner(nursery, person(core, f"{n}@example.org")[1], stopping=stopping) for n in range(learners)]
        failed: list[BaseException] = []
        watching = Learner(nursery, people[0].token)

        def live(learner: Learner) -> None:
            try:
                for number in itertools.count():
                    learner.token = person(core, f"{learner.token[:9]}-{number}@example.org".lower())[1]
                    learner.take(id, core)
            except Stopped:
                pass
            except BaseException as error:
                failed.append(error)

        nursery.start()
        threads = [threading.Thread(target=live, args=(each,)) for each in people]
        for each in threads:
            each.start()
        try:
            for _ in range(kills):
                if dice.random() < 0.8:
                    watching.ask("GET", "/api/issuer")  # the others die while they start
                time.sleep(dice.uniform(0.02, 0.5))
                nursery.kill()
                nursery.start()
        finally:
            stopping.set()
            nursery.kill()
            for each in threads:
                each.join(PATIENCE)
        assert not failed, failed[0]
        nursery.start()  # the last one signs what a killed one had only intended
        watching.stopping = threading.Event()
        watching.ask("GET", "/api/me")
        for learner in (watching, *people):
            learner.client.close()
        nursery.kill()
        check(core, people)
        return sum(len(each.told) for each in people)


@pytest.mark.timeout(300)
def test_a_server_killed_at_each_commit_loses_nothing_and_issues_once(place: Path) -> None:
    died = at_every_commit(place, f"sqlite:///{place / 'service.db'}")
    assert died >= 2 * 9  # begun, four answers, handed in and graded, intended, signed


@pytest.mark.timeout(300)
def test_a_server_killed_at_random_loses_nothing_and_issues_once(place: Path) -> None:
    acknowledged = at_random(place, f"sqlite:///{place / 'service.db'}", kills=10, learners=2, seed=1)
    assert acknowledged > 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_server_killed_hundreds_of_times(place: Path, kind: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{place / 'service.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").database()
        at_every_commit(place, url)
    assert at_random(place, url, kills=300, learners=6, seed=2) > 300


def test_what_was_issued_after_all_that_verifies(place: Path) -> None:
    with nursing(place, f"sqlite:///{place / 'service.db'}") as (nursery, core):
        _, token = person(core)
        learner = Learner(nursery, token)
        nursery.start()
        id = learner.take(sitting(core), core)
        learner.client.close()
        assert core.issuing is not None
        trust: Trust = core.issuing.issuer.trust
        (jwt,) = learner.certificates[id]
        lists = {
            purpose: httpx.get(f"{nursery.url}/status/{purpose}/1.jwt", timeout=20).text
            for purpose in ("suspension", "revocation")
        }
        nursery.kill()
    base = f"{core.issuing.issuer.address}/status"

    def fetched(url: str) -> bytes:
        return lists[url.removeprefix(base).split("/")[1]].encode()

    found = certificates.verify(jwt.encode(), trust=trust, fetch=fetched)
    assert found.verdict == "issuer", found.as_json()
