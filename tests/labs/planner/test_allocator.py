"""Reserved follows the worst moment and never falls; a free block is given out again, and cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labs.planner.allocator import Allocator, told


def test_half_is_free_and_a_request_still_needs_new_memory() -> None:
    assert told([("six", [10] * 6, []), ("every second", [], [10] * 3), ("a double", [20], []), ("all", [], [20])]) == [
        ("six", 60, 60),
        ("every second", 30, 60),
        ("a double", 50, 80),
        ("all", 30, 80),
    ]


def test_a_freed_block_is_cut_and_its_rest_given_out() -> None:
    memory = Allocator()
    memory.take(30)
    memory.give_back(30)
    memory.take(20)
    memory.take(10)
    assert (memory.allocated, memory.reserved, memory.free) == (30, 30, [])


@given(st.lists(st.integers(-20, 20).filter(bool), max_size=40))
def test_what_is_reserved_is_what_is_allocated_and_what_is_free(sizes: list[int]) -> None:
    memory, held, before = Allocator(), list[int](), 0
    for size in sizes:
        if size > 0:
            memory.take(size)
            held.append(size)
        elif held:
            memory.give_back(held.pop(size % len(held)))
        assert memory.allocated == sum(held)
        assert memory.reserved == memory.allocated + sum(memory.free) >= before
        before = memory.reserved
