"""A rank among thousands, without the others: the same bytes and collectives as on real ranks and in the formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch.distributed as dist

from labs.catalogue import run_lab
from labs.model import GPT, Shape
from labs.planner.configuration import STACKS, Configuration
from labs.planner.models import gpt, model
from labs.planner.simulation import Simulated, simulate
from labs.planner.zero import pieces_of, predict
from translations import CourseError

SMALL = gpt(layers=2, hidden=32, heads=4, vocabulary=256, sequence=16)
ONE = Configuration(model=SMALL, stack=STACKS["lab"])


def states(found: Simulated) -> list[int]:
    return [found.states.parameters, found.states.gradients, found.states.optimizer_states]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_stage_of_zero_on_a_thousand_ranks_holds_and_sends_what_the_formula_says(stage: int) -> None:
    plan = replace(ONE, model=replace(SMALL, tied=False), dp=1000, zero=stage, micro_batch=2, micro_batches=2)
    (found,) = simulate(plan)
    expected = predict(
        pieces_of(GPT(Shape(layers=2, hidden=32, heads=4, sequence=16)).pieces),
        stage=stage,
        ranks=1000,
        micro_batches=2,
    )
    assert states(found) == [
        expected.states.parameters,
        expected.states.gradients,
        expected.states.optimizer_states,
    ]
    assert found.peak.communication == expected.communication
    counted = {name: (each.count, each.bytes) for name, each in found.axes["data"].items()}
    assert counted == {name: (each.count, each.bytes) for name, each in expected.collectives.items()}
    assert not dist.is_initialized()


def test_it_counts_what_real_ranks_hold_and_send() -> None:
    """2 x 2 x 2 with ZeRO-1: states, peaks and every axis, on the first rank of each stage."""
    options: dict[str, Any] = {"dp": 2, "pp": 2, "tp": 2, "zero": 1, "layers": 2, "hidden": 32, "sequence": 16}
    run = run_lab("layout", steps=3, micro_batch=2, micro_batches=2, **options)
    plan = replace(
        ONE, model=replace(SMALL, tied=False), dp=2, pp=2, tp=2, zero=1, micro_batch=2, micro_batches=2
    )  # fmt: skip
    for found in simulate(plan):
        real = run.data["ranks"][found.rank]
        told = found.states.as_dict()
        for category in ("parameters", "gradients", "optimizer_states"):
            assert told[category] == real["bytes"]["rest"][category]
        assert found.peak.activations == real["bytes"]["peak"]["activations"]
        # On real ranks a message's buffer is held until the other side has it.
        assert found.peak.communication <= real["bytes"]["peak"]["communication"]
        for axis, counts in real["axes"].items():
            if axis != "world":
                assert {name: each.as_dict() for name, each in found.axes[axis].items()} == counts, axis


def test_activations_grow_with_the_micro_batches_in_flight() -> None:
    plan = replace(ONE, model=replace(SMALL, layers=4), pp=4, micro_batches=4)
    peaks = [found.peak.activations for found in simulate(plan, stages=(1, 2))]
    assert peaks[0] / peaks[1] == pytest.approx(3 / 2, rel=0.15)


def test_what_the_labs_cannot_train_is_refused() -> None:
    for plan, id in (
        (Configuration(model=model("llama3-405b")), "simulate-plain"),
        (replace(ONE, dp=2, tp=2, zero=3), "simulate-zero"),
        (replace(ONE, tp=3), "plan-heads"),
    ):
        with pytest.raises(CourseError) as refused:
            next(simulate(plan))
        assert refused.value.id == f"labs.{id}"
