"""A service of a test's own: an exam with a private bank, an issuer, a clock that the test moves, people with roles."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import yaml

from certificates import office
from quiz.grading import right_answer
from shardwise.service import accounts, attempts, cohorts
from shardwise.service.accounts import Person, person_of
from shardwise.service.app import create_app, issuer_of, make_core
from shardwise.service.attempts import Standing, paper_of
from shardwise.service.core import Core
from shardwise.service.serving import bound
from shardwise.service.settings import Secret, Settings
from shardwise.service.tables import Account, Attempt
from tests.quiz.exam.making import private_bank, private_item

START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=60)
"""Long enough ago that a test can move on, for nothing is signed that begins in the future."""
QUESTIONS = 6


@dataclass
class Clock:
    """The service's clock, moved by the test and by nothing else."""

    at: datetime = START
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> datetime:
        with self.turn:
            return self.at

    def on(self, **by: float) -> None:
        with self.turn:
            self.at += timedelta(**by)


def exam_folder(
    folder: Path,
    *,
    practical: Mapping[str, Any] | None = None,
    items: int = 12,
    questions: int = QUESTIONS,
    **changes: Any,
) -> Path:
    """Policies in which `short` is an exam of `QUESTIONS` questions from a private bank of `items`."""
    folder.mkdir(parents=True, exist_ok=True)
    private_bank(
        folder / "bank", [private_item(f"own-{number}", text=f"Question {number}?") for number in range(items)]
    )
    blueprint = {"version": 1, "id": "short", "title": {"en": "A short exam", "nl": "Een kort examen"}}
    lines = [{"unit": "04-zero-1", "items": questions}]
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "plans" / "short.yaml").write_text(yaml.safe_dump({**blueprint, "lines": lines}), encoding="utf-8")
    exam = {
        "blueprint": "plans/short.yaml",
        "banks": ["bank"],
        "public_bank": False,
        "minutes": 30,
        "attempts": 2,
        "wait_hours": 24,
        "practical": practical,
        **changes,
    }
    (folder / "short.yaml").write_text(yaml.safe_dump({"version": 1, "exam": exam}), encoding="utf-8")
    return folder


def issuer_folder(folder: Path) -> Path:
    if not (folder / office.FILE).exists():
        office.init(folder, domain="exams.example", names={"en": "Example University"})
    return folder


def settings(folder: Path, **changes: Any) -> Settings:
    """Settings as `load` makes them, bound to loopback."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    fields: dict[str, Any] = {
        "data": data,
        "database": f"sqlite:///{data / 'service.db'}",
        "public_url": "http://127.0.0.1:8470",
        "secret": Secret("0123456789abcdef0123456789abcdef"),
        "exams": folder / "exams",
        "accounts": "open",
        "graders": 1,
    }
    return Settings(**{**fields, **changes})


def core_of(folder: Path, *, clock: Clock | None = None, with_issuer: bool = True, **changes: Any) -> Core:
    """A core over the folder; opened again it is the same service, started again."""
    if not (folder / "exams").exists():
        exam_folder(folder / "exams")
    issuing = issuer_of(issuer_folder(folder / "issuer")) if with_issuer else None
    return make_core(settings(folder, **changes), clock=clock or Clock(), issuing=issuing)


def person(
    core: Core, email: str = "amal@example.org", *, role: str = "learner", name: str = "Amal Haddad"
) -> tuple[Person, str]:
    """Somebody who is signed in, and their token."""
    with core.store.writing() as session:
        account = Account(email=email, name=name, role=role, made=core.clock())
        session.add(account)
        session.flush()
        entered = accounts.enter(session, account, provider="email", settings=core.settings, at=core.clock(), wanted={})
    with core.store.reading() as session:
        found = person_of(session, entered.token, core.clock())
    assert found is not None
    return found, entered.token


def sitting(core: Core, *, days: float = 30, **changes: Any) -> str:
    """An exam that is open now."""
    at = core.clock()
    fields: dict[str, Any] = {"exam": "short", "opens": at - timedelta(hours=1), "closes": at + timedelta(days=days)}
    return cohorts.open_sitting(core, None, **{**fields, **changes})


def begun(core: Core, who: Person, **changes: Any) -> Standing:
    return attempts.start(core, who, sitting(core, **changes), language="en")


def right(core: Core, attempt: str, number: int) -> Any:
    """The right answer in the places of the question as it was shown; the test reads the key from the database."""
    with core.store.reading() as session:
        paper = paper_of(session, session.get_one(Attempt, attempt))
    asked = paper.questions[number - 1]
    from quiz.exam.session import _placed

    return json.loads(json.dumps(_placed(asked, right_answer(asked.variant))))


def pass_exam(core: Core, who: Person, **changes: Any) -> Standing:
    """Everything answered rightly and handed in."""
    standing = begun(core, who, **changes)
    for number in range(1, standing.questions + 1):
        attempts.answer(core, who, standing.id, number, right(core, standing.id, number))
    return attempts.hand_in(core, who, standing.id)


@contextmanager
def served(core: Core, *, bare: bool = False) -> Iterator[httpx.Client]:
    """A client of the service as it answers on a socket of this machine."""
    listening = bound("127.0.0.1", 0)
    config = uvicorn.Config(create_app(core=core, work=False, bare=bare), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
