"""Each alarm finds what it is for, names the rank, and stays silent over what is ordinary."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.strategies.alarms import bad_gradient, loss_spike, parted_replica, straggler

RANKS = st.integers(3, 64)
SEEDS = st.integers(0, 2**31 - 1)


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- a straggler


@given(ranks=RANKS, seed=SEEDS, factor=st.floats(2.5, 100))
def test_a_rank_that_is_slow_in_each_of_three_steps_is_named(ranks: int, seed: int, factor: float) -> None:
    seconds = 0.5 + 0.1 * noise(seed, 5, ranks)
    culprit = seed % ranks
    seconds[-3:, culprit] *= factor
    assert straggler(seconds) == culprit


@given(ranks=RANKS, seed=SEEDS)
def test_ranks_that_are_slow_by_turns_are_no_stragglers(ranks: int, seed: int) -> None:
    seconds = 0.5 + 0.1 * noise(seed, 6, ranks)
    for step in range(6):
        seconds[step, (seed + step) % ranks] *= 50
    assert straggler(seconds) is None


@given(ranks=RANKS, seed=SEEDS, scale=st.floats(1e-6, 1e3))
def test_noise_of_less_than_a_factor_of_two_is_no_straggler(ranks: int, seed: int, scale: float) -> None:
    assert straggler(scale * (1 + 0.9 * noise(seed, 8, ranks))) is None


def test_short_steps_and_few_of_them_are_no_evidence() -> None:
    slow = torch.tensor([[0.01, 0.09, 0.01]] * 5)
    assert straggler(slow) is None, "less than a tenth of a second more may be the machine's doing"
    assert straggler(10 * slow) == 1
    assert straggler(10 * slow[:2]) is None, "two slow steps may be chance"
    assert straggler(torch.zeros(0, 4)) is None


# --- a bad gradient


@given(ranks=RANKS, seed=SEEDS, factor=st.sampled_from([1024.0, 1 / 1024, 0.0, math.inf, math.nan]))
def test_a_gradient_unlike_those_of_the_other_ranks_is_named(ranks: int, seed: int, factor: float) -> None:
    norms = 1 + noise(seed, ranks)
    culprit = seed % ranks
    norms[culprit] *= factor
    assert bad_gradient(norms) == culprit


@given(ranks=RANKS, seed=SEEDS, scale=st.floats(1e-12, 1e12))
def test_norms_that_differ_as_examples_do_are_no_alarm(ranks: int, seed: int, scale: float) -> None:
    assert bad_gradient(scale * (1 + 3 * noise(seed, ranks))) is None


@given(ranks=RANKS, seed=SEEDS, bit=st.integers(0, 61))
def test_the_replica_that_is_not_that_of_the_most_is_named(ranks: int, seed: int, bit: int) -> None:
    checksums = torch.full((ranks,), seed, dtype=torch.int64)
    assert parted_replica(checksums) is None
    checksums[seed % ranks] ^= 1 << bit
    assert parted_replica(checksums) == seed % ranks


# --- a loss spike


@given(seed=SEEDS, steps=st.integers(7, 30), slope=st.floats(-0.2, 0.0), spread=st.floats(0.001, 0.04))
def test_a_loss_that_jumps_is_a_spike_whatever_its_trend(seed: int, steps: int, slope: float, spread: float) -> None:
    losses = 6 + slope * torch.arange(steps) / 4 + spread * noise(seed, steps)
    assert loss_spike(losses) is None
    losses[-1] += 2.0
    z = loss_spike(losses)
    assert z is not None
    assert z > 4


def test_an_earlier_spike_does_not_hide_the_next_one() -> None:
    losses = torch.tensor([5.0, 4.9, 9.0, 4.8, 4.7, 4.7, 4.6, 4.5, 9.0])
    z = loss_spike(losses)
    assert z is not None
    mean, deviation = losses[:-1].mean(), losses[:-1].std()
    assert (losses[-1] - mean) / deviation < 3, "mean and standard deviation would have been moved by the first one"


@pytest.mark.parametrize("last", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_a_spike(last: float) -> None:
    assert loss_spike(torch.tensor([5.0, 4.9, 4.8, 4.7, 4.6, 4.5, last])) is not None


def test_a_loss_that_falls_is_none_and_too_few_losses_say_nothing() -> None:
    assert loss_spike(torch.tensor([5.0, 4.9, 4.8, 4.7, 4.6, 4.5, 1.0])) is None
    assert loss_spike(torch.tensor([5.0, 4.9, 4.8, 4.7, 4.6, 9.0])) is None
    assert loss_spike(torch.tensor([])) is None
