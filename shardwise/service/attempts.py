"""Taking an exam: begun, answered, handed in and graded here, by this machine's clock, written before it is
acknowledged.

Invariants. An answer whose acknowledgement left the server is on the disk, whatever is killed afterwards. Nothing is
accepted after the deadline or after handing in. A person has one open attempt at an exam, whatever is asked in two
tabs at once. What leaves this module holds no key, no seed and no item's id before the end, and afterwards only what
the policy lets the learner read.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Session

from quiz.exam import ExamQuestion, ExamResult, ExamSession, Explained, Given, Paper, Task, TaskResult, begin, draw
from quiz.exam import result as result_of
from quiz.grading import Answer as AnswerValue
from shardwise.record.tables import new_id
from shardwise.service.accounts import Person, spoken
from shardwise.service.core import Core
from shardwise.service.exams import kept, policy_of
from shardwise.service.store import Busy, Conflict, Forbidden, Missing, audit, earlier, fingerprint, remember
from shardwise.service.tables import Account, Answer, Attempt, Content, Member, Sitting, Submission
from translations import CourseError

_log = logging.getLogger("shardwise.service")
SOURCE_BYTES = 200_000
SUBMISSIONS = 20
"""Times that code can be handed in for one task."""
SEEDS = 2**31
PAPERS = 1024


@dataclass(frozen=True, kw_only=True)
class Open:
    """A sitting as a learner sees it. `state`: `now`, `later`, `over`, `used-up` (no attempt left) or `wait` (until
    `again`).
    """

    id: str
    exam: str
    title: str
    opens: datetime
    closes: datetime
    needs_code: bool
    supervised: bool
    minutes: float
    questions: int
    tasks: int
    pass_mark: float
    attempts: int
    used: int
    public_bank: bool
    state: str
    again: datetime | None
    attempt: str | None


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """A practical task: where the learner begins, and what has been handed in. `points` only once the attempt is
    graded.
    """

    exercise: str
    kind: str
    state: str
    revision: int
    sha256: str
    points: float | None
    of: float | None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An attempt as its learner sees it. `answered`: the numbers of questions that have an answer. `seconds_left` by
    our clock.
    """

    id: str
    sitting: str
    exam: str
    title: str
    number: int
    language: str
    begun: datetime
    deadline: datetime
    now: datetime
    seconds_left: float
    state: str
    questions: int
    answered: tuple[int, ...]
    tasks: tuple[TaskStatus, ...]
    supervised: bool
    passed: bool | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A graded attempt as its learner may read it: by objective, by task, and explained where the policy lets them."""

    id: str
    passed: bool
    quiz: Mapping[str, Any]
    practical: Mapping[str, Any] | None
    objectives: tuple[Mapping[str, Any], ...]
    units: tuple[Mapping[str, Any], ...]
    tasks: tuple[Mapping[str, Any], ...]
    unanswered: int
    explained: tuple[Explained, ...]
    supervised: bool
    public_bank: bool
    ended: datetime


# --- what is open


def hashed_code(code: str) -> str:
    """An unlock code as it is kept: slow to guess even for whoever reads the database."""
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}${_scrypt(code, salt)}"


def _scrypt(code: str, salt: bytes) -> str:
    return hashlib.scrypt(code.strip().encode(), salt=salt, n=2**14, r=8, p=1, dklen=32).hex()


def code_fits(unlock: str, code: str) -> bool:
    salt, _, digest = unlock.partition("$")
    return secrets.compare_digest(_scrypt(code[:200], bytes.fromhex(salt)), digest)


def sittings_of(core: Core, person: Person, language: str) -> tuple[Open, ...]:
    """What the person can take, could take, or took, the next to close first."""
    at = core.clock()
    with core.store.reading() as session:
        found = session.scalars(_sittings(person.id).order_by(Sitting.closes)).all()
        return tuple(_open(core, session, person.id, each, at, language) for each in found if _shown(each, at))


def _sittings(account: str) -> Select[Sitting]:
    mine = select(Member.cohort).where(Member.account == account)
    return select(Sitting).where(Sitting.cancelled.is_(None), or_(Sitting.cohort.is_(None), Sitting.cohort.in_(mine)))


def _shown(sitting: Sitting, at: datetime) -> bool:
    return sitting.closes > at - timedelta(days=90)


def _open(core: Core, session: Session, account: str, sitting: Sitting, at: datetime, language: str) -> Open:
    exam = core.exams.exam(sitting.exam)
    used, allowed, again, running = _tries(session, account, sitting, exam.policy.attempts, exam.policy.wait_hours)
    extra = _extra(session, account, sitting)
    state = "later" if at < sitting.opens else "over" if at >= sitting.closes else "now"
    if state == "now" and running is None:
        state = "used-up" if used >= allowed else "wait" if again is not None and again > at else "now"
    practical = exam.policy.practical
    return Open(
        id=sitting.id,
        exam=sitting.exam,
        title=core.exams.title(sitting.exam, language, own=sitting.title),
        opens=sitting.opens,
        closes=sitting.closes,
        needs_code=sitting.unlock is not None,
        supervised=sitting.supervised,
        minutes=exam.policy.minutes * (1 + extra / 100),
        questions=exam.blueprint.items,
        tasks=practical.tasks if practical else 0,
        pass_mark=exam.policy.pass_mark,
        attempts=allowed,
        used=used,
        public_bank=exam.policy.public_bank,
        state=state,
        again=again if state == "wait" else None,
        attempt=running.id if running is not None else None,
    )


def _tries(
    session: Session, account: str, sitting: Sitting, attempts: int, wait_hours: float
) -> tuple[int, int, datetime | None, Attempt | None]:
    """How many were begun of how many, when the next may begin, and the one that is open in this sitting.

    The policy's number counts over all sittings of the exam; one that a sitting names counts within it.
    """
    query = select(Attempt).where(Attempt.account == account, Attempt.exam == sitting.exam).order_by(Attempt.begun)
    tries = session.scalars(query).all()
    here = [each for each in tries if each.sitting == sitting.id]
    running = next((each for each in here if each.state == "open"), None)
    last = max((each.ended or each.deadline for each in tries), default=None)
    again = None if last is None else last + timedelta(hours=wait_hours)
    if sitting.attempts is not None:
        return len(here), sitting.attempts, again, running
    return len(tries), attempts, again, running


def _extra(session: Session, account: str, sitting: Sitting) -> int:
    if sitting.cohort is None:
        return 0
    member = session.get(Member, (sitting.cohort, account))
    return 0 if member is None else member.extra_percent


# --- beginning


def start(
    core: Core, person: Person, sitting: str, *, code: str = "", language: str = "en", key: str | None = None
) -> Standing:
    """The person's attempt at a sitting: the open one, else a new one, drawn now by a secret that was never anywhere
    before.

    Raises Missing where the sitting is not theirs, Forbidden outside of its window, with a wrong code, or with no
    attempt left.
    """
    at, asked = core.clock(), fingerprint("start", sitting, spoken(language))
    with core.store.reading() as session:
        found = session.scalar(_sittings(person.id).where(Sitting.id == sitting))
        if found is None:
            raise Missing("shardwise.service-no-such-sitting")
        exam = core.exams.exam(found.exam)
        mine = select(Attempt).where(Attempt.account == person.id, Attempt.exam == found.exam)
        avoid = {each["item"] for old in session.scalars(mine) for each in old.paper["questions"]}
        nameless = not session.get_one(Account, person.id).name
    if found.unlock is not None and not code_fits(found.unlock, code):
        raise Forbidden("shardwise.service-wrong-code")
    if at < found.opens:
        raise Forbidden("shardwise.service-not-open-yet")
    if at >= found.closes:
        raise Forbidden("shardwise.service-closed")
    if found.supervised and nameless:
        raise Conflict("shardwise.service-name-first")
    exam.check()
    id, seed = new_id(), secrets.token_bytes(32)
    paper = draw(
        exam.blueprint,
        exam.banks,
        secret=seed,
        attempt=id,
        practical=exam.policy.practical,
        avoid=avoid,
        measured=exam.policy.measured,
    )
    if paper.public and not exam.policy.public_bank:
        raise CourseError("shardwise.service-bank-public", exam=exam.id, item="-")
    with core.store.writing() as session:
        _one_at_a_time(session, person.id)
        if key is not None and (known := earlier(session, account=person.id, key=key, asked=asked)) is not None:
            return _standing(core, session, _own(session, person, known[1]["id"]), at)
        used, allowed, again, running = _tries(session, person.id, found, exam.policy.attempts, exam.policy.wait_hours)
        if running is not None and running.deadline > at:
            _keep(session, person, key, asked, running.id)
            return _standing(core, session, running, at)
        if running is not None:
            _end(running, running.deadline)
        if used >= allowed:
            raise Forbidden("shardwise.service-used-up", attempts=allowed)
        if again is not None and again > at:
            raise Forbidden("shardwise.service-wait", hours=max(1, -int(-(again - at).total_seconds() // 3600)))
        extra = _extra(session, person.id, found)
        sitting_ = begin(paper, now=at, minutes=exam.policy.minutes, extra=extra / 100, closes=found.closes)
        _keep_contents(session, paper)
        count = select(func.count()).where(Attempt.account == person.id, Attempt.exam == found.exam)
        made = Attempt(
            id=id,
            sitting=found.id,
            account=person.id,
            exam=found.exam,
            number=(session.scalar(count) or 0) + 1,
            language=spoken(language),
            seed=seed.hex(),
            policy=kept(exam.policy),
            paper=paper.as_json(),
            supervised=found.supervised,
            begun=at,
            minutes=sitting_.minutes,
            closes=found.closes,
            deadline=sitting_.deadline,
        )
        session.add(made)
        session.flush()
        audit(session, actor=person.id, action="attempt-begun", about=id, sitting=found.id, number=made.number)
        _keep(session, person, key, asked, id)
        _papers.put(id, paper)
        return _standing(core, session, made, at)


def _keep_contents(session: Session, paper: Paper) -> None:
    """The items of a paper, once for all papers. Two papers that begin at once put the same ones in, always in the same
    order, so that neither waits for the other in a ring, and neither fails.
    """
    known = set(session.scalars(select(Content.digest).where(Content.digest.in_(paper.contents))))
    if new := sorted(set(paper.contents) - known):
        insert = postgresql_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
        rows = [{"digest": digest, "content": dict(paper.contents[digest])} for digest in new]
        session.execute(insert(Content).values(rows).on_conflict_do_nothing())


def _one_at_a_time(session: Session, account: str) -> None:
    """On PostgreSQL requests of one person wait for each other; on SQLite every writer does."""
    session.execute(select(Account.id).where(Account.id == account).with_for_update())


def _keep(session: Session, person: Person, key: str | None, asked: str, id: str) -> None:
    if key is not None:
        remember(session, account=person.id, key=key, asked=asked, status=200, response={"id": id})


# --- papers (they never change, so that the last ones are kept in memory)


class _Papers:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Paper] = OrderedDict()
        self._turn = threading.Lock()

    def put(self, id: str, paper: Paper) -> Paper:
        with self._turn:
            self._kept[id] = paper
            self._kept.move_to_end(id)
            while len(self._kept) > PAPERS:
                self._kept.popitem(last=False)
        return paper

    def get(self, id: str) -> Paper | None:
        with self._turn:
            return self._kept.get(id)


_papers = _Papers()


def paper_of(session: Session, attempt: Attempt) -> Paper:
    """The attempt's paper, for the server alone."""
    found = _papers.get(attempt.id)
    if found is None:
        digests = {each["digest"] for each in attempt.paper["questions"]}
        rows = session.scalars(select(Content).where(Content.digest.in_(digests)))
        found = _papers.put(attempt.id, Paper.of(attempt.paper, {each.digest: each.content for each in rows}))
    return found


