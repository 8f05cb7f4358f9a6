"""Papers and sittings that the tests of the exam share, and an item bank of an author's own."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quiz.exam import Banks, ExamSession, Paper, banks, begin, blueprint, draw, exam_policy
from quiz.exam.session import Given

SECRET = bytes(range(32))
START = datetime(2030, 1, 7, 9, 0, tzinfo=UTC)
UNIT = "04-zero-1"


@cache
def public() -> Banks:
    return banks(public_bank=True)


def paper(attempt: str = "attempt-1", *, secret: bytes = SECRET, **options: Any) -> Paper:
    return draw(blueprint(), public(), secret=secret, attempt=attempt, **options)


def sitting(attempt: str = "attempt-1", **options: Any) -> ExamSession:
    return begin(paper(attempt), now=START, **{"minutes": exam_policy().minutes, **options})


def answers(session: ExamSession, *, wrong: int = 0) -> dict[int, Any]:
    """An answer to every question as a page would send it (in places), the first `wrong` of them wrong."""
    return {
        number: wrong_of(session, number) if number <= wrong else right_of(session, number)
        for number in range(1, session.total + 1)
    }


def right_of(session: ExamSession, number: int) -> Any:
    from quiz.grading import right_answer

    return _places(session, number, right_answer(session.paper.questions[number - 1].variant))


def wrong_of(session: ExamSession, number: int) -> Any:
    item = session.paper.questions[number - 1].item
    wrong: Any = "0.000001"
    match item.form:
        case "choice" | "fault":
            wrong = next(option.key for option in item.options if not option.correct)
        case "several":
            wrong = [option.key for option in item.options if not option.correct]
        case "order":
            wrong = [step.key for step in reversed(item.steps)]
        case "match":
            wrong = {pair.key: next(a.key for a in item.answers if a.key != pair.match) for pair in item.pairs}
    return _places(session, number, wrong)


def _places(session: ExamSession, number: int, own: Any) -> Any:
    """An answer in an item's keys, as places: found by putting it in and asking what is shown."""
    from dataclasses import replace

    holding = replace(session, answers={number: Given(answer=own, at=session.started)})
    return holding.question(number, "en").given


def private_item(id: str, **changes: Any) -> dict[str, Any]:
    """An item of a private bank, as its author writes it."""
    return {
        "id": id,
        "version": 1,
        "objective": "zero-1-bytes",
        "kind": "predict",
        "form": "choice",
        "text": f"What does ZeRO-1 share out, asked as {id}?",
        "feedback": "ZeRO-1 shares out the optimizer states and nothing else.",
        "options": [
            {"key": "states", "text": "Optimizer states", "correct": True, "feedback": "Right: only these are shared."},
            {"key": "all", "text": "Everything", "feedback": "Parameters and gradients stay whole on every rank."},
            {"key": "none", "text": "Nothing at all", "feedback": "Each rank holds a part of the optimizer states."},
        ],
        **changes,
    }


def private_bank(folder: Path, items: list[dict[str, Any]], *, unit: str = UNIT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"version": 1, "unit": unit, "items": items}
    (folder / f"{unit}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder


def blueprint_file(path: Path, lines: list[dict[str, Any]]) -> str:
    content = {"version": 1, "id": "own", "title": {"en": "An exam of our own"}, "lines": lines}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return str(path)
