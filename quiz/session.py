"""A quiz being taken: which questions, in which order, what was answered, and how it ended.

The notebook's widget, the terminal and the classroom are views of this one state machine; it stores nothing itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quiz import grading, variants
from quiz.grading import Answer, Graded
from quiz.items import Item, item, items, misconceptions, objectives
from quiz.policy import policy
from quiz.rendering import fill, fill_code
from quiz.variants import Variant, seed_of
from translations import CourseError, Language, Translator, translator
from translations import language as find


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One thing that a question offers: an option, a step, a row to match, an answer to choose, a line of code."""

    key: str
    text: str
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class Question:
    """A variant in the learner's language, without its key. Texts hold the marks of `quiz.rendering`.

    `offered` are the things to choose, order or fill in; `answers` what rows of a match can be given; `unit` its name.
    """

    item: str
    version: int
    seed: int
    form: str
    language: Language
    text: str
    code: str
    prompt: str
    offered: tuple[Shown, ...]
    answers: tuple[Shown, ...]
    unit: str

    @property
    def report(self) -> str:
        """What a report of this question needs, in one line."""
        return f"item={self.item} version={self.version} seed={self.seed} language={self.language.code}"


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An answer as the record keeps it: item version and seed stay with it, so that a later edit never re-marks."""

    unit: str
    attempt: int
    item: str
    version: int
    seed: int
    objective: str
    form: str
    language: str
    answer: Answer
    correct: bool
    credit: float
    misconception: str | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ObjectiveResult:
    """How an objective's questions were answered: `share` is the credit won, between 0 and 1."""

    id: str
    text: str
    share: float
    asked: int
    mastered: bool


@dataclass(frozen=True, kw_only=True)
class Result:
    """How an attempt ended. `passed`: the unit's share of mastered objectives reaches the policy's mastery."""

    unit: str
    attempt: int
    answered: tuple[Answered, ...]
    objectives: tuple[ObjectiveResult, ...]
    share: float
    passed: bool
    needed: int
    misconceptions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Lead:
    """A misconception met, how often (in earlier answers too), and where its truth is seen.

    `repeated`: as often as the policy says. Then `unit`, `exercises` and `labs` are where to go: the unit's lesson, the
    exercises that fail by this idea, and the unit's labs by name.
    """

    id: str
    truth: str
    count: int
    repeated: bool
    unit: str
    exercises: tuple[str, ...]
    labs: tuple[str, ...]


OnAnswer = Callable[[Answered], None]


