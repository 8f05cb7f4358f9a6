"""The pipeline's formulas against the papers' numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.pipeline import bubble, collectives, in_flight, message, micro_batches_for, slots, tied_bytes


# Narayanan et al. 2021, section 2.2: t_pb / t_id = (p - 1) / m, and (p - 1) / (v m) interleaved
@pytest.mark.parametrize(("p", "m", "v"), [(4, 8, 1), (8, 64, 1), (4, 8, 2), (12, 24, 3)])
def test_the_paper_divides_by_the_busy_time(p: int, m: int, v: int) -> None:
    name = "1f1b" if v == 1 else "interleaved"
    share = bubble(schedule=name, stages=p, micro_batches=m, chunks=v)
    assert share / (1 - share) == pytest.approx((p - 1) / (v * m))


def test_zero_bubble_is_a_third_of_1f1b_in_idle_slots() -> None:
    """Qi et al. 2023, section 2.3: (p - 1) (T_F + T_B - T_W) instead of (p - 1) (T_F + T_B + T_W)."""
    idle = {name: slots(schedule=name, stages=4, micro_batches=8) - 3 * 8 for name in ("1f1b", "zero-bubble")}
    assert idle == {"1f1b": 9, "zero-bubble": 3}


def test_interleaving_on_the_first_rank_holds_what_korthikanti_says() -> None:
    """Korthikanti et al. 2022, section 4.2.3: 1 + (p - 1) / (p v) times the activations of 1F1B."""
    p, v = 8, 4
    chunks = in_flight(schedule="interleaved", stages=p, micro_batches=64, chunks=v)
    assert chunks / v == pytest.approx(p * (1 + (p - 1) / (p * v)))


@given(p=st.integers(2, 64), share=st.floats(0.001, 0.9))
def test_the_fewest_micro_batches_for_a_bubble(p: int, share: float) -> None:
    m = micro_batches_for(stages=p, bubble=share)
    assert m >= p
    assert bubble(schedule="1f1b", stages=p, micro_batches=m) <= share + 1e-9
    if m > p:
        assert bubble(schedule="1f1b", stages=p, micro_batches=m - 1) > share


def test_a_stage_in_the_middle_has_two_neighbours() -> None:
    size = message(micro_batch=1, sequence=2048, hidden=14336)
    assert size == 58_720_256
    first, middle = (collectives(rank=i, stages=12, micro_batches=64, message=size, tied=10) for i in (0, 5))
    assert middle["send"].count == 2 * first["send"].count == 128
    assert first["all_reduce"].bytes == 20
    assert "all_reduce" not in middle


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="a schedule is one of"):
        bubble(schedule="dualpipe", stages=2, micro_batches=2)
    with pytest.raises(ValueError, match="3 micro-batches do not fill 4 stages"):
        bubble(schedule="1f1b", stages=4, micro_batches=3)
    with pytest.raises(ValueError, match="multiple of 4"):
        in_flight(schedule="interleaved", stages=4, micro_batches=6, chunks=2)
    with pytest.raises(ValueError, match="gpipe with 2 chunks"):
        in_flight(schedule="gpipe", stages=2, micro_batches=4, chunks=2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        micro_batches_for(stages=4, bubble=0)


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_a_tied_table_is_one_all_reduce_of_the_ranks_own_rows(tensor: int) -> None:
    moved = tied_bytes(vocabulary=256, hidden=128, tensor=tensor, precision="fp32")
    table = 256 * 128 * 4 // tensor
    sent = collectives(rank=0, stages=2, micro_batches=4, message=1, tied=table)["all_reduce"]
    assert moved == sent.bytes
