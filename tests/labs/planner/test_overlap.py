"""What overlap hides: never more than there is, never slower than without, and on the critical path exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.overlap import (
    backward_with_reduction,
    buckets_of,
    communication_peak,
    hidden_share,
    ring_bytes,
    seconds_on_link,
)
from labs.planner.zero import Piece, predict

seconds = st.just(0.0) | st.floats(1e-3, 10)  # far below a thousandth of the sum only its rounding would be left
units_of = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8)
pieces_of = st.lists(st.builds(Piece, trained=st.integers(1, 1000), frozen=st.integers(0, 500)), min_size=1, max_size=8)


def test_a_ring_sends_both_halves_of_an_all_reduce() -> None:
    assert ring_bytes("all_reduce", buffer=100, ranks=4) == 150
    assert ring_bytes("all_gather", buffer=100, ranks=4) == ring_bytes("reduce_scatter", buffer=100, ranks=4) == 75
    assert ring_bytes("all_reduce", buffer=100, ranks=1) == 0
    assert seconds_on_link("all_gather", buffer=100, ranks=2, bandwidth=10) == 5


def test_backward_by_hand() -> None:
    """Units of 2 s; reductions of 1 s hide but the last, reductions of 3 s follow each other."""
    assert backward_with_reduction([2, 2, 2], [1, 1, 1]) == 7
    assert backward_with_reduction([2, 2, 2], [3, 3, 3]) == 11
    assert backward_with_reduction([2, 2, 2], [1, 1, 1], overlapped=False) == 9
    assert hidden_share([2, 2, 2], [1, 1, 1]) == pytest.approx(2 / 3)
    assert hidden_share([2, 2], [0, 0]) == 1


@given(units=units_of)
def test_overlap_is_between_the_longer_of_both_and_their_sum(units: list[tuple[float, float]]) -> None:
    computing, reducing = [each for each, _ in units], [each for _, each in units]
    spent = backward_with_reduction(computing, reducing)
    assert max(sum(computing), sum(reducing)) - 1e-9 <= spent <= sum(computing) + sum(reducing) + 1e-9
    assert -1e-9 <= hidden_share(computing, reducing) <= 1 + 1e-9


@given(
    pieces=pieces_of,
    ranks=st.integers(1, 8),
    stage=st.sampled_from((2, 3)),
    ahead=st.integers(0, 3),
    buckets=st.integers(1, 3),
)
def test_more_in_flight_never_holds_less(pieces: list[Piece], ranks: int, stage: int, ahead: int, buckets: int) -> None:
    def peak(ahead: int, buckets: int) -> int:
        return communication_peak(pieces, stage=stage, ranks=ranks, ahead=ahead, buckets=buckets)

    assert peak(ahead, buckets) <= peak(ahead + 1, buckets)
    assert peak(ahead, buckets) <= peak(ahead, buckets + 1)
    assert peak(ahead, buckets) >= predict(pieces, stage=stage, ranks=ranks).communication
    whole = sum(-(-size // ranks) * ranks for piece in pieces for size in (piece.trained, piece.frozen))
    assert peak(ahead, buckets) <= 2 * 4 * whole


@given(pieces=pieces_of, ranks=st.integers(1, 8), bucket=st.integers(0, 20_000))
def test_buckets_move_all_gradients_once(pieces: list[Piece], ranks: int, bucket: int) -> None:
    each = buckets_of(pieces, ranks=ranks)
    assert len(each) == len(pieces)
    assert 2 * sum(each) == predict(pieces, stage=0, ranks=ranks).traffic
    together = buckets_of(pieces, ranks=ranks, bucket=bucket)
    assert sum(together) == sum(each)
    assert all(size >= bucket for size in together[:-1])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: ring_bytes("broadcast", buffer=1, ranks=2), KeyError, "broadcast"),
        (lambda: ring_bytes("all_reduce", buffer=1, ranks=0), ValueError, "at least one rank"),
        (lambda: seconds_on_link("all_reduce", buffer=1, ranks=2, bandwidth=0), ValueError, "above zero"),
        (lambda: backward_with_reduction([1], [1, 2]), ValueError, "each unit"),
        (lambda: communication_peak([Piece(trained=1)], stage=2, ranks=1, buckets=0), ValueError, "one bucket"),
    ],
)
def test_wrong_use_says_what_is_wrong(call: object, error: type[Exception], said: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=said):
        call()
