"""What holds for every schedule: each micro-batch passes each stage once, in a legal order; the bubble and what is in
flight are the formulas'; nobody waits for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.planner import pipeline as planner
from labs.strategies.messages import Receive, Send, Step, deadlock, programs
from labs.strategies.schedules import (
    SCHEDULES,
    Action,
    Kind,
    Order,
    bubble,
    in_flight,
    layers_of,
    one_f_one_b,
    schedule,
    timetable,
)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(SCHEDULES))
    ranks = draw(st.integers(2 if name == "interleaved" else 1, 8))
    if name == "interleaved":
        return {
            "name": name,
            "ranks": ranks,
            "micro_batches": ranks * draw(st.integers(1, 3)),
            "chunks": draw(st.integers(2, 4)),
        }
    return {"name": name, "ranks": ranks, "micro_batches": ranks + draw(st.integers(0, 12)), "chunks": 1}


def orders_of(shape: dict[str, Any]) -> list[Order]:
    return schedule(**shape)


def formula_of(shape: dict[str, Any]) -> dict[str, Any]:
    return {
        "schedule": shape["name"],
        "stages": shape["ranks"],
        "micro_batches": shape["micro_batches"],
        "chunks": shape["chunks"],
    }


@given(shape=shapes())
def test_every_micro_batch_passes_every_stage_once(shape: dict[str, Any]) -> None:
    kinds: list[Kind] = ["F", "B", "W"] if shape["name"] == "zero-bubble" else ["F", "B"]
    m, v = shape["micro_batches"], shape["chunks"]
    for order in orders_of(shape):
        assert Counter(order) == Counter(
            Action(kind, k, chunk) for kind in kinds for k in range(m) for chunk in range(v)
        )


@given(shape=shapes())
def test_the_timetable_keeps_the_rules(shape: dict[str, Any]) -> None:
    orders = orders_of(shape)
    table, ranks = timetable(orders), len(orders)
    last = ranks * shape["chunks"] - 1
    begin: dict[tuple[str, int, int], int] = {}
    end: dict[tuple[str, int, int], int] = {}
    for rank, (row, order) in enumerate(zip(table, orders, strict=True)):
        slots = [action for action in row if action is not None]
        assert list(dict.fromkeys(slots)) == order, "a rank does what its order says, one thing after the other"
        for slot, action in enumerate(row):
            if action is not None:
                key = action.kind, action.chunk * ranks + rank, action.micro_batch
                begin.setdefault(key, slot)
                end[key] = slot + 1
    for (kind, stage, k), start in begin.items():
        if kind == "F" and stage > 0:
            assert start >= end["F", stage - 1, k]
        if kind == "B":
            assert start >= end["F", stage, k]
            assert stage == last or start >= end["B", stage + 1, k]
            assert end["B", stage, k] - start == (1 if shape["name"] == "zero-bubble" else 2)
        if kind == "W":
            assert start >= end["B", stage, k]
            assert end["W", stage, k] == start + 1


@given(shape=shapes())
def test_bubble_length_and_in_flight_are_the_formulas(shape: dict[str, Any]) -> None:
    orders, formula = orders_of(shape), formula_of(shape)
    table = timetable(orders)
    assert bubble(table) == pytest.approx(planner.bubble(**formula), abs=1e-12)
    assert {len(row) for row in table} == {planner.slots(**formula)}
    for rank, order in enumerate(orders):
        assert in_flight(order) == planner.in_flight(rank=rank, **formula)


@settings(max_examples=60)
@given(shape=shapes())
def test_nobody_waits_for_ever_even_if_every_send_waits(shape: dict[str, Any]) -> None:
    told = programs(orders_of(shape))
    assert deadlock(told, sends_wait=True) == {}
    assert deadlock(told, sends_wait=False) == {}


@given(shape=shapes())
def test_between_two_ranks_both_sides_have_the_same_messages_in_the_same_order(shape: dict[str, Any]) -> None:
    """What NCCL asks for: it knows no tags, and does the calls between two ranks one after the other."""
    told = programs(orders_of(shape))
    last = len(told) * shape["chunks"] - 1
    sent = {}
    for i, program in enumerate(told):
        for j in range(len(told)):
            sent[i, j] = [
                ("to", step.action) if isinstance(step, Send) else ("from", step.action)
                for step in program
                if (isinstance(step, Send) and step.to == j) or (isinstance(step, Receive) and step.source == j)
            ]
    for (i, j), mine in sent.items():
        theirs = sent[j, i]
        assert len(mine) == len(theirs)
        for (here, action), (there, other) in zip(mine, theirs, strict=True):
            assert {here, there} == {"to", "from"}
            assert action is not None
            assert other is not None
            assert (action.kind, action.micro_batch) == (other.kind, other.micro_batch)
            step = 1 if (action.kind == "F") == (here == "to") else -1
            assert other.chunk * len(told) + j == action.chunk * len(told) + i + step <= last


def test_one_f_one_b_as_the_paper_draws_it() -> None:
    """Narayanan et al. 2021, figure 3 on four devices, device 1 (counted from 0)."""
    order = one_f_one_b(rank=1, ranks=4, micro_batches=8)
    drawn = "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7"
    assert sorted(map(str, order)) == sorted(drawn.split())
    assert " ".join(map(str, order)) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7"


@pytest.mark.parametrize(
    ("name", "ranks", "micro_batches", "chunks", "says"),
    [
        ("1f1b", 4, 3, 1, "3 micro-batches never fill a pipeline of 4 stages"),
        ("interleaved", 4, 6, 2, "groups of 4: 6 is no multiple"),
        ("gpipe", 2, 4, 2, "gpipe has one chunk a rank"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(
    name: str, ranks: int, micro_batches: int, chunks: int, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        schedule(name, ranks=ranks, micro_batches=micro_batches, chunks=chunks)


def test_orders_that_wait_for_each_other_are_refused_with_where_they_stand() -> None:
    def order(*names: str) -> Order:
        return [Action(name[0], int(name[1:])) for name in names]  # type: ignore[arg-type]

    odd = [order("F0", "F1", "B1", "B0"), order("F1", "B1", "F0", "B0")]
    assert bubble(timetable(odd)) > 0, "an odd order may still be legal"
    with pytest.raises(ValueError, match="rank 0 waits before B0, rank 1 waits before F1"):
        timetable([order("F0", "B0", "F1", "B1"), order("F1", "B1", "F0", "B0")])
    with pytest.raises(ValueError, match="rank 0 waits before B1"):
        timetable([order("F0", "F1", "B0", "B1"), order("F0", "F1", "B0")])


@given(stages=st.integers(1, 16), more=st.integers(0, 64))
def test_every_layer_is_on_one_stage(stages: int, more: int) -> None:
    counts = layers_of(layers=stages + more, stages=stages)
    assert len(counts) == stages
    assert sum(counts) == stages + more
    assert max(counts) - min(counts) <= 1
    assert counts[-1] <= counts[0], "the last stage also has the head"


def test_thirty_layers_on_four_stages_stay_thirty() -> None:
    assert layers_of(layers=30, stages=4) == [7, 8, 8, 7]
    assert layers_of(layers=5, stages=2) == [3, 2]


def test_fewer_layers_than_stages_are_refused() -> None:
    with pytest.raises(ValueError, match="3 layers do not fill 4 stages"):
        layers_of(layers=3, stages=4)


# --- the deadlock finder


def test_both_send_first_which_only_small_messages_survive() -> None:
    both_send: list[list[Step]] = [[Send(1), Receive(1)], [Send(0), Receive(0)]]
    assert deadlock(both_send, sends_wait=True) == {0: Send(1), 1: Send(0)}
    assert deadlock(both_send, sends_wait=False) == {}


def test_both_receive_first_which_nothing_survives() -> None:
    both_receive: list[list[Step]] = [[Receive(1), Send(1)], [Receive(0), Send(0)]]
    for sends_wait in (True, False):
        assert deadlock(both_receive, sends_wait=sends_wait) == {0: Receive(1), 1: Receive(0)}


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_three_repairs_of_a_ring(ranks: int) -> None:
    def after(i: int) -> int:
        return (i + 1) % ranks

    def before(i: int) -> int:
        return (i - 1) % ranks

    all_send: list[list[Step]] = [[Send(after(i)), Receive(before(i))] for i in range(ranks)]
    by_order: list[list[Step]] = [[Receive(before(0)), Send(after(0))], *all_send[1:]]
    by_batch: list[list[Step]] = [[(Send(after(i)), Receive(before(i)))] for i in range(ranks)]
    by_parity = [step if i % 2 else step[::-1] for i, step in enumerate(all_send)]
    assert set(deadlock(all_send)) == set(range(ranks))
    assert deadlock(by_order) == deadlock(by_batch) == deadlock(by_parity) == {}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] != pair[1]), max_size=30))
def test_messages_in_one_order_of_time_always_arrive(pairs: list[tuple[int, int]]) -> None:
    told: list[list[Step]] = [[] for _ in range(5)]
    for source, to in pairs:
        told[source].append(Send(to))
        told[to].append(Receive(source))
    assert deadlock(told) == {}


def test_a_message_that_nobody_sends_is_waited_for() -> None:
    assert deadlock([[Receive(1)], []], sends_wait=False) == {0: Receive(1)}