class Session:
    """One attempt at a unit's quiz by one learner. Same learner and attempt: same questions and numbers.

    `resume` are answers of this attempt given before (from the record): their questions are not asked again. `items`
    are the ids to ask instead of a drawn quiz (recall between sections, the questions before a unit, a review); they
    are of any unit where `unit` is "". `met` says how often earlier answers met each misconception.
    """

    def __init__(
        self,
        unit: str,
        language: Language | str,
        *,
        seed: str,
        attempt: int = 1,
        on_answer: OnAnswer | None = None,
        items: Sequence[str] | None = None,
        resume: Iterable[Answered] = (),
        met: Mapping[str, int] | None = None,
    ) -> None:
        self.unit = unit
        self._met = dict(met or {})
        self.language = find(language)
        self.learner = seed
        self.attempt = attempt
        self.is_quiz = items is None
        self._on_answer = on_answer
        chosen = _named(unit, items) if items is not None else drawn(unit, learner=seed, attempt=attempt)
        self.variants: tuple[Variant, ...] = tuple(
            variants.variant(each, seed_of(learner=seed, attempt=attempt, item=each.id)) for each in chosen
        )
        earlier = {each.item: each for each in resume if unit in ("", each.unit) and each.attempt == attempt}
        self._answered: dict[int, Answered] = {
            n: earlier[each.id]
            for n, each in enumerate(self.variants)
            if each.id in earlier and earlier[each.id].version == each.version
        }
        self._graded: dict[int, Graded] = {}
        self._at = next((n for n in range(len(self.variants)) if n not in self._answered), len(self.variants))
        self._since = time.monotonic()

    @property
    def total(self) -> int:
        return len(self.variants)

    @property
    def number(self) -> int:
        """The current question's number, from 1; `total + 1` when all were passed."""
        return self._at + 1

    @property
    def finished(self) -> bool:
        return self._at >= len(self.variants)

    @property
    def answered(self) -> tuple[Answered, ...]:
        return tuple(self._answered[n] for n in sorted(self._answered))

    @property
    def graded(self) -> Graded | None:
        """The grade of the current question; None while it is unanswered."""
        return self._graded.get(self._at)

    @property
    def given(self) -> Answer | None:
        """What was answered to the current question; None while it is unanswered."""
        answered = self._answered.get(self._at)
        return answered.answer if answered else None

    @property
    def variant(self) -> Variant:
        """The current variant. Raises CourseError when the quiz is finished."""
        if self.finished:
            raise CourseError("quiz.finished")
        return self.variants[self._at]

    def question(self) -> Question:
        """The current question in the learner's language."""
        return question(self.variant, self.language)

    def answer(self, answer: Answer) -> Graded:
        """Grade an answer to the current question and hand it to `on_answer`, once; answering again changes nothing.

        Raises CourseError for an answer that is none; the question then stays open.
        """
        if self._at in self._graded:
            return self._graded[self._at]
        asked = self.variant
        graded = grading.grade(asked, answer, self.language)
        answered = Answered(
            unit=asked.item.unit,
            attempt=self.attempt,
            item=asked.id,
            version=asked.version,
            seed=asked.seed,
            objective=asked.item.objective,
            form=asked.item.form,
            language=self.language.code,
            answer=answer,
            correct=graded.correct,
            credit=graded.credit,
            misconception=graded.misconception,
            seconds=round(time.monotonic() - self._since, 1),
        )
        if self._on_answer is not None:
            self._on_answer(answered)
        self._graded[self._at] = graded
        self._answered[self._at] = answered
        return graded

    def next(self) -> None:
        """Go on to the next open question; raises CourseError while the current one is unanswered."""
        if not self.finished and self._at not in self._answered:
            raise CourseError("quiz.answer-first")
        self._at = next((n for n in range(self._at + 1, self.total) if n not in self._answered), self.total)
        self._since = time.monotonic()

    def result(self) -> Result:
        """How it stands now: objectives without a question answered count as not mastered."""
        return result(self.unit, self.attempt, self.answered, self.language, asked=self.variants)

    def leads(self) -> tuple[Lead, ...]:
        """Every misconception met here, the most often met first."""
        return tuple(
            lead(id, count + self._met.get(id, 0), self.language) for id, count in self.result().misconceptions
        )

    def misconception_notes(self) -> tuple[str, ...]:
        """For each misconception met, the truth it misses; met as often as the policy says, the lab that shows it."""
        text = translator(self.language)
        return tuple(note(each, text) for each in self.leads())


def lead(id: str, count: int, language: Language | str) -> Lead:
    """Where a misconception that was met so often leads."""
    from labs.catalogue import LABS
    from quiz.curriculum import exercises_of

    known = misconceptions()[id]
    return Lead(
        id=id,
        truth=known.say(language),
        count=count,
        repeated=count >= policy().misconception_repeats,
        unit=known.unit,
        exercises=exercises_of(id),
        labs=tuple(name for name, each in LABS.items() if each.unit == known.unit),
    )


def note(found: Lead, text: Translator) -> str:
    """What is said of a misconception that was met."""
    if not found.repeated:
        return text("quiz.misconception-met", truth=found.truth)
    return text("quiz.misconception-repeated", truth=found.truth, lesson=text(f"shardwise.unit-{found.unit}"))


def drawn(unit: str, *, learner: str, attempt: int) -> tuple[Item, ...]:
    """The items of an attempt: as many of each objective as the policy says, in an order of the seed's."""

    def rank(item: Item) -> int:
        return seed_of(learner=f"{learner}\norder", attempt=attempt, item=item.id)

    bank = items(unit)
    chosen: list[Item] = []
    for objective in objectives(unit):
        candidates = sorted((item for item in bank if item.objective == objective.id), key=rank)
        chosen += candidates[: policy().per_objective]
    return tuple(sorted(chosen, key=lambda item: rank(item) % 1_000_003))


