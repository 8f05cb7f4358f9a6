"""Answers as files: exported records, results of a class or a service, spreadsheets; each row an answer.

JSON (a list, or an object with `answers`), JSON lines, or CSV with a head. A row has `learner`, `item`, `version`,
`language`, `form`, `correct`, `credit`; and, where known, `given` (the answer; JSON in a CSV cell), `misconception`,
and `made` (which of two answers came first). An exported record names its learner once, at its top.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quiz.analysis import Response
from translations import CourseError

LARGEST = 200_000_000
"""Bytes of the largest file that is read."""


def responses(path: Path) -> Iterator[Response]:
    """The answers of a file. Raises CourseError that says which row can't be read, and why."""
    try:
        if path.stat().st_size > LARGEST:
            raise CourseError("quiz.answers-unreadable", path=str(path), reason=f"> {LARGEST} B")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("quiz.answers-unreadable", path=str(path), reason=str(error)) from error
    number = 0
    try:
        for row in _rows(text, path):
            number += 1
            yield response(row)
    except (KeyError, ValueError, TypeError, RecursionError, csv.Error) as error:
        reason = f"{number}: {type(error).__name__} {error}"[:200]
        raise CourseError("quiz.answers-unreadable", path=str(path), reason=reason) from error


def response(row: Mapping[str, Any]) -> Response:
    """The answer of a row. Raises KeyError or ValueError for one that is none. Learners' names are not kept."""
    credit = float(row["credit"])
    if not (math.isfinite(credit) and 0 <= credit <= 1):
        raise ValueError(f"credit {credit}")
    given = row.get("given", row.get("answer"))
    return Response(
        learner=hashlib.sha256(str(row["learner"]).encode()).hexdigest(),
        item=str(row["item"]),
        version=int(row["version"]),
        language=str(row["language"]),
        form=str(row["form"]),
        correct=_truth(row["correct"]),
        credit=credit,
        given=given,
        misconception=row.get("misconception") or None,
        order=str(row.get("made") or ""),
    )


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).strip().lower())
    if found is None:
        raise ValueError(f"correct: {value!r}")
    return found


def _rows(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix.lower() == ".csv":
        for row in csv.DictReader(io.StringIO(text)):
            yield {**row, "given": _cell(row.get("given") or "")}
        return
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)
        return
    if isinstance(data, Mapping):
        if not isinstance(data.get("answers"), list):
            raise ValueError("answers")
        whose = data.get("learner")
        own = whose.get("id") if isinstance(whose, Mapping) else whose
        for row in data["answers"]:
            yield {"learner": own, **row} if own is not None else row
        return
    yield from data


def _cell(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
