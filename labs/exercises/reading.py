"""What can be said of a student's file without running it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from labs.exercises.content import Exercise
from translations import CourseError

LIMIT = 200_000
"""Bytes of a file that is looked at."""
_MAGIC = re.compile(r"\s*%%exercise\s+(\S+)[^\n]*")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_of(given: str | Path) -> str:
    """Source text as it is, or a file's. Raises CourseError where there is no such file or it is no text."""
    if isinstance(given, str):
        return given
    try:
        if given.stat().st_size > LIMIT:
            raise CourseError("labs.check-too-large", limit=LIMIT)
        return given.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CourseError("labs.check-not-text", file=given.name) from None
    except OSError as error:
        raise CourseError("labs.check-no-file", file=str(given), detail=error.strerror or "") from None


def prepared(source: str, exercise: Exercise) -> str:
    """The source as Python: a first line `%%exercise ID` is emptied, so that lines keep their numbers.

    Raises CourseError for what no run is needed to see: no Python, another exercise's cell, a name or parameter that is
    missing.
    """
    if len(source.encode("utf-8", "replace")) > LIMIT:
        raise CourseError("labs.check-too-large", limit=LIMIT)
    if magic := _MAGIC.match(source):
        if magic[1] != exercise.id:
            raise CourseError("labs.check-other-exercise", found=magic[1], exercise=exercise.id)
        source = "\n" * magic[0].count("\n") + source[magic.end() :]
    tree = parsed(source)
    if not any(not is_docstring(statement) for statement in tree.body):
        raise CourseError("labs.check-empty", name=exercise.name)
    names = set(bound(tree.body))
    if exercise.name not in names and "*" not in names:
        raise CourseError("labs.check-no-such-name", name=exercise.name)
    expected = definition(ast.parse((exercise.folder / "stub.py").read_text(encoding="utf-8")).body, exercise.name)
    found = definition(tree.body, exercise.name)
    if found is not None and expected is not None:
        compare(found, expected)
    return source


def parsed(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        lines = source.splitlines()
        number = error.lineno or 1
        line = lines[number - 1].strip()[:120] if number <= len(lines) else ""
        raise CourseError("labs.check-syntax", line=number, detail=error.msg, code=line) from None
    except (ValueError, RecursionError, MemoryError, UnicodeError):
        raise CourseError("labs.check-not-python") from None


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that running these statements may define."""
    for statement in body:
        if isinstance(statement, ast.ClassDef | Function):
            yield statement.name
            continue
        for node in ast.iter_child_nodes(statement):
            if isinstance(node, ast.alias):
                yield node.asname or node.name
            elif isinstance(node, ast.ExceptHandler | ast.match_case):
                yield from bound(node.body)
            elif isinstance(node, ast.stmt):
                yield from bound([node])
            else:
                yield from (
                    each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                )


def definition(body: Iterable[ast.stmt], name: str) -> ast.ClassDef | Function | None:
    """The last plain definition of this name at the top of the file."""
    found = [each for each in body if isinstance(each, ast.ClassDef | Function) and each.name == name]
    return found[-1] if found else None


def compare(found: ast.ClassDef | Function, expected: ast.ClassDef | Function) -> None:
    """Raises CourseError where what was written cannot be called as the stub can."""
    if isinstance(expected, ast.ClassDef):
        if not isinstance(found, ast.ClassDef):
            raise CourseError("labs.check-not-a-class", name=expected.name)
        own = {each.name: each for each in found.body if isinstance(each, Function)}
        for method in (each for each in expected.body if isinstance(each, Function)):
            if method.name in own:
                compare(own[method.name], method)
            elif not found.bases:
                raise CourseError("labs.check-no-such-method", name=expected.name, method=method.name)
    elif isinstance(found, ast.ClassDef):
        return
    elif isinstance(found, ast.AsyncFunctionDef):
        raise CourseError("labs.check-async", name=found.name)
    elif not callable_as(found.args, expected.args):
        raise CourseError("labs.check-signature", signature=f"def {expected.name}({ast.unparse(expected.args)})")


def callable_as(found: ast.arguments, expected: ast.arguments) -> bool:
    """Whether a call that fits `expected` fits `found`: positions by number, keywords by name."""
    positions = len(expected.posonlyargs) + len(expected.args)
    own = [*found.posonlyargs, *found.args]
    keywords = {each.arg for each in expected.kwonlyargs}
    taken = {each.arg for each in own[positions:]} | {each.arg for each in found.kwonlyargs}
    if len(own) < positions and found.vararg is None:
        return False
    if keywords - taken and found.kwarg is None:
        return False
    needed = {each.arg for each in own[positions : len(own) - len(found.defaults)]}
    needed |= {each.arg for each, default in zip(found.kwonlyargs, found.kw_defaults, strict=True) if default is None}
    return len(own) - len(found.defaults) <= positions + len(needed & keywords) and needed <= keywords
