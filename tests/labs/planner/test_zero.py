"""The formulas: the paper's table comes out, and what must never happen does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.compute import training_years
from labs.planner.zero import PRECISIONS, Piece, model_states, predict, traffic

ranks_of = st.integers(1, 64)
precisions = st.sampled_from(sorted(PRECISIONS))
pieces_of = st.lists(
    st.builds(Piece, trained=st.integers(1, 10_000), frozen=st.integers(0, 5_000)), min_size=1, max_size=8
)


# Rajbhandari et al. 2020, table 1: GB of model states a device, 7.5 billion parameters (GB = 10^9 bytes)
@pytest.mark.parametrize(
    ("ranks", "stage", "published"),
    [
        *[(1, 0, 120), (4, 1, 52.5), (16, 1, 35.6), (64, 1, 31.4), (256, 1, 30.4), (1024, 1, 30.1)],
        *[(4, 2, 41.3), (16, 2, 21.6), (64, 2, 16.6), (256, 2, 15.4), (1024, 2, 15.1)],
        *[(4, 3, 30), (16, 3, 7.5), (64, 3, 1.88), (256, 3, 0.47), (1024, 3, 0.12)],
    ],
)
def test_table_1_of_the_paper(ranks: int, stage: int, published: float) -> None:
    total = model_states(parameters=7_500_000_000, stage=stage, ranks=ranks).total / 1e9
    digits = len(str(published).partition(".")[2])
    assert abs(total - published) <= 0.51 * 10**-digits


@given(parameters=st.integers(1, 10**12), ranks=ranks_of, precision=precisions)
def test_a_higher_stage_never_holds_more(parameters: int, ranks: int, precision: str) -> None:
    totals = [model_states(parameters=parameters, stage=s, ranks=ranks, precision=precision).total for s in range(4)]
    assert totals == sorted(totals, reverse=True)
    if ranks == 1:
        assert len(set(totals)) == 1


@given(parameters=st.integers(1, 10**12), stage=st.integers(0, 3), ranks=ranks_of)
def test_more_ranks_never_hold_more(parameters: int, stage: int, ranks: int) -> None:
    few, many = (model_states(parameters=parameters, stage=stage, ranks=n).total for n in (ranks, ranks + 1))
    assert many <= few


@given(pieces=pieces_of, ranks=ranks_of, precision=precisions, stage=st.integers(0, 3), k=st.integers(1, 5))
def test_exact_bytes_are_the_formula_plus_padding_and_counters(
    pieces: list[Piece], ranks: int, precision: str, stage: int, k: int
) -> None:
    """Padding adds less than N elements a unit, and Adam's counter 4 bytes a unit; traffic likewise."""
    prediction = predict(pieces, stage=stage, ranks=ranks, precision=precision, micro_batches=k)
    trained, frozen = sum(p.trained for p in pieces), sum(p.frozen for p in pieces)
    cost = PRECISIONS[precision]
    shard = [ranks if stage >= level else 1 for level in (3, 2, 1)]
    ideal = cost.parameter * (trained + frozen) / shard[0]
    ideal += trained * (cost.gradient / shard[1] + cost.optimizer_states / shard[2])
    slack = 2 * len(pieces) * (ranks * cost.total + 4)
    assert ideal <= prediction.states.total <= ideal + slack

    if not frozen:
        moved = traffic(parameters=trained, stage=stage, precision=precision, micro_batches=k)
        assert moved <= prediction.traffic <= moved + len(pieces) * ranks * cost.parameter * 3 * k


def test_units_that_divide_need_no_padding() -> None:
    prediction = predict([Piece(trained=8), Piece(trained=12)], stage=3, ranks=4, precision="bf16")
    assert (prediction.states.parameters, prediction.states.gradients) == (10, 10)
    assert prediction.states.optimizer_states == 12 * 5 + 2 * 4
    assert prediction.traffic == 6 * 20


def test_a_tied_weight_is_gathered_for_both_its_users() -> None:
    tied = predict([Piece(trained=8), Piece(trained=4, borrows=0)], stage=3, ranks=4, precision="bf16")
    assert tied.traffic == traffic(parameters=12, tied=8, stage=3) == 6 * 12 + 4 * 8


@pytest.mark.parametrize(("stage", "ranks"), [(4, 2), (-1, 2), (1, 0)])
def test_what_does_not_exist_is_refused(stage: int, ranks: int) -> None:
    with pytest.raises(ValueError, match=r"stages 0 to 3|at least one rank"):
        model_states(parameters=10, stage=stage, ranks=ranks)


def test_years_of_gpt3_on_one_v100() -> None:
    """Narayanan et al. 2021, introduction: about 288 years for 175 billion parameters on one V100 (300 billion
    tokens).
    """
    years = training_years(parameters=175e9, tokens=300e9, peak_flops=125e12, utilization=0.28)
    assert 270 < years < 300
