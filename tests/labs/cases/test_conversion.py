"""The small BLOOM in the words of Transformers: names, the order of queries, keys and values, and the lab."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cases.bloom import Bloom, BloomShape
from labs.cases.conversion import by_head, by_kind, from_transformers, names, to_transformers
from labs.cases.rows import rows_of
from labs.catalogue import run_lab
from translations import CourseError


@settings(deadline=None)
@given(heads=st.integers(1, 6), size=st.integers(1, 5), columns=st.integers(1, 4))
def test_rows_by_head_are_each_heads_three(heads: int, size: int, columns: int) -> None:
    rows = torch.arange(3 * heads * size * columns).view(3 * heads * size, columns)
    found = by_head(rows, heads=heads)
    for head in range(heads):
        for kind in range(3):
            start = (kind * heads + head) * size
            assert torch.equal(found[(head * 3 + kind) * size :][:size], rows[start : start + size])
    assert torch.equal(by_kind(found, heads=heads), rows)


def test_every_parameter_has_a_name_there_and_comes_back() -> None:
    shape = BloomShape(layers=2, hidden=24, heads=3)
    ours = dict(Bloom(shape).named_parameters())
    assert names(shape).keys() == ours.keys()
    theirs = to_transformers(ours, shape)
    assert len(theirs) == len(ours)
    back = from_transformers(theirs, shape)
    assert all(torch.equal(back[name], p) for name, p in ours.items())


SMALL: dict[str, Any] = {"layers": 3, "hidden": 32, "heads": 4, "sequence": 16, "steps": 2, "new_tokens": 8}


def test_without_transformers_the_lab_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labs.stacks.environment._installed", lambda _: False)
    with pytest.raises(CourseError, match="Transformers"):
        run_lab("bloom-conversion", **SMALL)


@pytest.mark.stacks
def test_a_checkpoint_of_eight_ranks_is_a_model_of_transformers() -> None:
    told = {row.name: row.value for row in rows_of(run_lab("bloom-conversion", **SMALL).data)}
    assert told["conversion-logits-apart"] < 1e-5  # Transformers' softmax is in fp32, and ALiBi is counted from 0
    assert told["conversion-logits-wrong-order"] > 1e-3
    assert told["conversion-tokens-equal"] == told["conversion-round-trip"] == 1
    assert told["accelerate-places-equal"] == told["accelerate-tokens-equal"] == 1
    assert told["accelerate-on-disk"] > 0