def session_of(session: Session, attempt: Attempt) -> ExamSession:
    """The attempt as the state machine knows it, with the latest revision of each answer."""
    answers: dict[int, Given] = {}
    for each in session.scalars(select(Answer).where(Answer.attempt == attempt.id).order_by(Answer.revision)):
        if each.given is None:
            answers.pop(each.position, None)
        else:
            answers[each.position] = Given(answer=each.given, at=each.made)
    return _bare(attempt, paper_of(session, attempt), answers)


def _bare(attempt: Attempt, paper: Paper, answers: Mapping[int, Given]) -> ExamSession:
    return ExamSession(
        paper=paper,
        started=attempt.begun,
        minutes=attempt.minutes,
        closes=attempt.closes,
        answers=answers,
        handed_in=attempt.ended,
    )


def _own(session: Session, person: Person, id: str, *, lock: bool = False) -> Attempt:
    """The person's attempt. Raises Missing for another's too: that it exists is nobody else's business."""
    query: Select[Attempt] = select(Attempt).where(Attempt.id == id, Attempt.account == person.id)
    found = session.scalar(query.with_for_update() if lock else query)
    if found is None:
        raise Missing("shardwise.service-no-such-attempt")
    return found


# --- standing and questions


def attempts_of(core: Core, person: Person) -> tuple[Standing, ...]:
    """All attempts of a person, the latest first."""
    at = core.clock()
    with core.store.reading() as session:
        query = select(Attempt).where(Attempt.account == person.id).order_by(Attempt.begun.desc())
        return tuple(_standing(core, session, each, at) for each in session.scalars(query))


