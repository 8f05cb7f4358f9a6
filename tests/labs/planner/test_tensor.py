"""The formulas of tensor and sequence parallelism, against the papers' numbers and each other."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.model import GPT, VOCABULARY, Shape, parameter_count
from labs.planner.activations import layer
from labs.planner.tensor import Split, layer_traffic, padded_vocabulary, predict


def test_megatrons_vocabulary() -> None:
    assert padded_vocabulary(vocabulary=50257, ranks=8, multiple=128) == 51200


@settings(deadline=None)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 4),
    wide=st.integers(1, 4),
    sequence=st.integers(1, 9),
    tied=st.booleans(),
)
def test_one_rank_holds_the_whole_model(layers: int, heads: int, wide: int, sequence: int, tied: bool) -> None:
    with torch.device("meta"):
        model = GPT(Shape(layers=layers, hidden=heads * wide, heads=heads, sequence=sequence, tied=tied))
    split = Split(layers=layers, hidden=heads * wide, heads=heads, sequence=sequence, batch=1,
                  vocabulary=VOCABULARY, ranks=1, tied=tied)  # fmt: skip
    assert split.sharded + split.replicated == parameter_count(model)
    assert split.tensors == len(list(model.parameters()))


def a_split(*, ranks: int, sequence_parallel: bool, batch: int = 3) -> Split:
    return Split(layers=2, hidden=64, heads=8, sequence=16, batch=batch, vocabulary=256, ranks=ranks,
                 sequence_parallel=sequence_parallel)  # fmt: skip


@settings(deadline=None)
@given(ranks=st.sampled_from([1, 2, 4, 8]))
def test_activations_are_korthikantis_without_dropout_and_attention_weights(ranks: int) -> None:
    """Equations 2 and 4 count 3 bytes of dropout masks for each (B, S, D), 2 of them outside of attention, and the
    weights; ours has neither, and keeps a few numbers for each position instead.
    """
    for sequence_parallel in (False, True):
        split = a_split(ranks=ranks, sequence_parallel=sequence_parallel)
        sizes = {"sequence": 16, "batch": 3, "hidden": 64, "heads": 8}
        paper = layer(**sizes, tensor=ranks, sequence_parallel=sequence_parallel, recompute="selective")  # type: ignore[arg-type]
        masks = 2 * split.stream(1) / (ranks if sequence_parallel else 1)
        numbers = 4 * 3 * 16 * 2 / (ranks if sequence_parallel else 1) + 3 * 16 * 8 * 4 / ranks
        assert split.block(2) == paper - masks + numbers


@settings(deadline=None)
@given(ranks=st.sampled_from([2, 4, 8]), batch=st.integers(1, 5), micro_batches=st.integers(1, 4))
def test_a_layer_moves_four_all_reduces_or_ten_halves(ranks: int, batch: int, micro_batches: int) -> None:
    """An all-reduce counts as two halves. Sequence parallelism moves the same eight, and gathers two more in
    backward.
    """
    split = a_split(ranks=ranks, sequence_parallel=False, batch=batch)
    longer = replace(split, layers=3)
    one, two = (predict(each, micro_batches=micro_batches).traffic for each in (split, longer))
    link = layer_traffic(batch=batch, sequence=16, hidden=64, ranks=ranks) * ranks / (ranks - 1)
    assert two - one == micro_batches * 4 * link
    split = a_split(ranks=ranks, sequence_parallel=True, batch=batch)
    longer = replace(split, layers=3)
    one, two = (predict(each, micro_batches=micro_batches).traffic for each in (split, longer))
    norms = 2 * 4 * 6 * 64
    assert two - one == micro_batches * 4 * link * 10 / 8 + norms
