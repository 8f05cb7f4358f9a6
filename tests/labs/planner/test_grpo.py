"""What GRPO needs: the lab's bytes by stage, and the published run's memory and time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner import zero
from labs.planner.grpo import generator, predict, published_plan, published_seconds, seconds, trainer
from labs.planner.models import model
from labs.planner.zero import Piece

PIECES = [Piece(trained=101), Piece(trained=57), Piece(trained=40)]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_beside_the_policy_there_are_a_reference_and_a_generator(stage: int, ranks: int) -> None:
    found = predict(PIECES, stage=stage, ranks=ranks)
    alone = zero.predict(PIECES, stage=stage, ranks=ranks).states
    assert found.reference == alone.parameters
    assert found.generator == 4 * 198
    assert found.states.parameters == alone.parameters + found.reference + found.generator
    assert (found.states.gradients, found.states.optimizer_states) == (alone.gradients, alone.optimizer_states)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 8))
def test_only_stage_3_gathers_for_the_generator(updates: int, micro_batches: int, ranks: int) -> None:
    sizes = {"updates": updates, "micro_batches": micro_batches, "ranks": ranks}
    for stage in (0, 1, 2):
        assert not predict(PIECES, stage=stage, **sizes).transfer
    found = predict(PIECES, stage=3, **sizes)
    whole = found.transfer["all_gather"]
    assert whole.count == 3
    assert found.collectives["all_gather"].bytes == (2 + 2 * updates * micro_batches) * whole.bytes
    assert found.collectives["reduce_scatter"].bytes == updates * micro_batches * whole.bytes


def test_the_published_model_has_the_parameters_that_its_makers_print() -> None:
    assert model("qwen-2.5-3b").parameters == 3_085_938_688  # "3.09B"


def test_the_published_run_fits_its_accelerators() -> None:
    plan = published_plan()
    own = trainer(plan)
    assert (plan.trainers, plan.outputs) == (3, 192)
    assert own.total < plan.gpu.memory
    assert own.bars.optimizer_states == pytest.approx(12 * 3.086e9 / 3, rel=1e-3)
    assert own.reference == own.bars.parameters
    made = generator(plan)
    assert made.weights + made.cache < made.reserved == plan.gpu.memory // 2


def test_generation_takes_most_of_the_published_step_and_the_bound_is_below_the_measurement() -> None:
    plan = published_plan()
    for completion in (100, 300, plan.completion):
        found = seconds(plan, completion=completion)
        assert found.generation_share > 0.5
        whole = found.generation + found.scoring + found.training + found.transfer
        assert whole < published_seconds()[0]
    assert seconds(plan).transfer < 0.01 * seconds(plan).generation


def test_groups_generated_together_take_less_time_than_one_after_the_other() -> None:
    plan = published_plan()
    together = replace(plan, accumulate=1, trainers=plan.trainers * plan.accumulate)
    assert together.outputs == plan.outputs
    assert seconds(together).generation < seconds(plan).generation / 4