def standing(core: Core, person: Person, id: str) -> Standing:
    """Where an attempt stands."""
    with core.store.reading() as session:
        return _standing(core, session, _own(session, person, id), core.clock())


def _standing(core: Core, session: Session, attempt: Attempt, at: datetime) -> Standing:
    sitting = session.get_one(Sitting, attempt.sitting)
    answered = _answered(session, attempt.id)
    open_ = attempt.state == "open" and at < attempt.deadline
    return Standing(
        id=attempt.id,
        sitting=attempt.sitting,
        exam=attempt.exam,
        title=core.exams.title(attempt.exam, attempt.language, own=sitting.title),
        number=attempt.number,
        language=attempt.language,
        begun=attempt.begun,
        deadline=attempt.deadline,
        now=at,
        seconds_left=(attempt.deadline - at).total_seconds() if open_ else 0.0,
        state=attempt.state if attempt.state != "open" or open_ else "ended",
        questions=len(attempt.paper["questions"]),
        answered=answered,
        tasks=_task_states(session, attempt),
        supervised=attempt.supervised,
        passed=None if attempt.outcome is None else bool(attempt.outcome["passed"]),
    )


def _answered(session: Session, attempt: str) -> tuple[int, ...]:
    rows = session.execute(
        select(Answer.position, Answer.given).where(Answer.attempt == attempt).order_by(Answer.revision)
    )
    latest: dict[int, Any] = dict(iter(rows))
    return tuple(sorted(position for position, given in latest.items() if given is not None))


