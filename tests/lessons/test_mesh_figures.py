"""The figures of a mesh name every rank, and say in words which groups there are, in every language."""

from __future__ import annotations

import pytest

from labs.strategies.layout import Layout
from lessons.figures import bubble_by_copies, on_machines, on_ranks
from lessons.figures.meshes import groups_of
from translations import Language, language, languages


@pytest.mark.parametrize("each", languages(), ids=lambda each: each.code)
def test_groups_stand_in_the_alternative_text(each: Language) -> None:
    inside = on_machines({"pipeline": 2, "data": 2, "tensor": 2}, node=4, title="a title")(each)
    turned = on_machines({"tensor": 2, "data": 2, "pipeline": 2}, node=4, title="a title")(each)
    assert "0, 4; 1, 5; 2, 6; 3, 7" in inside.alt
    assert inside.markup.count("<line") == turned.markup.count("<line")
    assert inside.markup.count('stroke-dasharray="4 3"') == 4 + 1  # four groups cross, and the legend


def test_groups_are_those_of_the_layout() -> None:
    layout = Layout(pp=2, dp=3, tp=2)
    places = [tuple(layout.coordinates(rank)[axis] for axis in ("pipeline", "data", "tensor")) for rank in range(12)]
    for place, axis in enumerate(("pipeline", "data", "tensor")):
        assert groups_of(places, place) == layout.groups(axis)


def test_each_copy_shows_its_own_ranks() -> None:
    drawn = on_ranks(Layout(dp=2, pp=2, tp=2), layers=5, title="a title")(language("en"))
    assert all(f">rank {rank}<" in drawn.markup for rank in range(8))


def test_both_lines_of_the_bubble_meet_in_the_layout_that_is_kept() -> None:
    drawn = bubble_by_copies(batch=1024, stages=96, copies=[2, 4, 8, 16, 32], at=8, title="a title")(language("en"))
    row = drawn.table.split("<tr>")[4]  # the head, 2, 4, 8 copies
    assert row.count("7.9%") == 2
