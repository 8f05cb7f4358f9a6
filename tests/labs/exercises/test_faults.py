"""Every planted fault is one: the check of its exercise finds it where the data say so, and nothing gives it away."""

from __future__ import annotations

import ast
import tokenize
from io import StringIO

import pytest

from labs.exercises import authoring, exercise
from labs.exercises.content import ids
from labs.exercises.faults import bare, differing, faults, task
from translations import languages


@pytest.mark.parametrize("id", ids())
def test_each_fault_is_found_by_the_check_with_its_failure(id: str) -> None:
    assert list(authoring.faulty(exercise(id))) == []


@pytest.mark.parametrize("id", ids())
def test_an_exercise_has_four_faults_that_break_three_rules_and_one_rule_more(id: str) -> None:
    known = faults(id)
    broken = {each.rule for each in known}
    assert len(known) >= 4
    assert len(broken) >= 3
    assert len(task(id).rules) >= 4
    for each in known:
        lines = each.program.splitlines()
        assert all(1 <= line <= len(lines) and lines[line - 1].strip() for line in each.lines)
        assert len(each.lines) <= max(3, len(lines) // 4)


@pytest.mark.parametrize("id", ids())
def test_a_program_is_the_same_without_its_comments(id: str) -> None:
    for code in (exercise(id).code("solution"), *(exercise(id).code(version) for version in ("stub", "broken"))):
        told = bare(code)
        assert not any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(StringIO(told).readline))
        assert ast.dump(_undocumented(ast.parse(told))) == ast.dump(_undocumented(ast.parse(code)))
    for language in languages():
        solution = bare(exercise(id, language).code("solution"))
        assert solution == bare(exercise(id).code("solution"))


def test_lines_that_differ() -> None:
    before = "a\nb\n\nc\nd\ne\n"
    assert differing(before, before) == frozenset()
    assert differing(before, "a\nb\n\nC\nd\ne\n") == {4}
    assert differing(before, "a\nb\n\nd\ne\n") == {2, 4}
    assert differing(before, "a\nb\n\nc\nnew\nd\ne\n") == {5}
    assert differing(before, "a\nb\n\nd\nc\ne\n") == {4, 5}
    assert differing(before, "b\n\nc\nd\ne\n") == {1}


def _undocumented(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        match getattr(node, "body", None):
            case [ast.Expr(value=ast.Constant(value=str())), _, *_]:
                del node.body[0]  # type: ignore[attr-defined]
    return tree