def _task_states(session: Session, attempt: Attempt) -> tuple[TaskStatus, ...]:
    latest = _latest(session, attempt.id)
    found = []
    for task in attempt.paper["tasks"]:
        handed = latest.get(task["exercise"])
        verdict = (handed.result or {}).get("verdict", {}) if handed is not None and attempt.state == "graded" else {}
        found.append(
            TaskStatus(
                exercise=task["exercise"],
                kind=task["kind"],
                state="open" if handed is None else "handed-in" if attempt.state != "graded" else handed.state,
                revision=0 if handed is None else handed.revision,
                sha256="" if handed is None else handed.sha256,
                points=verdict.get("points"),
                of=verdict.get("of"),
            )
        )
    return tuple(found)


def _latest(session: Session, attempt: str) -> dict[str, Submission]:
    rows = session.scalars(select(Submission).where(Submission.attempt == attempt).order_by(Submission.revision))
    return {each.task: each for each in rows}


def question(core: Core, person: Person, id: str, number: int, language: str | None = None) -> ExamQuestion:
    """A question of the attempt and the answer so far, without its key. Raises Forbidden once the attempt has ended."""
    with core.store.reading() as session:
        attempt = _own(session, person, id)
        if attempt.state != "open" or core.clock() >= attempt.deadline:
            raise Forbidden("shardwise.service-attempt-over")
        return session_of(session, attempt).question(number, spoken(language or attempt.language))


