"""Grading: a variant and an answer give right or wrong, and the sentences that explain it.

An answer is plain JSON: a key (choice, fault), a list of keys (several, order), an object of pair to answer (match), or
the text as typed (number, bytes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from quiz.items import Item, Option, Slip, objectives
from quiz.numbers import Unit, parse
from quiz.numbers import unit as find_unit
from quiz.rendering import fill, tidy
from quiz.variants import Variant
from translations import CourseError, Language, Translator, formats, translator
from translations import language as find

Answer = str | Sequence[str] | Mapping[str, str]
GIB_FOR_GB = tuple((1024 / 1000) ** power for power in (1, 2, 3, 4))


@dataclass(frozen=True, kw_only=True)
class Note:
    """What is true of one thing that could be chosen: whether it is right, whether it was chosen, and why."""

    key: str
    right: bool
    chosen: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Graded:
    """The grade of an answer. `feedback` explains it and `key` is the right answer, both in the learner's language.

    `credit` is between 0 and 1, and 1 exactly when `correct`. `notes` explain each option, for forms that have them.
    """

    correct: bool
    credit: float
    feedback: str
    misconception: str | None
    key: str
    notes: tuple[Note, ...] = ()


def grade(variant: Variant, answer: Answer, language: Language | str) -> Graded:
    """The grade. Raises CourseError for an answer that is none (empty, not a number): nothing is marked."""
    return _Grader(variant, find(language)).grade(answer)


@dataclass(frozen=True)
class _Grader:
    variant: Variant
    language: Language

    @property
    def item(self) -> Item:
        return self.variant.item

    @property
    def text(self) -> Translator:
        return translator(self.language)

    def say(self, context: str, english: str) -> str:
        said = self.item.say(context, english, self.language)
        return fill(said, self.variant.values, self.item.show, self.language)

    def grade(self, answer: Answer) -> Graded:
        match self.item.form:
            case "choice" | "fault":
                return self.one(answer)
            case "several":
                return self.several(answer)
            case "order":
                return self.order(answer)
            case "match":
                return self.match(answer)
            case "number" | "bytes":
                return self.number(answer)

    def option(self, option: Option) -> str:
        """An option as the key of an answer names it."""
        if self.item.form == "fault":
            return self.text("quiz.line", number=option.line)
        return self.say(f"options.{option.key}.text", option.text)

    def why(self, option: Option) -> str:
        field = "lines" if self.item.form == "fault" else "options"
        return self.say(f"{field}.{option.key}.feedback", option.feedback)

    def explained(self, parts: Sequence[str], *, correct: bool) -> str:
        """The sentences on this answer, then what is true; after a wrong one, where to look."""
        general = self.say("feedback", self.item.feedback)
        look = [] if correct else [self.text("quiz.look-again", objective=self.objective())]
        return "\n\n".join([*dict.fromkeys(part for part in [*parts, general] if part), *look])

    def objective(self) -> str:
        return next(each.say(self.language) for each in objectives(self.item.unit) if each.id == self.item.objective)

    def one(self, answer: Answer) -> Graded:
        options = {option.key: option for option in self.item.options}
        if not isinstance(answer, str) or answer not in options:
            raise CourseError("quiz.choose-one")
        chosen = options[answer]
        right = next(option for option in self.item.options if option.correct)
        return Graded(
            correct=chosen.correct,
            credit=float(chosen.correct),
            feedback=self.explained([self.why(chosen)], correct=chosen.correct),
            misconception=chosen.misconception,
            key=self.option(right),
            notes=self.notes([answer]),
        )

    def several(self, answer: Answer) -> Graded:
        options = {option.key: option for option in self.item.options}
        if not is_list(answer) or not answer or not set(answer) <= set(options):
            raise CourseError("quiz.choose-some")
        chosen = set(answer)
        right = {option.key for option in self.item.options if option.correct}
        wrong = [option for option in self.item.options if (option.key in chosen) != option.correct]
        credit = max(0.0, (len(chosen & right) - len(chosen - right)) / len(right))
        return Graded(
            correct=not wrong,
            credit=credit,
            feedback=self.explained([self.why(option) for option in wrong], correct=not wrong),
            misconception=next((o.misconception for o in wrong if o.misconception), None),
            key="\n".join(self.option(option) for option in self.item.options if option.correct),
            notes=self.notes(chosen),
        )

    def notes(self, chosen: Sequence[str] | set[str]) -> tuple[Note, ...]:
        by_key = {option.key: option for option in self.item.options}
        order = self.variant.order or tuple(by_key)
        return tuple(
            Note(key=key, right=by_key[key].correct, chosen=key in chosen, text=self.why(by_key[key])) for key in order
        )

    def order(self, answer: Answer) -> Graded:
        right = [step.key for step in self.item.steps]
        if not is_list(answer) or sorted(answer) != sorted(right):
            raise CourseError("quiz.order-all")
        place = {key: position for position, key in enumerate(answer)}
        inverted = [each for each in self.item.inversions if place[each.first] < place[each.then]]
        correct = list(answer) == right
        neighbours = sum(place[first] < place[then] for first, then in pairwise(right))
        found = inverted[:2]
        parts = [self.say(f"inversions.{each.key}.feedback", each.feedback) for each in found]
        if not correct and not parts:
            parts = [self.text("quiz.order-off", first=self._first_wrong(answer, right))]
        steps = [self.say(f"steps.{step.key}.text", step.text) for step in self.item.steps]
        return Graded(
            correct=correct,
            credit=1.0 if correct else max(0.0, neighbours / (len(right) - 1) - 0.5),
            feedback=self.explained(parts, correct=correct),
            misconception=next((each.misconception for each in found if each.misconception), None),
            key="\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
            notes=tuple(
                Note(key=key, right=key == right[position], chosen=True, text="") for position, key in enumerate(answer)
            ),
        )

    def _first_wrong(self, answer: Sequence[str], right: Sequence[str]) -> int:
        return next(n for n, (given, key) in enumerate(zip(answer, right, strict=True), 1) if given != key)

    def match(self, answer: Answer) -> Graded:
        answers = {each.key: self.say(f"answers.{each.key}.text", each.text) for each in self.item.answers}
        pairs = self.item.pairs
        if not isinstance(answer, Mapping) or set(answer) != {pair.key for pair in pairs}:
            raise CourseError("quiz.match-all")
        if not all(isinstance(each, str) and each in answers for each in answer.values()):
            raise CourseError("quiz.match-all")
        wrong = [pair for pair in pairs if answer[pair.key] != pair.match]
        notes = tuple(
            Note(
                key=pair.key,
                right=pair not in wrong,
                chosen=True,
                text=self.say(f"pairs.{pair.key}.feedback", pair.feedback),
            )
            for pair in pairs
        )
        return Graded(
            correct=not wrong,
            credit=1 - len(wrong) / len(pairs),
            feedback=self.explained([note.text for note in notes if not note.right], correct=not wrong),
            misconception=next((pair.misconception for pair in wrong if pair.misconception), None),
            key="\n".join(f"{self.say(f'pairs.{p.key}.text', p.text)} — {answers[p.match]}" for p in pairs),
            notes=notes,
        )

    def number(self, answer: Answer) -> Graded:
        if not isinstance(answer, str) or not answer.strip():
            raise CourseError("quiz.no-number")
        given = parse(answer)
        own = answer_unit(self.item)
        if given.unit is not None and given.unit.family != own.family:
            raise CourseError("quiz.other-unit", unit=given.unit.name, expected=own.name)
        scale = (given.unit or own).size / own.size
        readings = [reading * scale for reading in given.readings]
        key = key_of(self.variant)
        shown = quantity(key, self.item, self.language)
        if any(self.near(reading, key) for reading in readings):
            return Graded(
                correct=True, credit=1.0, feedback=self.explained([], correct=True), misconception=None, key=shown
            )
        slip = self.slip(readings, key)
        if slip:
            parts, misconception = [self.say(f"slips.{slip.key}.feedback", slip.feedback)], slip.misconception
        else:
            parts, misconception = [self.factor(readings, key) or self.off(readings[0], key)], None
        return Graded(
            correct=False,
            credit=0.0,
            feedback=self.explained([*parts, self.text("quiz.answer-is", answer=self.isolated(shown))], correct=False),
            misconception=misconception,
            key=shown,
        )

    def near(self, value: float, target: float) -> bool:
        return abs(value - target) <= abs(target) * self.item.tolerance + 1e-12

    def slip(self, readings: Sequence[float], key: float) -> Slip | None:
        """The author's slip that one of the readings is; never one that equals the key in this variant."""
        for slip in self.item.slips:
            value = self.variant.number(slip.value)
            if not self.near(value, key) and any(self.near(reading, value) for reading in readings):
                return slip
        return None

    def factor(self, readings: Sequence[float], key: float) -> str | None:
        """The sentence on an answer that is off by a factor which gives away how it was reached."""
        for factor, message in self.factors():
            for reading in readings:
                if self.near(reading, key * factor):
                    ranks = round(max(factor, 1 / factor))
                    return self.text(message, ranks=ranks) if "ranks" in message else self.text(message)
        return None

    def factors(self) -> Iterator[tuple[float, str]]:
        if self.item.ranks is not None:
            ranks = self.variant.number(self.item.ranks)
            if ranks > 1:
                yield ranks, "quiz.times-ranks"
                yield 1 / ranks, "quiz.over-ranks"
        if answer_unit(self.item).family == "bytes":
            yield 8, "quiz.bits-for-bytes"
            yield 1 / 8, "quiz.bytes-over-eight"
            for ratio in GIB_FOR_GB:
                yield 1 / ratio, "quiz.binary-for-decimal"
                yield ratio, "quiz.decimal-for-binary"
            for prefix in (1e3, 1e6, 1e9):
                yield prefix, "quiz.prefix-too-large"
                yield 1 / prefix, "quiz.prefix-too-small"
        yield 2, "quiz.twice"
        yield 1 / 2, "quiz.half"

    def off(self, value: float, key: float) -> str:
        return self.text("quiz.too-high" if value > key else "quiz.too-low")

    def isolated(self, text: str) -> str:
        return formats.isolate(text) if self.language.direction == "rtl" else text


