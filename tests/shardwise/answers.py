"""Right and wrong answers to whatever a quiz asks, found by asking the grader: a test knows no key."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from quiz import Session, grade
from quiz.grading import Answer, Graded
from quiz.session import Question
from translations import CourseError


def possible(asked: Question, key: str) -> Iterator[Answer]:
    """Answers of the question's form; for a number, what the grader itself says is right."""
    keys = [each.key for each in asked.offered]
    match asked.form:
        case "choice" | "fault":
            yield from keys
        case "several":
            for size in range(1, len(keys) + 1):
                yield from map(list, itertools.combinations(keys, size))
        case "order":
            yield from map(list, itertools.permutations(keys))
        case "match":
            for answers in itertools.product([each.key for each in asked.answers], repeat=len(keys)):
                yield dict(zip(keys, answers, strict=True))
        case _:
            yield "0"
            yield key


def graded(session: Session, given: Answer) -> Graded | None:
    try:
        return grade(session.variant, given, session.language)
    except CourseError:
        return None


def find(session: Session, *, right: bool) -> Answer:
    """An answer to the current question that is right, or one that earns nothing."""
    asked = session.question()
    first = next(given for given in possible(asked, "0") if graded(session, given))
    known = graded(session, first)
    assert known is not None
    for given in possible(asked, known.key):
        found = graded(session, given)
        if found is not None and (found.correct if right else not found.credit):
            return given
    raise AssertionError(f"{asked.item}: no such answer")


def typed(asked: Question, answer: Any) -> str:
    """The answer as it is typed in the terminal."""
    numbers = {each.key: str(number) for number, each in enumerate(asked.offered, start=1)}
    letters = {each.key: chr(ord("A") + number) for number, each in enumerate(asked.answers)}
    match asked.form:
        case "choice" | "fault":
            return numbers[answer]
        case "several" | "order":
            return " ".join(numbers[key] for key in answer)
        case "match":
            return " ".join(f"{numbers[key]}-{letters[value]}" for key, value in answer.items())
        case _:
            return str(answer)


def take(session: Session, *, right: bool = True) -> None:
    """The whole quiz."""
    while not session.finished:
        session.answer(find(session, right=right))
        session.next()