def task(core: Core, person: Person, id: str, exercise: str) -> Task:
    """A task of the attempt: `start(language)` is the source to begin from."""
    with core.store.reading() as session:
        attempt = _own(session, person, id)
        return _task(attempt, exercise)


def _task(attempt: Attempt, exercise: str) -> Task:
    found = next((each for each in attempt.paper["tasks"] if each["exercise"] == exercise), None)
    if found is None:
        raise Missing("shardwise.service-no-such-task")
    return Task(**found)


# --- answering


@dataclass(frozen=True, kw_only=True)
class Written:
    """What an acknowledgement says: it is on the disk."""

    number: int
    revision: int
    at: datetime
    seconds_left: float


def answer(
    core: Core,
    person: Person,
    id: str,
    number: int,
    given: AnswerValue | None,
    *,
    key: str | None = None,
    language: str | None = None,
) -> Written:
    """Writes an answer (in places as shown; None takes it back), then returns.

    An equal answer again changes nothing and is acknowledged. Raises CourseError where it is no answer to this
    question, Forbidden once the time is over or the attempt handed in; nothing is changed then.
    """
    asked = fingerprint("answer", id, number, given)
    with core.store.reading() as session:
        attempt = _own(session, person, id)
        paper = paper_of(session, attempt)
    at = core.clock()
    try:
        sitting = _bare(attempt, paper, {}).answer(number, given, now=at)
    except CourseError as error:
        if error.id in ("quiz.exam-time-over", "quiz.exam-handed-in"):
            raise Forbidden(error.id, **error.values) from error
        raise
    own = None if given is None else _plain(sitting.answers[number].answer)
    with core.store.writing() as session:
        at = core.clock()
        attempt = _own(session, person, id, lock=True)
        if key is not None and (known := earlier(session, account=person.id, key=key, asked=asked)) is not None:
            return Written(**{**known[1], "at": datetime.fromisoformat(known[1]["at"])})
        if attempt.state != "open":
            raise Forbidden("quiz.exam-handed-in")
        if at >= attempt.deadline:
            raise Forbidden("quiz.exam-time-over")
        query = select(Answer).where(Answer.attempt == id, Answer.position == number)
        last = session.scalar(query.order_by(Answer.revision.desc()).limit(1))
        if last is None or last.given != own:
            last = Answer(
                attempt=id,
                position=number,
                revision=1 if last is None else last.revision + 1,
                given=own,
                language=spoken(language or attempt.language),
                made=at,
            )
            session.add(last)
        written = Written(
            number=number,
            revision=last.revision,
            at=last.made,
            seconds_left=(attempt.deadline - at).total_seconds(),
        )
        if key is not None:
            response = {**asdict(written), "at": written.at.isoformat()}
            remember(session, account=person.id, key=key, asked=asked, status=200, response=response)
    return written


def _plain(answer: AnswerValue) -> Any:
    if isinstance(answer, Mapping):
        return dict(answer)
    return answer if isinstance(answer, str) else list(answer)