def precheck(unit: str, *, learner: str) -> tuple[str, ...]:
    """The ids of the questions before a unit: for each objective one, of the applied kinds if it has such."""
    bank = items(unit)
    applied = [item for item in bank if item.kind in ("compute", "predict", "diagnose")]
    chosen: list[str] = []
    for pool in (applied, list(bank)):
        for objective in objectives(unit):
            fresh = [item for item in pool if item.objective == objective.id and item.id not in chosen]
            if fresh and len(chosen) < policy().precheck:
                fresh.sort(key=lambda item: seed_of(learner=learner, attempt=0, item=item.id))
                chosen.append(fresh[0].id)
    return tuple(chosen)


def question(variant: Variant, language: Language | str) -> Question:
    """A variant as the learner sees it; the key is not in it."""
    reader = find(language)
    text, item = translator(reader), variant.item

    def say(context: str, english: str) -> str:
        return fill(item.say(context, english, reader), variant.values, item.show, reader)

    steps = {step.key: Shown(key=step.key, text=say(f"steps.{step.key}.text", step.text)) for step in item.steps}
    answers = {each.key: Shown(key=each.key, text=say(f"answers.{each.key}.text", each.text)) for each in item.answers}
    options = {
        option.key: Shown(
            key=option.key,
            text=text("quiz.line", number=option.line)
            if item.form == "fault"
            else say(f"options.{option.key}.text", option.text),
            line=option.line,
        )
        for option in item.options
    }
    numeric = item.form in ("number", "bytes")
    unit = grading.unit_name(grading.answer_unit(item), reader) if numeric else ""
    prompts = {"unit": unit} if numeric else {}
    if item.form == "fault":
        offered = tuple(sorted(options.values(), key=lambda shown: shown.line))
    elif item.form == "match":
        offered = tuple(Shown(key=pair.key, text=say(f"pairs.{pair.key}.text", pair.text)) for pair in item.pairs)
    else:
        offered = tuple({**steps, **options}[key] for key in variant.order)
    return Question(
        item=item.id,
        version=item.version,
        seed=variant.seed,
        form=item.form,
        language=reader,
        text=say("text", item.text),
        code=fill_code(item.code, variant.values),
        prompt=text(f"quiz.prompt-{'number' if numeric else item.form}", **prompts),
        offered=offered,
        answers=tuple(answers[key] for key in variant.order) if item.form == "match" else (),
        unit=unit,
    )


def result(
    unit: str,
    attempt: int,
    answered: Iterable[Answered],
    language: Language | str,
    *,
    asked: Sequence[Variant] = (),
) -> Result:
    """The result of an attempt's answers, by objective. `asked` are the questions that it holds, answered or not."""
    given = tuple(answered)
    counted = Counter(each.item.objective for each in asked) or Counter(each.objective for each in given)
    profile = []
    for objective in objectives(unit or None):
        if not counted[objective.id]:
            continue
        share = sum(each.credit for each in given if each.objective == objective.id) / counted[objective.id]
        profile.append(
            ObjectiveResult(
                id=objective.id,
                text=objective.say(language),
                share=share,
                asked=counted[objective.id],
                mastered=share >= policy().objective_mastery,
            )
        )
    mastered = sum(each.mastered for each in profile)
    share = mastered / len(profile) if profile else 0.0
    met = Counter(each.misconception for each in given if each.misconception)
    return Result(
        unit=unit,
        attempt=attempt,
        answered=given,
        objectives=tuple(profile),
        share=share,
        passed=share >= policy().mastery,
        needed=-int(-len(profile) * policy().mastery // 1),
        misconceptions=tuple((id, count) for id, count in met.most_common() if id is not None),
    )


def _named(unit: str, ids: Sequence[str]) -> tuple[Item, ...]:
    if not unit:
        return tuple(item(id) for id in ids)
    known = {each.id: each for each in items(unit)}
    missing = [id for id in ids if id not in known]
    if missing:
        raise CourseError("quiz.unknown-item", id=missing[0])
    return tuple(known[id] for id in ids)
