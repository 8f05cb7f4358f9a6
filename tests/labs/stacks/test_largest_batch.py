"""The search for the largest micro-batch that fits: exact as a search, and in the order of the stages as a lab."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.cases.rows import rows_of
from labs.catalogue import checked, run_lab
from labs.planner.zero import predict
from labs.stacks.largest_batch import largest_batch
from tests.labs.stacks.pieces import pieces_of_shape
from translations import CourseError

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "sequence": 16}


@given(fixed=st.integers(0, 1000), each=st.integers(1, 50), budget=st.integers(0, 2000), most=st.integers(1, 60))
def test_the_search_finds_the_last_that_fits_and_tries_few(fixed: int, each: int, budget: int, most: int) -> None:
    found = largest_batch(lambda batch: fixed + each * batch, budget=budget, most=most)
    assert found.micro_batch == max(0, min(most, (budget - fixed) // each))
    assert len(found.peaks) <= 2 * most.bit_length() + 1
    assert found.peaks == {batch: fixed + each * batch for batch in found.peaks}


def test_the_more_is_sharded_the_larger_the_batch() -> None:
    run = run_lab("largest-batch", ranks=2, budget=1.0, **SMALL)
    found: dict[str, Any] = run.data["found"]
    largest = [each["micro_batch"] for each in found.values()]
    assert list(found) == ["ddp", "zero-1", "zero-2", "zero-3", "fsdp2"]
    assert 0 < largest[0] < largest[1] <= largest[2] <= largest[3] <= largest[4]
    for each in found.values():
        peaks = {int(batch): size for batch, size in each["peaks"].items()}
        assert peaks[each["micro_batch"]] <= 1_000_000 < peaks[each["micro_batch"] + 1]
    pieces = pieces_of_shape(**SMALL)
    for name, stage in (("zero-1", 1), ("zero-2", 2), ("zero-3", 3)):
        assert found[name]["states"] == predict(pieces, stage=stage, ranks=2).states.total
    assert [row.value for row in rows_of(run.data)][:5] == largest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 0.0}, "above zero"),
        ({"budget": float("nan")}, "above zero"),
        ({"most": 0}, "most"),
        ({"strategy": "zero-4"}, "zero-4"),
        ({"precision": "bf16"}, "bf16"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        checked("largest-batch", options, ranks=2)
