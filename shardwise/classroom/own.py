"""What each student gets that nobody else has: a program with one planted fault, questions with their own numbers.

All of it follows from the ids of course, assignment and student by SHA-256: the same in the student's notebook, in
grading, and when fetched twice. It is no secret; what it keeps is that a neighbour's answer is no answer. Answers stand
in a cell as a dict, which is read (`ast.literal_eval`) and never run.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.exercises.faults import Fault, faults, task
from quiz import items as bank
from quiz.grading import grade
from quiz.items import Item
from quiz.session import Question, question
from quiz.variants import Variant, variant
from shardwise.classroom.course import Assignment
from shardwise.classroom.parts import POINTS, QUESTIONS
from translations import CourseError, Language, translator

LIMIT = 4_000
"""Characters of an answer that are looked at."""
_FORMS = ("number", "bytes")
_MAGIC = re.compile(r"\s*%%answer\b[^\n]*")


@dataclass(frozen=True, kw_only=True)
class Own:
    """Whose work on what: all that the values follow from."""

    course: str
    assignment: Assignment
    student: str

    def draw(self, word: str, below: int, *, of: str | None = None) -> int:
        """A number from 0 to `below` - 1 that depends on the three ids and the word. `of` is another assignment's."""
        said = "\n".join((self.course, of or self.assignment.id, self.student, word))
        return int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "big") % below

    @property
    def fault(self) -> Fault:
        """The student's own fault; in a resit another one than the first time."""
        known = faults(self.assignment.exercise)
        if (first := self.assignment.resit_of) is not None:
            before = self.draw("fault", len(known), of=first)
            return known[(before + 1 + self.draw("fault", len(known) - 1)) % len(known)]
        return known[self.draw("fault", len(known))]

    @property
    def numbers(self) -> tuple[Variant, ...]:
        """The student's own questions, one for each of `QUESTIONS`: of different items, and where it can be of
        different objectives, those of the exercise first.
        """
        from labs.exercises.content import written

        asked = [each for each in bank(task(self.assignment.exercise).unit) if each.form in _FORMS and each.parameters]
        wanted = written(self.assignment.exercise)["objectives"]
        chosen: list[Item] = []
        for number in range(len(QUESTIONS)):
            left = [each for each in asked if each not in chosen]
            fresh = [each for each in left if each.objective not in {one.objective for one in chosen}]
            near = [each for each in fresh if each.objective in wanted] or fresh or left
            chosen.append(near[self.draw(f"item-{number}", len(near))])
        return tuple(variant(each, self.draw(f"numbers-{each.id}", 2**53)) for each in chosen)

    def questions(self, language: Language | str) -> dict[str, Question]:
        """The questions as the student reads them, by their keys in the answer."""
        return {key: question(each, language) for key, each in zip(QUESTIONS, self.numbers, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Marked:
    """What one part earned. `feedback` explains it in the student's language, a paragraph each; `right` says by piece
    of the answer whether it holds. `answered` is False where nothing was written: the cell is as it was given out.
    """

    points: float
    of: float
    feedback: tuple[str, ...]
    right: Mapping[str, bool]
    answered: bool


def read_answer(source: str) -> Mapping[str, Any]:
    """The dict that a cell's source holds, below its line `%%answer` or without one. Raises CourseError that says what
    to write.
    """
    if len(source) > LIMIT:
        raise CourseError("shardwise.answer-too-long", limit=LIMIT)
    try:
        body = ast.parse(_MAGIC.sub("", source, count=1) if _MAGIC.match(source) else source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CourseError("shardwise.answer-not-a-dict") from None
    values = [
        each.value for each in body if isinstance(each, ast.Assign | ast.Expr) and isinstance(each.value, ast.Dict)
    ]
    if len(values) != 1:
        raise CourseError("shardwise.answer-not-a-dict")
    try:
        found = ast.literal_eval(values[0])
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise CourseError("shardwise.answer-not-a-dict") from None
    return {str(key): value for key, value in found.items()}


def fault_answer(source: str, own: Own) -> tuple[int, str]:
    """The line and the rule that an answer names; 0 and "" where it is still as given out. Raises CourseError."""
    given = read_answer(source)
    line, rule = given.get("line", 0), given.get("rule", "")
    if isinstance(line, str) and line.strip().isdecimal():
        line = int(line)
    if isinstance(line, bool) or not isinstance(line, int) or line < 0:
        raise CourseError("shardwise.answer-line", given=_short(line))
    rules = task(own.assignment.exercise).rules
    if not isinstance(rule, str) or (rule.strip() and rule.strip() not in rules):
        raise CourseError("shardwise.answer-rule", given=_short(rule), known=", ".join(rules))
    return line, rule.strip()


def number_answers(source: str) -> Mapping[str, str]:
    """The numbers that an answer gives, as text, by question; "" for one that is open. Raises CourseError."""
    given = read_answer(source)
    found = {}
    for key in QUESTIONS:
        value = given.get(key, "")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise CourseError("shardwise.answer-number", key=key, given=_short(value))
        found[key] = str(value).strip()[:100]
    return found


def read_number(asked: Variant, answer: str, language: Language) -> None:
    """Raises CourseError where grading could not read this as an answer: no number, a unit of another kind."""
    grade(asked, answer, language)


def grade_fault(own: Own, source: str, language: Language) -> Marked:
    """Half of the points for the line, half for the rule."""
    text, of = translator(language), POINTS["fault"]
    fault = own.fault
    try:
        line, rule = fault_answer(source, own)
    except CourseError as error:
        return _nothing(error.in_language(text), of, ("line", "rule"), answered=True)
    if not line and not rule:
        return _nothing(text("shardwise.fault-open"), of, ("line", "rule"), answered=False)
    right = {"line": line in fault.lines, "rule": rule == fault.rule}
    named = ", ".join(str(each) for each in sorted(fault.lines))
    rules = task(own.assignment.exercise, language).rules
    feedback = [text("shardwise.fault-line-right" if right["line"] else "shardwise.fault-line-wrong", lines=named)]
    if right["rule"]:
        feedback.append(text("shardwise.fault-rule-right", rule=rules[fault.rule]))
    else:
        feedback.append(text("shardwise.fault-rule-wrong", rule=rules[fault.rule]))
    return Marked(
        points=of * sum(right.values()) / len(right), of=of, feedback=tuple(feedback), right=right, answered=True
    )


def grade_numbers(own: Own, source: str, language: Language) -> Marked:
    """Equal points for each question, by the quiz's own grading."""
    text, of = translator(language), POINTS["numbers"]
    try:
        given = number_answers(source)
    except CourseError as error:
        return _nothing(error.in_language(text), of, QUESTIONS, answered=True)
    if not any(given.values()):
        return _nothing(text("shardwise.numbers-open"), of, QUESTIONS, answered=False)
    credit, right, feedback = 0.0, dict[str, bool](), list[str]()
    for number, (key, asked) in enumerate(zip(QUESTIONS, own.numbers, strict=True), start=1):
        try:
            graded = grade(asked, given[key], language)
            credit, right[key], said = credit + graded.credit, graded.correct, graded.feedback
        except CourseError as error:
            right[key], said = False, error.in_language(text)
        feedback.append(
            text("shardwise.numbers-question", number=number, verdict=_verdict(right[key], text)) + " " + said
        )
    return Marked(points=of * credit / len(QUESTIONS), of=of, feedback=tuple(feedback), right=right, answered=True)


def _verdict(right: bool, text: Any) -> str:
    return str(text("shardwise.numbers-right" if right else "shardwise.numbers-wrong"))


def _nothing(said: str, of: float, pieces: tuple[str, ...], *, answered: bool) -> Marked:
    return Marked(points=0.0, of=of, feedback=(said,), right=dict.fromkeys(pieces, False), answered=answered)


def _short(value: object) -> str:
    return str(value)[:60]
