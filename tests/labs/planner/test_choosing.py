"""What the options of a decision cost."""

import pytest

from labs.planner import choosing, throughput
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator
from labs.planner.models import model


def test_an_option_is_what_the_calculators_say() -> None:
    gpu = accelerator("h100-80")
    plan = Configuration(
        model=model("gpt-18b"), dp=16, tp=4, zero=1, micro_batches=32, sequence_parallel=True, stack=STACKS["megatron"]
    )
    found = choosing.option(plan, gpu=gpu, tokens=1e9, price=2.0)
    told = throughput.throughput(plan, gpu=gpu, tokens=1e9, price=2.0)
    assert (found.seconds, found.days, found.cost) == (told.seconds_per_step, told.days, told.cost)
    assert found.fits == (found.bytes <= gpu.memory)


def test_a_slower_layout_costs_its_seconds_on_all_accelerators() -> None:
    assert choosing.extra_cost(slower=5.0, faster=4.0, steps=3600, gpus=64, price=2.0) == pytest.approx(128)
    steps = choosing.steps_to_pay(work=128, slower=5.0, faster=4.0, gpus=64, price=2.0)
    assert steps == pytest.approx(3600)


def test_the_host_holds_14_bytes_of_each_parameter() -> None:
    assert choosing.host_bytes(parameters=8 * 10**9) == 112 * 10**9


@pytest.mark.parametrize(("room", "stage"), [(112, 0), (40, 1), (28, 2), (14, 3)])
def test_the_lowest_stage_that_fits(room: int, stage: int) -> None:
    assert choosing.lowest_stage(parameters=7 * 10**9, ranks=8, room=room * 10**9) == stage


def test_no_stage_may_fit() -> None:
    with pytest.raises(ValueError, match="no stage"):
        choosing.lowest_stage(parameters=7 * 10**9, ranks=8, room=10**9)


def test_fsdp_has_shards_and_what_it_gathers() -> None:
    assert choosing.fsdp_bytes(parameters=13 * 10**9, units=40, ranks=8) == pytest.approx(
        16 * 13e9 / 8 + 8 * 13e9 / 40, rel=1e-6
    )


def test_the_share_of_the_peak_that_was_reached() -> None:
    assert choosing.reached(name="h100-80") == pytest.approx(794.5 / 989)
    with pytest.raises(ValueError, match="TPU"):
        choosing.reached(name="tpu-v4")
