"""What context and expert parallelism cost, as formulas beside closed forms of the papers and what strategies do."""

from __future__ import annotations

import pytest

from labs.planner import context, expert, zero
from labs.planner.models import model
from labs.planner.recomputed import facts


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 16])
def test_naive_ring_waits_as_the_closed_form_says(ranks: int) -> None:
    for rank in range(ranks):
        closed = 1 - (2 * rank + 1) / (2 * ranks - 1)
        assert context.wait(rank=rank, ranks=ranks, order="naive") == pytest.approx(closed, abs=1e-5)
        assert context.wait(rank=rank, ranks=ranks, order="zigzag") == 0
    assert context.lasts(ranks=ranks, order="naive") == pytest.approx((2 * ranks - 1) / ranks, abs=1e-5)
    assert context.lasts(ranks=ranks, order="zigzag") == 1


def test_what_was_measured_lies_near_the_formula_for_a_naive_ring() -> None:
    told = facts("pith_train")["ring"]
    assert told["waits_pct"] / 100 == pytest.approx(context.wait(rank=0, ranks=told["ranks"], order="naive"), abs=0.03)
    gained = told["naive_ms"] / told["zigzag_ms"]
    assert gained == pytest.approx(context.lasts(ranks=told["ranks"], order="naive"), rel=0.06)
    assert gained < context.lasts(ranks=told["ranks"], order="naive"), "what is not attention gains nothing"


def test_a_ring_sends_what_the_lab_counts_in_forward() -> None:
    sizes = {"sequence": 64, "hidden": 32, "ranks": 4, "batch": 2}
    moved = context.collectives(layers=1, order="zigzag", **sizes)["send"]
    forward = context.sent(way="ring", value=4, **sizes)
    gradients = forward * sizes["ranks"] / (sizes["ranks"] - 1)  # they go all the way home
    assert moved.bytes == 2 * forward + gradients


def test_heads_send_less_with_ranks_and_a_ring_does_not() -> None:
    sizes = {"sequence": 2**17, "hidden": 4096}
    ratio = {
        ranks: context.sent(way="ring", ranks=ranks, **sizes) / context.sent(way="heads", ranks=ranks, **sizes)
        for ranks in (2, 4, 8, 16)
    }
    assert ratio == {2: 1, 4: 2, 8: 4, 16: 8}
    shared = context.sent(way="ring", ranks=8, keys=512, **sizes) / context.sent(way="ring", ranks=8, **sizes)
    assert shared == 512 / 4096
    assert context.sent(way="gather", ranks=8, **sizes) == context.sent(way="ring", ranks=8, **sizes)
    assert context.held(way="gather", ranks=8, sequence=2**17, keys=512) == 4 * context.held(
        way="ring", ranks=8, sequence=2**17, keys=512
    )
    for asked in (context.sent, context.held):
        with pytest.raises(ValueError, match="star"):
            asked(way="star", sequence=8, ranks=2, **({"hidden": 4} if asked is context.sent else {"keys": 4}))


def test_a_turn_hides_its_message_from_the_paper_s_length_on() -> None:
    """Liu et al. 2023, section 3: without a mask, blocks of F / B positions and more."""
    assert context.hidden_from(rate=312e12, link=300e9, order="naive") == pytest.approx(312e12 / 300e9)
    assert context.hidden_from(rate=312e12, link=300e9) == 2 * 312e12 / 300e9
    assert context.hidden_from(rate=312e12, link=300e9, groups=16) == pytest.approx(2 * 312e12 / 300e9 / 16)


def test_balance_is_least_where_all_experts_get_the_same() -> None:
    assert expert.balance([0.25] * 4, [0.25] * 4) == 1
    assert expert.balance([1, 0, 0, 0], [1, 0, 0, 0]) == 4
    assert expert.balance([0.5, 0.5, 0, 0], [0.4, 0.4, 0.1, 0.1]) == pytest.approx(1.6)
    assert expert.overload([10, 10, 10, 10]) == 1
    assert expert.overload([40, 0, 0, 0]) == 4


def test_experts_are_counted_apart() -> None:
    shape = model("deepseek-v3")
    spread = expert.in_experts(shape)
    assert spread == 58 * 256 * 3 * 7168 * 2048
    assert expert.in_experts(model("gpt-3")) == 0
    held = expert.rank_states(dense=1000, experts=6400, spread=64, data=128, zero=1)
    whole = zero.model_states(parameters=1000, stage=1, ranks=128).total
    own = zero.model_states(parameters=100, stage=1, ranks=2).total
    assert held == whole + own
    with pytest.raises(ValueError, match="no part"):
        expert.rank_states(dense=1, experts=1, spread=3, data=4)