def is_list(answer: Answer) -> TypeGuard[Sequence[str]]:
    """Whether an answer, which may come from a page or a file, is a list of keys."""
    return isinstance(answer, list | tuple) and all(isinstance(each, str) for each in answer)


def right_answer(variant: Variant) -> Answer:
    """The answer that is graded as right: for the check of a bank, and for tests that walk a quiz."""
    item = variant.item
    right = [option.key for option in item.options if option.correct]
    match item.form:
        case "choice" | "fault":
            return right[0]
        case "several":
            return right
        case "order":
            return [step.key for step in item.steps]
        case "match":
            return {pair.key: pair.match for pair in item.pairs}
        case "number" | "bytes":
            return repr(key_of(variant))


def key_of(variant: Variant) -> float:
    """The right number of a variant, in the item's unit: what the named function or expression computes."""
    if variant.item.key is None:
        raise ValueError(f"{variant.item.id} has no numeric key")
    return variant.number(variant.item.key)


def answer_unit(item: Item) -> Unit:
    """The unit in which an item wants its answer."""
    known = find_unit(item.answer_unit)
    if known is None:
        raise ValueError(f"{item.id}: quiz/units.yaml has no unit '{item.answer_unit}'")
    return known


def quantity(value: float, item: Item, language: Language | str) -> str:
    """A number in the item's unit, as the reader's language writes it: '3.5 GB', '32 GPUs', '25%', '4'."""
    own = answer_unit(item)
    whole = abs(value - round(value)) < 1e-9 * max(1.0, abs(value))
    exact = whole and (item.form == "bytes" or abs(value) < 1e6)
    shown = formats.number(round(value), language) if exact else tidy(value, language)
    if own.name == "%":
        return formats.percent(value / 100, language)
    if own.name == "times":
        return f"{shown}×"
    return f"{shown}{formats.NARROW_SPACE}{unit_name(own, language)}"


def unit_name(unit: Unit, language: Language | str) -> str:
    """A unit as it stands behind a number: bytes and % as they are, others as the language says them."""
    return unit.name if unit.family in ("bytes", "share") else translator(language)(f"quiz.unit-{unit.name.lower()}")
