"""A rank among thousands, without the others: the same bytes and collectives as on real ranks and in the formulas."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch.distributed as dist

from labs import runner
from labs.catalogue import run_lab
from labs.model import GPT, Shape
from labs.planner import simulation
from labs.planner.configuration import STACKS, Configuration
from labs.planner.fsdp import predict as predict_torch
from labs.planner.memory import stage_parameters
from labs.planner.models import gpt, model
from labs.planner.simulation import Implementation, Simulated, simulate
from labs.planner.zero import pieces_of, predict
from tests.labs.planner.sharded import plan_of
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


@pytest.mark.parametrize(
    ("implementation", "how"),
    [
        ("labs", {"micro_batches": 7, "recompute": "full", "sequence_parallel": True}),
        ("torch", {"micro_batches": 7, "recompute": "full", "sequence_parallel": True, "stack": STACKS["megatron"]}),
        ("torch", {"micro_batches": 5, "stack": STACKS["zero"]}),
    ],
)
def test_what_lies_on_a_line_is_what_running_it_gives(implementation: Implementation, how: dict[str, Any]) -> None:
    """Stages with five, four and one in flight, every micro-batch run."""
    shape = replace(SMALL, layers=5, vocabulary=255)
    plan = replace(ONE, model=shape, dp=4, tp=2, pp=5, zero=1, micro_batch=2, **how)
    plan = simulation.checked(plan, implementation)
    for found in simulate(plan, implementation=implementation, stages=(0, 1, 4)):
        kind = simulation.Kind(layers=1, first=found.stage == 0, last=found.stage == 4)
        whole = ((5 - found.stage, plan.micro_batches),)
        (run,) = simulation._run(plan, implementation, kind, found.stage, whole)
        assert found.in_flight == 5 - found.stage
        assert (found.states, found.peak, found.peak_total) == (run.states, run.peak, run.peak_total)
        assert found.axes == run.axes


@pytest.mark.parametrize("cut", [{"dp": 2, "pp": 2, "cp": 2, "zero": 1}, {"tp": 2, "cp": 2, "sequence": 18}])
def test_context_parallel_ranks_are_counted_as_real_ones(cut: dict[str, Any]) -> None:
    """Also where the sequence is filled up: 18 positions in 4 chunks of 5."""
    options: dict[str, Any] = {"dp": 1, "pp": 1, "tp": 1, "layers": 2, "hidden": 32, "sequence": 16} | cut
    run = run_lab("layout", steps=3, micro_batch=2, micro_batches=2, **options)
    plan = replace(ONE, model=replace(SMALL, tied=False), micro_batch=2, micro_batches=2, **cut)
    for found in simulate(plan):
        real = run.data["ranks"][found.rank]
        rest = real["bytes"]["rest"]
        assert [rest[name] for name in ("parameters", "gradients", "optimizer_states")] == states(found)
        for axis, counts in real["axes"].items():
            if axis != "world":
                assert {name: each.as_dict() for name, each in found.axes[axis].items()} == counts, axis


@pytest.mark.parametrize(("pp", "micro_batches"), [(3, 1), (3, 2), (2, 7), (4, 3), (3, 5)])
def test_few_stages_and_few_micro_batches_are_what_running_them_gives(pp: int, micro_batches: int) -> None:
    """Also a middle stage with one micro-batch, which has neither a table nor a head."""
    plan = replace(ONE, model=replace(SMALL, layers=pp), dp=2, pp=pp, zero=1, micro_batches=micro_batches)
    plan = simulation.checked(plan, "labs")
    for found in simulate(plan):
        kind = simulation.Kind(layers=1, first=found.stage == 0, last=found.stage == pp - 1)
        whole = ((min(micro_batches, pp - found.stage), micro_batches),)
        (run,) = simulation._run(plan, "labs", kind, found.stage, whole)
        assert (found.states, found.peak, found.peak_total) == (run.states, run.peak, run.peak_total)
        assert found.axes == run.axes


# --- torch's FSDP2 and tensor parallelism

TORCH = replace(ONE, model=replace(SMALL, layers=4, vocabulary=255, query_biases=False), micro_batch=2, micro_batches=3)


def counted(axes: Any) -> dict[str, dict[str, tuple[int, int]]]:
    return {axis: {name: (each.count, each.bytes) for name, each in own.items()} for axis, own in axes.items()}


@pytest.mark.parametrize(
    "how",
    [
        {"dp": 4, "tp": 2, "zero": 1, "stack": STACKS["megatron"]},
        {"dp": 3, "tp": 2, "zero": 2, "sequence_parallel": True},
        {"dp": 100, "tp": 4, "zero": 3, "recompute": "full", "stack": STACKS["zero"], "micro_batches": 2},
        {"dp": 5, "tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True, "recompute": "full", "stages": (1, 3)},
        {"tp": 2, "pp": 2, "model": replace(TORCH.model, tied=False)},
        {"dp": 4, "pp": 2, "zero": 1, "micro_batches": 8, "recompute": "selective"},
    ],
)
def test_torchs_ranks_hold_and_send_what_the_formula_says(how: dict[str, Any]) -> None:
    """Uneven layers, a tied table on one stage and on two, a vocabulary and rows that must be filled up."""
    plan = replace(TORCH, **how)
    for found in simulate(plan, implementation="torch"):
        expected = predict_torch(plan, stage=found.stage)
        told = expected.states
        assert states(found) == [told.parameters, told.gradients, told.optimizer_states]
        assert counted(found.axes) == counted(expected.axes)


def test_torchs_states_are_sixteen_bytes_of_a_stage_over_tensor_and_data_ranks() -> None:
    """The planner's own count of a stage's parameters, without a row to fill up; Adam's step counters apart."""
    shape = gpt(layers=6, hidden=64, heads=8, vocabulary=256, sequence=64)
    plan = replace(TORCH, model=replace(shape, query_biases=False), dp=8, tp=4, pp=3, zero=1)
    for found in simulate(plan, implementation="torch"):
        held = sum(stage_parameters(plan, stage=found.stage)) // plan.dp
        counters = found.states.optimizer_states % 16
        assert counters < 16 * 12
        parts = [4 * held, 4 * held, 8 * held]
        assert states(found)[:2] == parts[:2]
        assert found.states.optimizer_states - parts[2] == 4 * tensors(found, pp=plan.pp)
        assert sum(states(found)) - 4 * tensors(found, pp=plan.pp) == 16 * held


