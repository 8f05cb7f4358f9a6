"""The exercises as a sandbox shows them: what asks, without what knows the answer.

A rank in a sandbox needs a check's `work`, its cases, and what those reach. What compares, the twin that trains in one
process, and the tables of right answers stay outside, so that a submission can't call them and hand in their result.
Lines keep their numbers. The published solutions, faded and broken versions and the stubs are not there at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from labs.exercises.content import FOLDER, ids

ROOTS = ("CASES", "work")
"""What a rank asks of a check."""
HARNESS = ("__init__", "checking", "confined", "content", "in_rank", "reading", "trial", "verdict")
"""Modules that run ranks: they know no exercise."""


@cache
def files() -> Mapping[str, str]:
    """The text of every file that ranks need of `labs/exercises`, by its path in there."""
    checks = {f"{id.replace('-', '_')}/check.py" for id in ids()}
    told = {name: reduced(_text(name), ROOTS) for name in sorted(checks)}
    told |= {f"{name}.py": _text(f"{name}.py") for name in HARNESS}
    waiting = {path.stem for path in FOLDER.glob("*.py")} - {*HARNESS}
    while needed := {name: roots for name in waiting if (roots := set(_uses(told.values(), name)))}:
        # Of two that need each other the first would miss what the second asks; tests hold that there are none.
        told |= {f"{name}.py": reduced(_text(f"{name}.py"), roots) for name, roots in needed.items()}
        waiting -= {*needed}
    return {name.replace("check.py", "__init__.py"): "" for name in checks} | told


def reduced(source: str, roots: Iterable[str]) -> str:
    """A module with the definitions that these names reach, and empty lines in place of all others."""
    tree = ast.parse(source)
    made: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _made(statement):
            made.setdefault(name, []).append(statement)
    waiting = {*roots, *(name for each in tree.body if not list(_made(each)) for name in _names(each))}
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= {used for each in made.get(name, ()) for used in _names(each)} - reached
    lines = source.splitlines()
    for statement in tree.body:
        names = list(_made(statement))
        if not names or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            continue
        kept = ""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            statement.names = [each for each in statement.names if _bound(each) in reached]
            kept = ast.unparse(statement) if statement.names else ""
        elif not reached.isdisjoint(names):
            continue
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        last = statement.end_lineno or first
        lines[first - 1 : last] = [kept, *[""] * (last - first)]
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _made(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a module defines."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from map(_bound, names)


def _names(node: ast.AST) -> Iterator[str]:
    """The names that are read somewhere in there, but for a function's own."""
    own = set[str]()
    if isinstance(node, ast.FunctionDef):
        own = {each.id for each in _inside(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in _names(child) if name not in own)
    if isinstance(node, ast.Name):
        yield node.id


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What belongs to a function, and not to one within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _uses(texts: Iterable[str], module: str) -> Iterator[str]:
    """The names of a module beside the harness that these texts use."""
    for text in texts:
        tree = ast.parse(text)
        called = {
            alias.asname or module
            for each in ast.walk(tree)
            if isinstance(each, ast.ImportFrom) and each.module == "labs.exercises"
            for alias in each.names
            if alias.name == module
        }
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=found, names=names) if found == f"labs.exercises.{module}":
                    yield from (alias.name for alias in names)
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in called:
                    yield attribute
