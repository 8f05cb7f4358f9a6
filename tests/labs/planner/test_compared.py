"""Published outputs of estimators: what lies between theirs and ours is accounted for to the rounding of the print."""

from __future__ import annotations

from collections import Counter

import pytest

from labs.planner import estimators
from labs.planner.compared import printed
from labs.planner.configuration import STACKS, Configuration
from labs.planner.memory import memory
from labs.planner.models import model
from translations import translator


def test_every_difference_is_explained_to_the_rounding_of_the_print() -> None:
    found = printed()
    for each in found:
        assert abs(each.unexplained) <= each.half, each.case
        reasons = " ".join(f"{reason.id} {reason.bytes / 1e9:+.2f}" for reason in each.reasons)
        print(f"{each.estimator:13}{each.case:50}{each.bytes / 1e9:9.2f}{each.ours / 1e9:9.2f}  {reasons}")
    kinds = Counter(each.estimator for each in found)
    assert kinds == {"deepspeed": 8, "accelerate": 4, "eleuther": 2, "llm-analysis": 8}


def test_where_nothing_differs_no_reason_is_given() -> None:
    """DeepSpeed's estimate with everything offloaded is the gathered layer, as ours."""
    offloaded = next(each for each in printed() if "cpu, cpu" in each.case)
    assert offloaded.reasons == ()
    assert offloaded.bytes == offloaded.ours + offloaded.unexplained


def test_megatrons_report_is_ours_but_for_biases() -> None:
    """Selective recomputation and sequence parallelism, as in its report, which also counts indices of tokens."""
    plan = Configuration(
        model=model("gpt-175b"), dp=16, tp=8, pp=8, micro_batches=96, sequence_parallel=True, recompute="selective",
        stack=STACKS["megatron"],
    )  # fmt: skip
    theirs, held, shape = estimators.megatron(plan), memory(plan).bars, plan.model
    indices = 8 * shape.sequence * plan.pp / plan.tp
    assert theirs.activations - indices == held.activations
    ours = held.parameters + held.gradients + held.optimizer_states
    biases = shape.layers / plan.pp * (3 * shape.hidden + shape.features) / plan.tp  # of columns, which are divided
    biases += shape.layers / plan.pp * 2 * shape.hidden
    positions = shape.sequence * shape.hidden
    final = 2 * shape.hidden / plan.pp
    assert theirs.states + 18 * (biases + positions - final) == pytest.approx(ours, rel=1e-6)


def test_every_reason_has_its_sentence() -> None:
    text = translator("en")
    for each in printed():
        for reason in each.reasons:
            assert text(f"shardwise.plan-differs-{reason.id}").endswith(".")
