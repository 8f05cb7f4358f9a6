"""`Record`: the one place that stores what a learner did. Every method opens, does one thing and closes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from shardwise.record import database, transfer
from shardwise.record.progress import UnitProgress, unit_progress
from shardwise.record.tables import OWNED, Answer, Attempt, Certificate, Learner, Prediction, Verdict, now
from shardwise.record.values import Attempted, Issued, Merged, Predicted, Remembered, Summary
from translations import CourseError

if TYPE_CHECKING:
    from certificates import Evidence


def seed_of(*, learner: str, unit: str, number: int) -> int:
    """The seed of a learner's try: the same learner and number give the same variants on every machine. Below 2^48."""
    digest = hashlib.sha256(f"{learner}\n{unit}\n{number}".encode()).digest()
    return int.from_bytes(digest[:6])


class Record:
    """A learner's record. `notice` tells what was put right while opening it, for the learner to read."""

    def __init__(self, *, engine: Engine, where: str, learner: str, notice: CourseError | None) -> None:
        self._engine = engine
        self.where = where
        self.learner = learner
        self.notice = notice

    @classmethod
    def open(cls, *, url: str | None = None, learner: str | None = None) -> Record:
        """The record in the user's data folder, or the one at `url`; of `learner`, or of the first one there.

        A database that is broken is moved aside and what is readable of it kept. Raises CourseError when a newer course
        wrote it, or when it can't be read or written.
        """
        engine, where, aside = database.ready(url)
        notice = None
        with database.told(where), Session(engine.execution_options(writes=True)) as session, session.begin():
            if aside is not None:
                kept = transfer.put_back(session, aside)
                notice = CourseError("shardwise.record-moved", path=aside.name, rows=kept)
            query = select(Learner.id).where(Learner.joined.is_(None)).order_by(Learner.made).limit(1)
            found = session.scalar(query if learner is None else select(Learner.id).where(Learner.id == learner))
            if found is None:
                made = Learner() if learner is None else Learner(id=learner)
                session.add(made)
                session.flush()
                found = made.id
        return cls(engine=engine, where=where, learner=found, notice=notice)

    @contextmanager
    def _session(self, *, writes: bool = False) -> Iterator[Session]:
        engine = self._engine.execution_options(writes=True) if writes else self._engine
        with database.told(self.where), Session(engine) as session, session.begin():
            yield session

    # --- the learner

    @property
    def name(self) -> str | None:
        """The name last put on a certificate."""
        with self._session() as session:
            return session.scalar(select(Learner.name).where(Learner.id == self.learner))

    def rename(self, name: str) -> None:
        with self._session(writes=True) as session:
            session.execute(update(Learner).where(Learner.id == self.learner).values(name=name))

    def key(self, make: Callable[[], str]) -> str:
        """The learner's private key as text; made once, by `make`, and then always the same."""
        with self._session(writes=True) as session:
            learner = session.get_one(Learner, self.learner)
            if learner.key is None:
                learner.key = make()
            return learner.key

    # --- what the learner did

    def predict(self, *, unit: str, question: str, value: float, measure: str) -> Predicted:
        """Keeps a prediction; earlier ones stay, the latest counts."""
        row = Prediction(learner=self.learner, unit=unit, question=question, value=value, measure=measure)
        with self._session(writes=True) as session:
            session.add(row)
            session.flush()
            return _predicted(row)

    def prediction(self, *, unit: str, question: str) -> Predicted | None:
        """The latest prediction for a question."""
        query = select(Prediction).where(
            Prediction.learner == self.learner, Prediction.unit == unit, Prediction.question == question
        )
        with self._session() as session:
            row = session.scalar(query.order_by(Prediction.made.desc()).limit(1))
            return _predicted(row) if row else None

    def attempt(self, *, unit: str, language: str) -> Attempted:
        """The open try at a unit's quiz, or a new one with the next number; the same for two that ask at once."""
        mine = (Attempt.learner == self.learner, Attempt.unit == unit)
        with self._session(writes=True) as session:
            row = session.scalar(
                select(Attempt).where(*mine, Attempt.finished.is_(None)).order_by(Attempt.made).limit(1)
            )
            if row is None:
                number = (session.scalar(select(func.max(Attempt.number)).where(*mine)) or 0) + 1
                seed = seed_of(learner=self.learner, unit=unit, number=number)
                row = Attempt(learner=self.learner, unit=unit, number=number, seed=seed, language=language)
                session.add(row)
                session.flush()
            return _attempted(row)

    def attempts(self, unit: str) -> tuple[Attempted, ...]:
        query = select(Attempt).where(Attempt.learner == self.learner, Attempt.unit == unit).order_by(Attempt.made)
        with self._session() as session:
            return tuple(_attempted(row) for row in session.scalars(query))

    def finish(self, attempt: str, *, score: float) -> Attempted:
        """Closes a try with its score (0 to 1). A closed one stays as it was."""
        with self._session(writes=True) as session:
            row = session.get_one(Attempt, attempt)
            if row.finished is None:
                row.finished, row.score = now(), score
            return _attempted(row)

    def answer(
        self,
        *,
        unit: str,
        item: str,
        version: int,
        seed: int,
        language: str,
        form: str,
        given: Any,
        correct: bool,
        credit: float,
        misconception: str | None = None,
        objective: str | None = None,
        seconds: float = 0.0,
        attempt: str | None = None,
    ) -> None:
        """Keeps an answer with all that is needed to show later what was asked. `given` is JSON."""
        row = Answer(
            learner=self.learner,
            unit=unit,
            item=item,
            version=version,
            seed=seed,
            language=language,
            form=form,
            given=given,
            correct=correct,
            credit=credit,
            misconception=misconception,
            objective=objective,
            seconds=seconds,
            attempt=attempt,
        )
        with self._session(writes=True) as session:
            session.add(row)

    def answers(self, *, attempt: str) -> tuple[dict[str, Any], ...]:
        """The answers of one try, in the order in which they were given, as JSON objects."""
        with self._session() as session:
            return tuple(
                transfer.as_json(row)
                for row in session.scalars(select(Answer).where(Answer.attempt == attempt).order_by(Answer.made))
            )

    def recalled(self, unit: str) -> dict[str, bool]:
        """Of each question of a unit that was answered outside a quiz: whether the last answer was right."""
        asked = select(Answer.item, Answer.correct).where(
            Answer.learner == self.learner, Answer.unit == unit, Answer.attempt.is_(None)
        )
        with self._session() as session:
            return {answer.item: answer.correct for answer in session.execute(asked.order_by(Answer.made))}

    def history(self) -> tuple[Remembered, ...]:
        """Every answer ever given, in quizzes and outside them, in the order of time."""
        asked = select(Answer.item, Answer.made, Answer.correct).where(Answer.learner == self.learner)
        with self._session() as session:
            rows = session.execute(asked.order_by(Answer.made, Answer.id))
            return tuple(Remembered(item=row.item, made=row.made, correct=row.correct) for row in rows)

    def misconceptions(self, *, but: str | None = None) -> dict[str, int]:
        """How often each misconception was met, in all answers but those of the try `but`."""
        counted = select(Answer.misconception, func.count()).where(
            Answer.learner == self.learner, Answer.misconception.is_not(None)
        )
        if but is not None:
            counted = counted.where((Answer.attempt != but) | Answer.attempt.is_(None))
        with self._session() as session:
            rows = session.execute(counted.group_by(Answer.misconception))
            return {id: count for id, count in rows if id is not None}

    def all_answers(self) -> tuple[dict[str, Any], ...]:
        """Every answer as a JSON object, in the order of time: for analysis."""
        query = select(Answer).where(Answer.learner == self.learner).order_by(Answer.made, Answer.id)
        with self._session() as session:
            return tuple(transfer.as_json(row) for row in session.scalars(query))

    def verdict(
        self,
        *,
        unit: str,
        exercise: str,
        passed: bool,
        points: float,
        of: float,
        failed_at: str | None,
        source: str,
        language: str,
    ) -> None:
        """Keeps what a check said. Of the source only its hash stays."""
        row = Verdict(
            learner=self.learner,
            unit=unit,
            exercise=exercise,
            passed=passed,
            points=points,
            of=of,
            failed_at=failed_at,
            source_hash="sha256:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
            language=language,
        )
        with self._session(writes=True) as session:
            session.add(row)

    def keep_certificate(self, *, id: str, unit: str, jwt: str, name: str, language: str) -> None:
        """Keeps an issued certificate; the same one twice is kept once."""
        with self._session(writes=True) as session:
            if session.get(Certificate, id) is None:
                session.add(Certificate(id=id, learner=self.learner, unit=unit, jwt=jwt, name=name, language=language))

    def certificates(self, unit: str | None = None) -> tuple[Issued, ...]:
        query = select(Certificate).where(Certificate.learner == self.learner).order_by(Certificate.made)
        with self._session() as session:
            return tuple(
                Issued(id=row.id, unit=row.unit, jwt=row.jwt, name=row.name, language=row.language, made=row.made)
                for row in session.scalars(query)
                if unit is None or row.unit == unit
            )

    # --- what it amounts to

    def summary(self) -> Summary:
        with self._session() as session:
            counts = {
                f"{table.__tablename__}s": session.scalar(
                    select(func.count()).select_from(table).where(table.learner == self.learner)
                )
                or 0
                for table in OWNED
            }
            learner = session.get_one(Learner, self.learner)
            return Summary(learner=learner.id, name=learner.name, **counts)

    def progress(self, unit: str) -> UnitProgress:
        """How far the learner is in a unit: objectives, checks, best quiz, mastered or not."""
        with self._session() as session:
            return unit_progress(session, learner=self.learner, unit=unit)

    def evidence(self, unit: str, *, holder: str, language: str) -> Evidence:
        """What a certificate of the unit may claim. Raises CourseError where the unit is not mastered."""
        from shardwise.record.evidence import evidence

        return evidence(self, unit=unit, holder=holder, language=language)

    # --- one file

    def export(self, path: Path, *, key: bool = True) -> None:
        """Writes the whole record to one file that only its owner can read; whole or not at all. The key that signs is
        in it unless the file is for somebody else.
        """
        with self._session() as session:
            content = transfer.export(session, learner=self.learner, key=key)
        transfer.write(content, path)

    def merge(self, path: Path) -> Merged:
        """Takes in an exported file. Doing it twice changes nothing; no row here is lost or changed.

        A record in which nothing was done yet becomes the file's learner; else the file's rows come to this learner and
        its key is kept beside this one's. Raises CourseError for a file that is no record, is damaged, or is newer.
        """
        content = transfer.read(path)
        with self._session(writes=True) as session:
            merged, self.learner = transfer.merge(session, content, learner=self.learner)
        return merged

    def close(self) -> None:
        self._engine.dispose()


def _predicted(row: Prediction) -> Predicted:
    return Predicted(unit=row.unit, question=row.question, value=row.value, measure=row.measure, made=row.made)


def _attempted(row: Attempt) -> Attempted:
    return Attempted(
        id=row.id,
        unit=row.unit,
        number=row.number,
        seed=row.seed,
        language=row.language,
        made=row.made,
        finished=row.finished,
        score=row.score,
    )
