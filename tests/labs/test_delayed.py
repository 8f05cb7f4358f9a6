"""What a late update is: the same training until it begins, then each gradient one step after it was made."""

from __future__ import annotations

import pytest
import torch

from labs.delayed import losses, smoothed


def test_until_the_delay_begins_nothing_differs() -> None:
    never, late = losses(late_from=None, steps=8), losses(late_from=4, steps=8)
    # Step 4 is the first whose gradients wait, so step 5 sees the weights of step 4 once more, on another batch.
    assert late[:5] == never[:5]
    assert late[5] != never[5]


def test_the_last_gradients_of_a_late_run_are_never_applied() -> None:
    """From the start on: the first two steps see the first weights, and k + 1 late steps make k updates."""
    untrained = losses(late_from=0, steps=2)
    assert untrained[0] == losses(late_from=None, steps=1)[0]
    assert losses(late_from=1, steps=3)[:2] == losses(late_from=None, steps=2)
    assert untrained[1] != losses(late_from=None, steps=2)[1]


def test_a_late_start_costs_more_than_a_late_end() -> None:
    """What the lesson's figure says in its title."""
    never, later, always = (smoothed(losses(late_from=first))[-1] for first in (None, 40, 0))
    assert never <= later < always
    assert later - never < 0.5 * (always - never)


def test_smoothing_is_the_mean_of_the_last() -> None:
    assert smoothed([4.0, 2.0, 0.0, 6.0], over=2) == pytest.approx([4.0, 3.0, 1.0, 3.0])


def test_the_threads_are_as_before() -> None:
    threads = torch.get_num_threads()
    losses(late_from=None, steps=1)
    assert torch.get_num_threads() == threads