def submit(core: Core, person: Person, id: str, exercise: str, source: bytes, *, key: str | None = None) -> TaskStatus:
    """Writes code handed in for a task and puts it in line to be graded; an earlier one that still waits is left out.

    The seed of its inputs is drawn now, after the code is fixed, and kept, so that grading again gives the same.
    """
    if len(source) > SOURCE_BYTES:
        raise CourseError("labs.check-too-large", limit=SOURCE_BYTES)
    digest = hashlib.sha256(source).hexdigest()
    asked = fingerprint("submit", id, exercise, digest)
    with core.store.writing() as session:
        at = core.clock()
        attempt = _own(session, person, id, lock=True)
        if key is not None and earlier(session, account=person.id, key=key, asked=asked) is not None:
            return next(each for each in _task_states(session, attempt) if each.exercise == exercise)
        _task(attempt, exercise)
        if attempt.state != "open":
            raise Forbidden("quiz.exam-handed-in")
        if at >= attempt.deadline:
            raise Forbidden("quiz.exam-time-over")
        last = _latest(session, id).get(exercise)
        if last is None or last.sha256 != digest:
            if last is not None and last.revision >= SUBMISSIONS:
                raise Forbidden("shardwise.service-too-many-submissions", limit=SUBMISSIONS)
            waiting = session.scalar(select(func.count()).where(Submission.state == "queued")) or 0
            if waiting >= core.settings.queue:
                raise Busy("shardwise.service-busy")
            session.execute(
                update(Submission)
                .where(Submission.attempt == id, Submission.task == exercise, Submission.state == "queued")
                .values(state="replaced")
            )
            session.add(
                Submission(
                    attempt=id,
                    task=exercise,
                    revision=1 if last is None else last.revision + 1,
                    source=source,
                    sha256=digest,
                    seed=secrets.randbelow(SEEDS),
                    made=at,
                )
            )
            session.flush()
        if key is not None:
            remember(session, account=person.id, key=key, asked=asked, status=202, response={"id": id})
        return next(each for each in _task_states(session, attempt) if each.exercise == exercise)


# --- the end


def hand_in(core: Core, person: Person, id: str) -> Standing:
    """Ends an attempt; again changes nothing. It is graded at once, or when the last code has been."""
    with core.store.writing() as session:
        at = core.clock()
        attempt = _own(session, person, id, lock=True)
        if attempt.state == "open":
            _end(attempt, min(at, attempt.deadline))
            audit(session, actor=person.id, action="attempt-handed-in", about=id)
    settle(core, id)
    return standing(core, person, id)


def _end(attempt: Attempt, at: datetime) -> None:
    attempt.state, attempt.ended = "ended", at


def overdue(at: datetime) -> ColumnElement[bool]:
    return (Attempt.state == "open") & (Attempt.deadline <= at)


def sweep(core: Core) -> int:
    """Ends attempts whose time is over, grades what can be graded; how many were graded."""
    at = core.clock()
    with core.store.reading() as session:
        found = session.scalars(select(Attempt.id).where(or_(overdue(at), Attempt.state == "ended"))).all()
    graded = 0
    for each in found:
        try:
            graded += settle(core, each)
        except Exception as error:  # one that can't be graded must not keep the others waiting
            _log.error("grading-failed", exc_info=error)
    return graded


def settle(core: Core, id: str) -> bool:
    """Grades an attempt that has ended, once all its code has a verdict; whether it did.

    Any number of callers may try at once: the outcome is a function of what is written, and it is written once.
    """
    with core.store.writing() as session:
        at = core.clock()
        attempt = session.scalar(select(Attempt).where(Attempt.id == id).with_for_update())
        if attempt is None or attempt.state == "graded":
            return False
        if attempt.state == "open":
            if at < attempt.deadline:
                return False
            _end(attempt, attempt.deadline)
        latest = _latest(session, id)
        if any(each.state in ("queued", "running") for each in latest.values()):
            return False
        found = _result(session, attempt, latest, attempt.language, at)
        attempt.outcome, attempt.state = _kept(found, latest), "graded"
        audit(session, actor=None, action="attempt-graded", about=id, passed=found.passed)
        return True


