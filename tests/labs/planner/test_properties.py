"""What holds for every layout, whatever its sizes: on the functions that the terminal and the lessons ask."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labs.planner.configuration import RECOMPUTE, STACKS, Configuration, Stack
from labs.planner.hardware import accelerator
from labs.planner.links import axes, busy, data_bytes, in_the_open
from labs.planner.memory import advice, in_flight, memory, of_parameters, rank_bars, stage_parameters
from labs.planner.models import Model, gpt, model, padded
from labs.planner.search import LARGEST_INTERLEAVE, LARGEST_MICRO_BATCH, ranking
from labs.planner.throughput import compute_seconds, seconds, throughput
from translations import CourseError

A100 = accelerator("a100-80")
STATES = ("parameters", "gradients", "optimizer_states")


@st.composite
def models(draw: st.DrawFn) -> Model:
    heads = 8 * draw(st.integers(1, 12))
    shape = gpt(
        layers=draw(st.integers(1, 40)),
        hidden=heads * draw(st.sampled_from([16, 64, 128])),
        heads=heads,
        vocabulary=draw(st.integers(100, 300_000)),
        sequence=2 ** draw(st.integers(6, 13)),
    )
    return replace(shape, tied=draw(st.booleans()), gated=draw(st.booleans()), positions=draw(st.booleans()))


@st.composite
def plans(draw: st.DrawFn) -> Configuration:
    shape = draw(models() | st.sampled_from([model(name) for name in ("bloom", "llama3-405b", "palm", "gpt-1t")]))
    pp = draw(st.integers(1, min(shape.layers, 16)))
    return Configuration(
        model=shape,
        dp=draw(st.integers(1, 64)),
        tp=draw(st.sampled_from([each for each in (1, 2, 4, 8) if shape.heads % each == 0])),
        pp=pp,
        zero=draw(st.sampled_from([0, 1] if pp > 1 else [0, 1, 2, 3])),
        micro_batch=draw(st.integers(1, 8)),
        micro_batches=draw(st.integers(1, 64)),
        recompute=draw(st.sampled_from(RECOMPUTE)),
        sequence_parallel=draw(st.booleans()),
        stack=draw(st.sampled_from(list(STACKS.values()))),
    )


def states(plan: Configuration) -> int:
    """Model states of the rank that holds most of them."""
    held = [rank_bars(plan, stage=stage).as_dict() for stage in range(plan.pp)]
    return max(sum(bars[name] for name in STATES) for bars in held)


# --- memory


@given(plans(), st.sampled_from(["dp", "tp", "pp", "cp"]))
@settings(max_examples=150, deadline=None)
def test_model_states_never_grow_with_more_shards(plan: Configuration, axis: str) -> None:
    more = replace(plan, **{axis: 2 * getattr(plan, axis)})
    assume(_runs(more))
    assert states(more) <= states(plan)


@given(plans(), st.sampled_from(["dp", "tp", "cp"]))
@settings(max_examples=150, deadline=None)
def test_memory_never_grows_with_more_shards(plan: Configuration, axis: str) -> None:
    """All bars together. From one rank to two, ZeRO begins to need buffers, which it has beside what it saves."""
    more = replace(plan, **{axis: 2 * getattr(plan, axis)})
    assume(_runs(more) and (plan.shards > 1 or axis == "tp" or not plan.zero))
    assert memory(more).total <= memory(plan).total


@given(plans(), st.integers(2, 8))
@settings(max_examples=150, deadline=None)
def test_a_longer_pipeline_costs_no_more_than_its_messages(plan: Configuration, pp: int) -> None:
    """All bars together may grow with more stages, by what a pipeline adds and no state: on the first stage the output
    of the embedding for each micro-batch more in flight, buffers for two messages each way, and the allocator's share
    of it; on the last its own copy of a tied table. Layers must divide: a rest makes one stage fuller than its share.
    """
    plan = replace(plan, pp=1)
    more = replace(plan, pp=pp)
    assume(plan.zero <= 1 and plan.model.layers % pp == 0)
    message = plan.length * plan.micro_batch * plan.model.hidden / (plan.tp if plan.sequence_parallel else 1)
    flying = min(plan.micro_batches, pp) - 1
    added = 1.05 * flying * message + 4 * message
    assert rank_bars(more, stage=0).total <= memory(plan).total + added + 100


def test_total_memory_may_grow_with_the_pipeline_where_the_states_shrink() -> None:
    """Full recomputation of a small model with long micro-batches: what is in flight outweighs what is cut."""
    shape = gpt(layers=8, hidden=64, heads=8, vocabulary=100, sequence=8192)
    plans = [Configuration(model=shape, pp=pp, micro_batch=16, micro_batches=8, recompute="full") for pp in (2, 4, 8)]
    totals = [rank_bars(plan, stage=0).total for plan in plans]
    assert totals == sorted(totals)
    assert [states(plan) for plan in plans] == sorted((states(plan) for plan in plans), reverse=True)


def _runs(plan: Configuration) -> bool:
    try:
        plan.checked()
    except CourseError:
        return False
    return True


@given(plans(), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_a_higher_stage_of_zero_never_holds_more_model_states(plan: Configuration, stage: int) -> None:
    plan = replace(plan, pp=1)
    lower, higher = (states(replace(plan, zero=zero)) for zero in (stage - 1, stage))
    assert higher < lower if plan.dp > 1 else higher == lower


@given(plans())
@settings(max_examples=100, deadline=None)
def test_the_fullest_rank_is_at_least_the_mean(plan: Configuration) -> None:
    each = [rank_bars(plan, stage=stage).total for stage in range(plan.pp)]
    found = memory(plan, gpu=A100)
    assert found.total == max(each) == each[found.stage] >= sum(each) / len(each)
    assert found.rank == found.stage * plan.gpus // plan.pp
    assert found.fits == (found.total <= A100.memory)


def test_a_first_and_a_last_stage_of_as_many_parameters_are_told_apart() -> None:
    """BLOOM on two stages: a norm after the embedding and one before the head; but only the last has logits."""
    plan = Configuration(model=model("bloom"), pp=2, micro_batches=1)
    assert stage_parameters(plan, stage=0) == stage_parameters(plan, stage=1)
    assert memory(plan).stage == 1


@given(plans())
@settings(max_examples=100, deadline=None)
def test_stage_i_of_p_keeps_the_smaller_of_m_and_p_minus_i_micro_batches(plan: Configuration) -> None:
    for stage in range(plan.pp):
        assert in_flight(plan, stage=stage) == min(plan.micro_batches, plan.pp - stage)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.sampled_from(["full", "selective"]))
@settings(max_examples=100, deadline=None)
def test_uneven_layers_give_the_heaviest_stage(layers: list[int], recompute: str) -> None:
    """With one micro-batch in flight, the stage with most layers is the fullest: among those, one with a table."""
    shape = gpt(layers=sum(layers), hidden=512, heads=8, vocabulary=512, sequence=256)
    plan = Configuration(model=shape, pp=len(layers), stages=tuple(layers), recompute=recompute)
    assert layers[memory(plan).stage] == max(layers)
    assert memory(replace(plan, stages=tuple(reversed(layers)))).total == pytest.approx(memory(plan).total, rel=0.1)


def test_layers_1_2_2_3_make_the_last_stage_the_fullest() -> None:
    shape = gpt(layers=8, hidden=64, heads=4, vocabulary=8, sequence=8)
    assert memory(Configuration(model=shape, pp=4, stages=(1, 2, 2, 3))).stage == 3


@given(plans())
@settings(max_examples=100, deadline=None)
def test_a_data_parallel_degree_of_one_makes_zero_save_nothing(plan: Configuration) -> None:
    alone = replace(plan, dp=1)
    without = replace(alone, zero=0)
    assert memory(alone).bars == memory(without).bars
    assert not [each for each in advice(alone) if each.change == "zero"]
    assert data_bytes(alone) == 0


@given(st.integers(1, 300_000), st.sampled_from([1, 2, 4, 8, 16]))
def test_the_padding_of_the_vocabulary_is_counted(vocabulary: int, tp: int) -> None:
    """Every tensor-parallel rank has as many rows; the padded ones weigh what others do."""
    shape = gpt(layers=2, hidden=64, heads=16, vocabulary=vocabulary, sequence=16)
    plan = Configuration(model=shape, tp=tp)
    exact = Configuration(model=replace(shape, vocabulary=padded(vocabulary, tensor=tp, multiple=1)), tp=tp)
    assert plan.vocabulary % tp == 0
    assert 0 <= plan.vocabulary - vocabulary < tp
    assert stage_parameters(plan, stage=0) == stage_parameters(exact, stage=0)
    assert memory(plan).bars == memory(exact).bars


@given(st.integers(1, 10**13), st.integers(1, 4096), st.integers(0, 3), st.sampled_from(list(STACKS.values())))
def test_of_parameters_alone_only_model_states_are_counted(count: int, dp: int, zero: int, stack: Stack) -> None:
    found = of_parameters(count, dp=dp, zero=zero, stack=stack)
    assert found.total == sum(getattr(found.bars, name) for name in STATES)
    assert stack.total * count / dp <= found.total <= stack.total * count
    assert of_parameters(count, dp=1, zero=zero, stack=stack).total == stack.total * count


# --- time


@given(plans())
@settings(max_examples=100, deadline=None)
def test_a_measured_step_gives_back_what_was_predicted(plan: Configuration) -> None:
    assume(_runs(plan))
    told = throughput(plan, gpu=A100, tokens=1e9)
    again = throughput(plan, gpu=A100, tokens=1e9, step_seconds=told.seconds_per_step)
    assert again == told
    assert 0 < told.mfu <= told.hfu < 1
    assert 0 <= told.bubble < 1
    twice = throughput(plan, gpu=A100, step_seconds=2 * told.seconds_per_step)
    assert twice.tflops_per_gpu == pytest.approx(told.tflops_per_gpu / 2)


@given(plans())
@settings(max_examples=100, deadline=None)
def test_what_a_link_carries_is_hidden_by_at_most_the_computation(plan: Configuration) -> None:
    found, computing = axes(plan, gpu=A100), compute_seconds(plan, gpu=A100)
    open_ = in_the_open(found, computing=computing)
    for link in ("node", "network"):
        on_it = [axis for axis in found if axis.link == link]
        hidden = sum(axis.seconds - open_[axis.name] for axis in on_it)
        assert -1e-9 <= hidden <= computing * (1 + 1e-9)
    assert all(axis.exposed - 1e-12 <= open_[axis.name] <= axis.seconds + 1e-12 for axis in found)
    carried = {each.link: each.bytes for each in busy(found, gpu=A100)}
    assert carried["node"] + carried["network"] == pytest.approx(sum(axis.bytes for axis in found))


# --- search


def brute_force(shape: Model, *, gpus: int, batch: int) -> dict[tuple[int, int, int], float]:
    """The least seconds of each dp, tp, pp: every value of every degree is tried, and what cannot run is left out."""
    best: dict[tuple[int, int, int], float] = {}
    counts = range(1, gpus + 1)
    for dp, tp, pp in itertools.product(counts, counts, counts):
        if dp * tp * pp != gpus or tp > A100.node:
            continue
        for micro_batch, chunks, zero, recompute in itertools.product(
            range(1, LARGEST_MICRO_BATCH + 1), range(1, LARGEST_INTERLEAVE + 1), range(4), RECOMPUTE
        ):
            micro_batches, rest = divmod(batch, dp * micro_batch)
            if rest or (chunks > 1 and (pp == 1 or micro_batches % pp)) or (zero and dp == 1):
                continue
            plan = Configuration(
                model=shape, dp=dp, tp=tp, pp=pp, zero=zero, micro_batch=micro_batch, micro_batches=micro_batches,
                recompute=recompute, sequence_parallel=tp > 1, interleave=chunks, stack=STACKS["megatron"],
            )  # fmt: skip
            if _runs(plan) and memory(plan, gpu=A100).fits:
                took = seconds(plan, gpu=A100)
                best[dp, tp, pp] = min(took, best.get((dp, tp, pp), took))
    return best


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 6, 8, 12, 16])
@pytest.mark.parametrize(("layers", "hidden", "batch"), [(1, 1024, 8), (4, 1024, 12), (6, 8192, 16), (12, 12288, 24)])
def test_the_search_returns_the_optimum_of_brute_force(gpus: int, layers: int, hidden: int, batch: int) -> None:
    """Of each dp x tp x pp, and so of all."""
    shape = gpt(layers=layers, hidden=hidden, heads=16, vocabulary=5000, sequence=512)
    best = brute_force(shape, gpus=gpus, batch=batch)
    if not best:
        with pytest.raises(CourseError):
            ranking(shape, gpus=gpus, gpu=A100, batch=batch)
        return
    found = ranking(shape, gpus=gpus, gpu=A100, batch=batch)
    assert {(each.plan.dp, each.plan.tp, each.plan.pp): each.seconds for each in found} == best
    assert found[0].seconds == min(best.values())
