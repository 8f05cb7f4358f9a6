"""A pipeline as it ran: its steps are told apart, and the bubble is the schedule's where slots take what it says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.strategies import schedules
from labs.telemetry.drawing.slots import slots_over_time
from labs.telemetry.rows import Slot
from labs.telemetry.slots import Cell, Timetable, bubble, parse, span
from translations import languages

LANGUAGES = [each.code for each in languages() if each.released]


def ran(planned: list[list[str | None]], *, steps: int = 2) -> Timetable:
    """A timetable of which each slot took exactly a second."""
    table = Timetable(len(planned))
    length = max(map(len, planned))
    for step in range(steps):
        for rank, row in enumerate(planned):
            for name in dict.fromkeys(slot for slot in row if slot is not None):
                start = step * length + row.index(name)
                table.take(rank, Slot(seconds=start, name=name, begins=True))
                table.take(rank, Slot(seconds=start + row.count(name), name=name, begins=False))
    return table


@given(ranks=st.integers(2, 5), micro_batches=st.integers(5, 9))
def test_the_measured_bubble_is_the_schedules_where_slots_are_alike(ranks: int, micro_batches: int) -> None:
    orders = [schedules.one_f_one_b(rank=rank, ranks=ranks, micro_batches=micro_batches) for rank in range(ranks)]
    planned = schedules.timetable(orders)
    whole = ran([[None if slot is None else str(slot) for slot in row] for row in planned]).whole
    assert whole is not None
    assert bubble(whole) == pytest.approx(schedules.bubble(planned))


PLANNED: list[list[str | None]] = [["F0", "F1", None, "B0", "B0"], [None, "F0", "B0", "B0", "F0@1"]]


def test_a_slot_that_comes_again_begins_a_step() -> None:
    table = ran(PLANNED, steps=3)
    assert table.number == 2
    assert [cell.name for cell in table.latest[1]] == ["F0", "B0", "F0@1"]
    assert table.latest == table.whole
    assert span(table.latest) == (10.0, 15.0)


def test_a_step_is_whole_when_all_its_slots_have_ended() -> None:
    table = ran(PLANNED, steps=1)
    assert table.whole is None, "nobody knows yet how many slots a step has"
    table.take(0, Slot(seconds=6.0, name="F0", begins=True))
    assert table.whole is None, "rank 1 may still have slots to run"
    table.take(1, Slot(seconds=7.0, name="F0", begins=True))
    assert table.whole == ran(PLANNED).step(0)
    table.take(0, Slot(seconds=8.0, name="F0", begins=False))
    assert table.whole == ran(PLANNED).step(0)
    assert [cell.end for cell in table.latest[1]] == [None]
    assert span(table.latest, now=9.0) == (6.0, 9.0)


def test_a_slot_that_ends_without_a_beginning_is_left_out() -> None:
    table = Timetable(1)
    table.take(0, Slot(seconds=1.0, name="F0", begins=False))
    assert table.latest == {0: []}
    assert span(table.latest) == (0.0, 0.0)
    assert bubble(table.latest) == 0.0


def test_names_of_slots() -> None:
    assert parse("W12@3") == ("W", 12, 3)
    assert Cell(kind="B", micro_batch=2, chunk=0, start=0.0, end=1.0).name == "B2"
    with pytest.raises(ValueError, match="'X1' names no slot"):
        parse("X1")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_picture_says_both_bubbles_and_each_ranks_slots(language: str) -> None:
    whole = ran(PLANNED).whole
    assert whole is not None
    figure = slots_over_time(whole, language=language, expected=0.3)
    plain = re.sub("[\u2066\u2069]", "", figure.alt)
    assert "20%" in plain
    assert "30%" in plain
    assert "F0 F1 B0" in plain
    assert "F0 B0 F0@1" in plain
    assert figure.markup.count(">F0<") == 3
    assert "<details" in figure.html
    assert "<details" not in figure.document


def test_a_step_under_way_claims_no_bubble_and_much_idleness_is_explained() -> None:
    table = ran(PLANNED, steps=1)
    table.take(0, Slot(seconds=6.0, name="F0", begins=True))
    assert "idle for" not in slots_over_time(table.latest, language="en", now=6.5).alt.split(".")[0]
    whole = ran(PLANNED).whole
    assert whole is not None
    assert "slow motion" in slots_over_time(whole, language="en", expected=0.05).alt.lower()
    assert "slow motion" not in slots_over_time(whole, language="en", expected=0.15).alt.lower()
    assert "not begun" in slots_over_time(Timetable(2).latest, language="en").alt