def _result(
    session: Session, attempt: Attempt, latest: Mapping[str, Submission], language: str, at: datetime
) -> ExamResult:
    tasks = [
        TaskResult(
            exercise=name, points=float(each.result["verdict"]["points"]), of=float(each.result["verdict"]["of"])
        )
        for name, each in latest.items()
        if each.result is not None
    ]
    return result_of(
        session_of(session, attempt),
        policy=policy_of(attempt.policy),
        language=language,
        now=at,
        tasks=tasks,
        attempt=attempt.number,
    )


def _kept(found: ExamResult, latest: Mapping[str, Submission]) -> dict[str, Any]:
    """A result as it is kept. `answered` names items and seeds: it is for the analysis and stays here."""

    def part(each: Any) -> dict[str, Any] | None:
        return None if each is None else {**asdict(each), "share": each.share, "passed": each.passed}

    return {
        "version": 1,
        "passed": found.passed,
        "quiz": part(found.quiz),
        "practical": part(found.practical),
        "objectives": [asdict(each) for each in found.objectives],
        "units": [{"unit": unit, "share": share} for unit, share in found.units],
        "tasks": [
            {**asdict(each), "sha256": latest[each.exercise].sha256 if each.exercise in latest else None}
            for each in found.tasks
        ],
        "answered": [asdict(each) for each in found.answered],
        "unanswered": found.unanswered,
        "public": found.public,
        "attempt_hash": found.attempt_hash,
        "ended": found.ended.isoformat(),
    }


def outcome(core: Core, person: Person, id: str, language: str | None = None) -> Outcome:
    """The result, for the learner. Raises Conflict while the attempt is open or its code waits."""
    settle(core, id)
    with core.store.reading() as session:
        attempt = _own(session, person, id)
        if attempt.outcome is None:
            raise Conflict("shardwise.service-not-graded-yet")
        reader, kept_ = spoken(language or attempt.language), attempt.outcome
        found = _result(session, attempt, _latest(session, id), reader, core.clock())
    return Outcome(
        id=id,
        passed=kept_["passed"],
        quiz=kept_["quiz"],
        practical=kept_["practical"],
        objectives=tuple(_in_words(kept_["objectives"], reader)),
        units=tuple(kept_["units"]),
        tasks=tuple(kept_["tasks"]),
        unanswered=kept_["unanswered"],
        explained=found.explained,
        supervised=attempt.supervised,
        public_bank=kept_["public"],
        ended=datetime.fromisoformat(kept_["ended"]),
    )


def _in_words(kept_: Sequence[Mapping[str, Any]], language: str) -> list[Mapping[str, Any]]:
    from quiz import objectives

    known = {each.id: each for each in objectives()}
    return [
        {**each, "text": known[each["id"]].say(language) if each["id"] in known else each["text"]} for each in kept_
    ]


def extend(core: Core, examiner: Person, id: str, minutes: float) -> Standing:
    """More time for an attempt that is open, by an examiner; never beyond the sitting's end."""
    with core.store.writing() as session:
        at = core.clock()
        attempt = session.scalar(select(Attempt).where(Attempt.id == id).with_for_update())
        if attempt is None:
            raise Missing("shardwise.service-no-such-attempt")
        if attempt.state != "open" or at >= attempt.deadline:
            raise Conflict("shardwise.service-attempt-over")
        extended = _bare(attempt, paper_of(session, attempt), {}).extended(minutes)
        attempt.minutes, attempt.deadline = extended.minutes, extended.deadline
        audit(session, actor=examiner.id, action="time-given", about=id, minutes=minutes)
        return _standing(core, session, attempt, at)
