"""One sitting of an exam, as a value: what was asked, what is answered, how much time is left.

Nothing is stored and no clock is read here: whoever keeps the sitting (the issuing service, a test) hands moments in
and keeps what comes out. Invariants:

- An answer that `answer` returned is in the sitting for good, until it is replaced before the end. Rebuilt from its
  paper, its times and its answers, a sitting is the same: a crash or a closed lid costs nothing but the answer not
  sent.
- From the deadline on, and once handed in, nothing is accepted. A sitting that nobody hands in counts as handed in at
  its deadline, with the answers that were accepted before.
- Moments never run backward: one earlier than the latest known counts as that one.
- What a learner is shown holds no key: things to choose are called by their places, never by their authors' names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from quiz import grading
from quiz.exam.paper import Asked, Paper
from quiz.grading import Answer, Graded, is_list
from quiz.session import question as quiz_question
from translations import CourseError, Language

State = Literal["open", "over", "handed-in"]
LONGEST_ANSWER = 200


@dataclass(frozen=True, kw_only=True)
class Given:
    """An accepted answer, in its item's own keys (not the places shown), and when it was accepted."""

    answer: Answer
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Offered:
    """One thing to choose, order or fill in. `place` is what an answer calls it: "1", "2", ..."""

    place: str
    text: str
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class ExamQuestion:
    """A question in the learner's language, as it may leave the server. Texts hold the marks of `quiz.rendering`.

    Answers: a place (choice, fault), a list of places (several, order), an object of place to place (match: of
    `offered` to of `answers`), or the text as typed (number, bytes). `given` is the answer so far, in places; None
    where there is none. `reference` names it in a report without naming the item.
    """

    number: int
    of: int
    form: str
    text: str
    code: str
    prompt: str
    offered: tuple[Offered, ...]
    answers: tuple[Offered, ...]
    unit: str
    given: Answer | None
    reference: str


@dataclass(frozen=True, kw_only=True)
class ExamSession:
    """A sitting. `answers` are by the question's number, from 1. `minutes` is the whole time, extra time included.

    `closes` ends it earlier (a cohort's window). Every change gives a new sitting; this one stays as it is.
    """

    paper: Paper
    started: datetime
    minutes: float
    closes: datetime | None = None
    answers: Mapping[int, Given] = field(default_factory=dict)
    handed_in: datetime | None = None

    @property
    def total(self) -> int:
        return len(self.paper.questions)

    @property
    def deadline(self) -> datetime:
        end = self.started + timedelta(minutes=self.minutes)
        return end if self.closes is None else min(end, self.closes)

    def state(self, now: datetime) -> State:
        if self.handed_in is not None:
            return "handed-in"
        return "open" if self._later(now) < self.deadline else "over"

    def left(self, now: datetime) -> timedelta:
        """The time that is left; zero once it is over or handed in."""
        if self.state(now) != "open":
            return timedelta(0)
        return self.deadline - self._later(now)

    def ended(self, now: datetime) -> datetime | None:
        """When it was handed in, or its deadline where that has passed; None while it is open."""
        if self.handed_in is not None:
            return self.handed_in
        return None if self.state(now) == "open" else self.deadline

    def question(self, number: int, language: Language | str) -> ExamQuestion:
        """A question, from 1. Raises CourseError for a number that there is not."""
        asked = self._asked(number)
        shown = quiz_question(asked.variant, language)
        given = self.answers.get(number)
        return ExamQuestion(
            number=number,
            of=self.total,
            form=shown.form,
            text=shown.text,
            code=shown.code,
            prompt=shown.prompt,
            offered=tuple(
                Offered(place=str(place), text=each.text, line=each.line) for place, each in enumerate(shown.offered, 1)
            ),
            answers=tuple(Offered(place=str(place), text=each.text) for place, each in enumerate(shown.answers, 1)),
            unit=shown.unit,
            given=None if given is None else _placed(asked, given.answer),
            reference=f"{self.paper.id}/{number}",
        )

    def answer(self, number: int, answer: Answer | None, *, now: datetime) -> ExamSession:
        """The sitting with this answer (in places) in it; None takes an answer back.

        Raises CourseError, and nothing has changed, when the time is over, it was handed in, there is no such question,
        or the answer is none for it (empty, no number, a place that there is not). It never tells right from wrong.
        """
        self._open(now)
        asked = self._asked(number)
        if answer is None:
            kept = {each: given for each, given in self.answers.items() if each != number}
            return dataclasses.replace(self, answers=kept)
        own = _named(asked, answer)
        grading.grade(asked.variant, own, "en")  # raises where it is no answer; the grade itself is not looked at
        kept = {**self.answers, number: Given(answer=own, at=self._later(now))}
        return dataclasses.replace(self, answers=kept)

    def hand_in(self, *, now: datetime) -> ExamSession:
        """The sitting, handed in. Again, or after the deadline: as it stood then."""
        if self.handed_in is not None:
            return self
        return dataclasses.replace(self, handed_in=min(self._later(now), self.deadline))

    def extended(self, minutes: float) -> ExamSession:
        """The sitting with more time, given by an examiner while it runs. Raises CourseError once it was handed in."""
        if self.handed_in is not None:
            raise CourseError("quiz.exam-handed-in")
        return dataclasses.replace(self, minutes=self.minutes + max(0.0, minutes))

    def grades(self, language: Language | str) -> tuple[Graded | None, ...]:
        """The grade of each question, in order; None where it is unanswered.

        For the server, and only once it has ended.
        """
        return tuple(
            None if number not in self.answers else grading.grade(asked.variant, self.answers[number].answer, language)
            for number, asked in enumerate(self.paper.questions, 1)
        )

    def as_json(self) -> dict[str, Any]:
        """All but the paper; `of` with that paper gives the same sitting."""
        return {
            "version": 1,
            "paper": self.paper.id,
            "started": self.started.isoformat(),
            "minutes": self.minutes,
            "closes": None if self.closes is None else self.closes.isoformat(),
            "handed_in": None if self.handed_in is None else self.handed_in.isoformat(),
            "answers": {
                str(number): {"answer": _json(given.answer), "at": given.at.isoformat()}
                for number, given in sorted(self.answers.items())
            },
        }

    @classmethod
    def of(cls, paper: Paper, data: Mapping[str, Any]) -> ExamSession:
        """The sitting of its JSON. Raises CourseError for one of another paper."""
        if data["version"] != 1 or data["paper"] != paper.id:
            raise CourseError("quiz.exam-other-paper", paper=paper.id)
        moment = datetime.fromisoformat
        return cls(
            paper=paper,
            started=moment(data["started"]),
            minutes=data["minutes"],
            closes=None if data["closes"] is None else moment(data["closes"]),
            handed_in=None if data["handed_in"] is None else moment(data["handed_in"]),
            answers={
                int(number): Given(answer=given["answer"], at=moment(given["at"]))
                for number, given in data["answers"].items()
            },
        )

    def _later(self, now: datetime) -> datetime:
        return max([now, self.started, *(given.at for given in self.answers.values())])

    def _open(self, now: datetime) -> None:
        if self.handed_in is not None:
            raise CourseError("quiz.exam-handed-in")
        if self.state(now) != "open":
            raise CourseError("quiz.exam-time-over")

    def _asked(self, number: int) -> Asked:
        if not 1 <= number <= self.total:
            raise CourseError("quiz.exam-no-question", number=number, total=self.total)
        return self.paper.questions[number - 1]


