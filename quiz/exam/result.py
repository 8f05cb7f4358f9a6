"""How an exam ended: quiz and practical part apart, a profile by objective and unit, and every item explained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quiz.exam.policy import ExamPolicy
from quiz.exam.session import ExamQuestion, ExamSession
from quiz.grading import Note
from quiz.items import objectives
from quiz.session import Answered
from translations import CourseError, Language
from translations import language as find


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the two parts: credit won of what there was, the share that passes, and whether it does."""

    won: float
    of: float
    needed: float

    @property
    def share(self) -> float:
        return self.won / self.of if self.of else 0.0

    @property
    def passed(self) -> bool:
        return self.share >= self.needed - 1e-9


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """A task of the practical part as it was graded in the sandbox; no points where nothing was handed in."""

    exercise: str
    points: float
    of: float


@dataclass(frozen=True, kw_only=True)
class ObjectiveShare:
    """The credit won on one objective, 0 to 1, of `asked` questions."""

    id: str
    unit: str
    text: str
    share: float
    asked: int
    mastered: bool


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One item after the end: what was asked and answered, the credit, the right answer, and the sentences on both."""

    question: ExamQuestion
    credit: float
    key: str
    feedback: str
    notes: tuple[Note, ...]


@dataclass(frozen=True, kw_only=True)
class ExamResult:
    """The result of a sitting that has ended.

    `explained` is empty where the policy withholds it. `answered` is for the record and the analysis and stays on the
    server: it names items and seeds. `attempt_hash` is over paper, answers and times: evidence for a certificate.
    """

    ended: datetime
    quiz: Part
    practical: Part | None
    tasks: tuple[TaskResult, ...]
    objectives: tuple[ObjectiveShare, ...]
    units: tuple[tuple[str, float], ...]
    explained: tuple[Explained, ...]
    answered: tuple[Answered, ...]
    unanswered: int
    public: bool
    attempt_hash: str

    @property
    def passed(self) -> bool:
        """Both parts, where there are two."""
        return self.quiz.passed and (self.practical is None or self.practical.passed)


def result(
    sitting: ExamSession,
    *,
    policy: ExamPolicy,
    language: Language | str,
    now: datetime,
    tasks: Sequence[TaskResult] = (),
    attempt: int = 1,
) -> ExamResult:
    """The result in a language. Raises CourseError while the sitting is open: no answer is judged before the end."""
    ended = sitting.ended(now)
    if ended is None:
        raise CourseError("quiz.exam-still-open")
    reader = find(language)
    grades = sitting.grades(reader)
    credits = [0.0 if grade is None else grade.credit for grade in grades]
    by_objective: dict[str, list[float]] = {}
    by_unit: dict[str, list[float]] = {}
    for asked, credit in zip(sitting.paper.questions, credits, strict=True):
        by_objective.setdefault(asked.item.objective, []).append(credit)
        by_unit.setdefault(asked.item.unit, []).append(credit)
    profile = tuple(
        ObjectiveShare(
            id=each.id,
            unit=each.unit,
            text=each.say(reader),
            share=_mean(by_objective[each.id]),
            asked=len(by_objective[each.id]),
            mastered=_mean(by_objective[each.id]) >= policy.objective_mark,
        )
        for each in objectives()
        if each.id in by_objective
    )
    graded = {each.exercise: each for each in tasks}
    done = tuple(
        graded.get(task.exercise) or TaskResult(exercise=task.exercise, points=0.0, of=_points(task.exercise))
        for task in sitting.paper.tasks
    )
    practical = None
    if policy.practical is not None and done:
        # Every task weighs the same, whatever its number of points.
        won = sum(each.points / each.of for each in done if each.of)
        practical = Part(won=won, of=float(len(done)), needed=policy.practical.pass_mark)
    return ExamResult(
        ended=ended,
        quiz=Part(won=sum(credits), of=float(len(credits)), needed=policy.pass_mark),
        practical=practical,
        tasks=done,
        objectives=profile,
        units=tuple((unit, _mean(by_unit[unit])) for unit in sorted(by_unit)),
        explained=_explained(sitting, reader) if policy.explanations else (),
        answered=_answered(sitting, reader, attempt),
        unanswered=sum(grade is None for grade in grades),
        public=sitting.paper.public,
        attempt_hash=_hash({"paper": sitting.paper.digest, "sitting": sitting.as_json(), "ended": ended.isoformat()}),
    )


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares)


def _points(exercise_id: str) -> float:
    from labs.exercises import exercise

    return float(exercise(exercise_id).of)


def _explained(sitting: ExamSession, language: Language) -> tuple[Explained, ...]:
    from quiz.grading import grade, right_answer

    found = []
    for number, graded in enumerate(sitting.grades(language), 1):
        asked = sitting.paper.questions[number - 1].variant
        right = graded or grade(asked, right_answer(asked), language)
        found.append(
            Explained(
                question=sitting.question(number, language),
                credit=0.0 if graded is None else graded.credit,
                key=right.key,
                feedback=right.feedback,
                notes=right.notes if graded is not None else (),
            )
        )
    return tuple(found)


def _answered(sitting: ExamSession, language: Language, attempt: int) -> tuple[Answered, ...]:
    return tuple(
        Answered(
            unit=asked.item.unit,
            attempt=attempt,
            item=asked.item.id,
            version=asked.item.version,
            seed=asked.variant.seed,
            objective=asked.item.objective,
            form=asked.item.form,
            language=language.code,
            answer=sitting.answers[number].answer,
            correct=graded.correct,
            credit=graded.credit,
            misconception=graded.misconception,
            seconds=0.0,
        )
        for number, (asked, graded) in enumerate(zip(sitting.paper.questions, sitting.grades(language), strict=True), 1)
        if graded is not None
    )


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
