"""Whatever code a lesson shows, its comments and docstrings are among the texts that are translated."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from translations.sources import sources
from translations.wording import ROOT

LESSONS = sorted((ROOT / "lessons" / "en").glob("[0-9]*.ipynb"))
SHOWING = ("source", "difference")


def shown(notebook: Path) -> Iterator[tuple[str, Any]]:
    """Each definition that the lesson shows, by the expression that names it."""
    cells = nbformat.read(notebook, as_version=4).cells  # type: ignore[no-untyped-call]
    trees = [ast.parse(cell.source) for cell in cells if cell.cell_type == "code" and "%%" not in cell.source[:2]]
    names: dict[str, Any] = {}
    for statement in (each for tree in trees for each in tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            exec(compile(ast.Module([statement], []), str(notebook), "exec"), names)
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) in {f"course.{each}" for each in SHOWING}:
            for argument in call.args:
                yield ast.unparse(argument), eval(ast.unparse(argument), names)


@pytest.mark.parametrize("notebook", LESSONS, ids=lambda path: path.stem)
def test_shown_code_is_translated(notebook: Path) -> None:
    translated = {source.path for source in sources() if source.kind == "code"}
    found = list(shown(notebook))
    assert found, "every lesson shows its code"
    for name, thing in found:
        assert Path(inspect.getfile(inspect.unwrap(thing))) in translated, f"{name} is shown, but no text to translate"