def begin(
    paper: Paper,
    *,
    now: datetime,
    minutes: float,
    extra: float = 0.0,
    closes: datetime | None = None,
) -> ExamSession:
    """A sitting that begins now. `extra` is the share of time that this learner gets beside it.

    0.25 is a quarter more.
    """
    return ExamSession(paper=paper, started=now, minutes=minutes * (1 + max(0.0, extra)), closes=closes)


def _keys(asked: Asked) -> tuple[Sequence[str], Sequence[str]]:
    """The keys behind the places of what is offered, and of what rows of a match can be given."""
    item = asked.item
    if item.form == "fault":
        return [option.key for option in sorted(item.options, key=lambda each: each.line)], ()
    if item.form == "match":
        return [pair.key for pair in item.pairs], asked.variant.order
    return asked.variant.order, ()


def _named(asked: Asked, answer: Answer) -> Answer:
    """An answer in places, in the item's own keys. Raises CourseError for what can be no answer to this form."""
    offered, answers = _keys(asked)
    match asked.item.form:
        case "number" | "bytes":
            if not isinstance(answer, str) or len(answer) > LONGEST_ANSWER:
                raise CourseError("quiz.no-number")
            return answer
        case "choice" | "fault":
            return _key(offered, answer, "quiz.choose-one")
        case "several" | "order":
            message = "quiz.choose-some" if asked.item.form == "several" else "quiz.order-all"
            if not is_list(answer) or len(answer) != len(set(answer)):
                raise CourseError(message)
            return [_key(offered, each, message) for each in answer]
        case "match":
            if not isinstance(answer, Mapping):
                raise CourseError("quiz.match-all")
            return {
                _key(offered, row, "quiz.match-all"): _key(answers, fit, "quiz.match-all")
                for row, fit in answer.items()
            }


def _key(keys: Sequence[str], place: object, message: str) -> str:
    if not isinstance(place, str) or place not in {str(number) for number in range(1, len(keys) + 1)}:
        raise CourseError(message)
    return keys[int(place) - 1]


def _placed(asked: Asked, answer: Answer) -> Answer:
    """An answer in the item's own keys, in places."""
    offered, answers = _keys(asked)
    if isinstance(answer, Mapping):
        return {str(offered.index(row) + 1): str(answers.index(fit) + 1) for row, fit in answer.items()}
    if is_list(answer):
        return [str(offered.index(key) + 1) for key in answer]
    return answer if asked.item.form in ("number", "bytes") else str(offered.index(str(answer)) + 1)


def _json(answer: Answer) -> Any:
    if isinstance(answer, Mapping):
        return dict(answer)
    return answer if isinstance(answer, str) else list(answer)
