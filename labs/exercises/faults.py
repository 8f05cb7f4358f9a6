"""What an exercise becomes in a class (`assignment.yaml`): programs with one planted fault each, made from its
solution, the rules that they break, and the question that a teacher marks.

A program is shown without comments and docstrings: they would say what the code no longer does, and a translation of
them would move its lines. So it is the same, line by line, in every language.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import yaml

from labs.exercises.content import FOLDER, exercise
from translations import SOURCE, CourseError, Language
from translations.catalogs import catalog
from translations.source import translate_data

NAME = "assignment.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: `program` is the solution with it, `lines` (from 1) are those that name it, `rule` is what it breaks,
    and `fails` is the failure that the exercise's check finds.
    """

    id: str
    rule: str
    program: str
    lines: frozenset[int]
    fails: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """The question that a teacher marks, and what there are points for, in one language."""

    question: str
    criteria: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What an exercise is in a class, in one language. `rules` are in the order of the file; `unit` has the bank."""

    exercise: str
    rules: Mapping[str, str]
    faults: tuple[Fault, ...]
    explain: Explain
    unit: str


def task(id: str, language: Language | str = SOURCE) -> Task:
    """Raises CourseError where there is no such exercise, or where it has no assignment."""
    own = exercise(id)
    data = written(id)
    code = language if isinstance(language, str) else language.code
    said = data if code == SOURCE else translate_data(data, catalog(code, f"exercise-{id}"), schema())
    return Task(
        exercise=id,
        rules=dict(said["rules"]),
        faults=faults(id),
        explain=Explain(question=said["explain"]["question"], criteria=dict(said["explain"]["criteria"])),
        unit=data.get("numbers", own.unit),
    )


@cache
def faults(id: str) -> tuple[Fault, ...]:
    """The faults of an exercise, in the order of its file."""
    solution = exercise(id).code("solution")
    plain = bare(solution)
    made = []
    for each in written(id)["faults"]:
        program = solution
        for old, new in each["changes"]:
            if old not in program:
                raise ValueError(f"{id}: fault {each['id']}: the solution has no {old!r}")
            program = program.replace(old, new)
        program = bare(program)
        made.append(
            Fault(
                id=each["id"], rule=each["rule"], program=program, lines=differing(plain, program), fails=each["fails"]
            )
        )
    return tuple(made)


@cache
def written(id: str) -> Any:
    """`assignment.yaml` as written."""
    path = FOLDER / id.replace("-", "_") / NAME
    if not path.is_file():
        raise CourseError("labs.no-assignment", exercise=id)
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of `assignment.yaml`."""
    loaded: Mapping[str, Any] = json.loads((FOLDER / "schema" / "assignment.schema.json").read_text(encoding="utf-8"))
    return loaded


def bare(code: str) -> str:
    """Python without comments and docstrings; what it does is the same."""
    lines = code.splitlines()
    emptied: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        match getattr(node, "body", None):
            case [ast.Expr(value=ast.Constant(value=str())) as first, _, *_]:
                emptied |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
            if not lines[row - 1]:
                emptied.add(row)
    kept = "\n".join(line for number, line in enumerate(lines, start=1) if number not in emptied)
    kept = re.sub(r":\n\n+(?= )", ":\n", kept)
    return re.sub(r"\n{4,}", "\n\n\n", kept).strip("\n") + "\n"


def differing(before: str, after: str) -> frozenset[int]:
    """The lines of `after` that are not as in `before`. Where lines are missing, that is the one before and the one
    after; where they moved, also those that they moved past.
    """
    old, new = before.splitlines(), after.splitlines()
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    written_on = [number for number, line in enumerate(new, start=1) if line.strip()]
    found: set[int] = set()
    for kind, first, last, start, end in steps:
        gone = [line for line in old[first:last] if line.strip()]
        moved = [each for each in steps if each[0] == "insert" and gone and {*gone} <= {*new[each[3] : each[4]]}]
        if kind in ("replace", "insert"):
            found |= {number for number in written_on if start < number <= end}
        elif moved:
            found |= {number for number in written_on if min(start, moved[0][3]) < number <= max(start, moved[0][4])}
        elif kind == "delete":
            found |= {*[number for number in written_on if number <= start][-1:]}
            found |= {*[number for number in written_on if number > start][:1]}
    return frozenset(found)
