"""The exercise on FSDP's units by size: right as torch's own modules are wrapped, and every wrong answer told apart."""

from typing import Any

import pytest
from torch import nn

from labs.exercises import check, exercise
from labs.exercises.wrap_by_size import check as checker
from labs.exercises.wrap_by_size.solution import units
from labs.stacks.fsdp import by_size

LAST = "return [*made, left]"
TAKE = """        if sum(found.values()) >= least and path:
            made.append(found)
            return {}
"""
WRONG = [
    (LAST, "return (*made, left)", "shape/not-a-list", "tuple"),
    ('f"{path}{name}."', 'f"{path}{name}-"', "shape/other-name", "dots between them"),
    ("            return {}\n", "            return found\n", "once/twice", "gathered twice"),
    (LAST, "return made", "once/no-root", "the whole model, which is a unit too"),
    (LAST, "return [*made[1:], left]", "once/missing", "in exactly one"),
    ("sum(found.values()) >= least and path", "path", "size/too-small", "module around it"),
    (LAST, "return [*made, left] if left else made", "size/no-last", "where nothing is left"),
    (LAST, "return [*made[::-1], left]", "size/order", "from the leaves up"),
    (TAKE, TAKE.replace("and path", "and path.count('.') == 1"), "size/other", "in no unit yet"),
]


@pytest.mark.parametrize(("old", "new", "at", "says"), WRONG, ids=[each[2] for each in WRONG])
def test_wrong_answers(old: str, new: str, at: str, says: str) -> None:
    code = exercise("wrap-by-size").code("solution")
    assert old in code
    verdict = check("wrap-by-size", code.replace(old, new), "en")
    assert verdict.failed_at == at, verdict.message
    assert says in verdict.message


def tree(module: nn.Module) -> dict[str, Any]:
    """A module of torch as the exercise has it."""
    own = {name: p.numel() for name, p in module.named_parameters(recurse=False)}
    return own | {name: tree(child) for name, child in module.named_children()}


@pytest.mark.parametrize("least", [1, 40, 100, 300, 10_000])
def test_the_solution_makes_the_units_that_the_lab_wraps(least: int) -> None:
    layers = [
        nn.Sequential(nn.LayerNorm(6), nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))) for _ in "ab"
    ]
    model = nn.Sequential(nn.Embedding(20, 6), *layers, nn.LayerNorm(6), nn.Linear(6, 20))
    wrapped = by_size(model, least=least)
    taken: set[nn.Parameter] = set()
    for module, unit in zip(wrapped, units(tree(model), least), strict=False):
        own = [p for p in module.parameters() if p not in taken]
        taken.update(own)
        assert [p.numel() for p in own] == [*unit.values()]
    assert len(units(tree(model), least)) == len(wrapped) + 1


def test_both_ways_to_make_units_agree() -> None:
    for model, least in checker.QUESTIONS:
        assert units(dict(model), least) == checker.expected_units(model, least)