def tensors(found: Simulated, *, pp: int) -> int:
    return 11 * found.layers + 2 * (found.stage == 0) + 3 * (found.stage == pp - 1)


CASES: list[dict[str, Any]] = [
    {"dp": 2, "tp": 2, "zero": 2, "micro_batches": 2, "sequence_parallel": True},
    {"dp": 4, "zero": 3, "micro_batches": 2, "stack": "megatron", "tied": False},
    {"dp": 2, "pp": 2, "zero": 1, "micro_batches": 3},
    {"tp": 2, "pp": 2, "micro_batches": 5, "recompute": "full"},
]


def sharded_run() -> runner.Run:
    return runner.run(Path(__file__).parent / "sharded.py", ranks=4, arguments=[json.dumps(CASES)], timeout=240)


def test_torchs_real_ranks_hold_and_send_the_same() -> None:
    """Four ranks of gloo: states, peaks and collectives as simulated, and the losses of one process."""
    runs = [sharded_run() for _ in range(3)]  # gloo's thread may hold a buffer a moment longer: the least has none
    run = runs[0]
    for number, case in enumerate(CASES):
        plan = plan_of(dict(case))
        values = [rank.value[number] for rank in run.ranks]
        parts = {value["data"]: value["losses"] for value in values if value["losses"][0] is not None}
        for losses, true in zip(zip(*parts.values(), strict=True), values[0]["true"], strict=True):
            bound = 2e-6 if plan.stack.parameter == 4 else 1e-3
            assert sum(losses) / plan.dp == pytest.approx(true, abs=bound)
        for found in simulate(plan, implementation="torch"):
            real = values[found.rank]
            assert found.states.as_dict() == real["states"]
            assert {axis: {n: c.as_dict() for n, c in own.items()} for axis, own in found.axes.items()} == real["axes"]
            # Two numbers a prediction, added up over tensor ranks, live on until somebody has waited for them.
            longer = 2 * 4 * plan.micro_batch * plan.length if plan.tp > 1 and found.stage == plan.pp - 1 else 0
            peak = found.peak.as_dict()
            peaks = [each.ranks[found.rank].value[number]["peak"] for each in runs]
            least = {category: min(each[category] for each in peaks) for category in real["peak"]}
            assert peak | {"activations": peak["activations"] + longer} == least


# --- what is refused


def test_what_the_labs_cannot_train_is_refused() -> None:
    cases: list[tuple[Configuration, Implementation, str]] = [
        (Configuration(model=model("llama3-405b")), "labs", "simulate-plain"),
        (replace(ONE, dp=2, tp=2, zero=3), "labs", "simulate-zero"),
        (replace(ONE, tp=3), "labs", "plan-heads"),
        (replace(ONE, tp=4, sequence=18, sequence_parallel=True), "torch", "simulate-sequence"),
        (replace(TORCH, pp=2, stages=(1, 3)), "labs", "simulate-stages"),
        (replace(TORCH, pp=2, interleave=2, micro_batches=3), "labs", "simulate-groups"),
        (replace(ONE, cp=2), "torch", "simulate-torch-axes"),
        (replace(ONE, dp=2), "torch", "simulate-torch-zero"),
        (ONE, cast("Implementation", "jax"), "unknown-choice"),
        (replace(ONE, dp=2**17 + 1), "labs", "option-at-most"),
        (replace(TORCH, pp=2, interleave=2, micro_batches=514), "labs", "option-at-most"),
    ]
    for plan, implementation, id in cases:
        with pytest.raises(CourseError) as refused:
            next(simulate(plan, implementation=implementation))
        assert refused.value.id == f"labs.{id}"
