"""Accelerators, formats of numbers and what changes on AMD's GPUs: data with sources, and the formulas over them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.cases.narrow_formats import results
from labs.planner.compiling import steps_until_paid
from labs.planner.configuration import Configuration
from labs.planner.formats import formats, number_format, speedup, weights
from labs.planner.hardware import NARROW, accelerator, accelerators, all_reduce_seconds, balance, peak
from labs.planner.links import axes
from labs.planner.models import gpt
from labs.planner.platforms import KINDS, differences
from labs.planner.throughput import compute_seconds, layer_products, seconds, step_flops, throughput
from translations import CourseError, translator

BIG = Configuration(model=gpt(layers=24, hidden=1024, heads=16, vocabulary=51200, sequence=1024), micro_batches=8)


def test_the_accelerators_that_lessons_name_are_there() -> None:
    """NVIDIA's from V100 to GB200, AMD's, and the chips made for training alone."""
    names = [
        "v100",
        "a100",
        "h100",
        "h200",
        "b200",
        "gb200",
        "mi250x",
        "mi300x",
        "tpu-v4",
        "tpu-v5p",
        "trainium2",
        "gaudi3",
    ]
    assert all(accelerator(name).source for name in names)


def test_narrower_products_are_never_slower() -> None:
    for card in set(accelerators().values()):
        assert set(card.narrow) <= set(NARROW)
        rates = [card.peak_of(name) for name in ("bf16", *card.narrow)]
        assert rates == sorted(rates)
    assert accelerator("b200").peak_of("fp4") == 2 * accelerator("b200").peak_of("fp8")


def test_a_chip_without_such_products_is_named() -> None:
    with pytest.raises(CourseError, match=r"A100.*fp8.*bf16"):
        accelerator("a100").peak_of("fp8")
    with pytest.raises(CourseError, match="fp4"):
        throughput(BIG, gpu=accelerator("h100"), precision="fp4")


def test_two_without_a_switch_have_one_link() -> None:
    """MI300X: 64 GB/s between two, 448 between eight; an all-reduce over two was measured at 47.7 GB/s, over eight at
    312.9 (ml-engineering, network).
    """
    card = accelerator("mi300x")
    assert [card.between(ranks) for ranks in (2, 4, 8)] == [64e9, 192e9, 448e9]
    assert accelerator("h100").between(2) == accelerator("h100").between(8) == 450e9
    assert card.between(8) / card.between(2) == pytest.approx(312.9 / 47.7, rel=0.1)
    assert all_reduce_seconds(name="mi300x", size=8e9, ranks=2) == 8e9 / 64e9
    plans = [replace(BIG, tp=tp) for tp in (2, 8)]
    two, eight = (next(each.seconds for each in axes(plan, gpu=card) if each.name == "tensor") for plan in plans)
    assert two > 3 * eight
    assert peak(name="b200", precision="fp8") == 4.5e15
    assert balance(name="b200") == pytest.approx(2250e12 / 8e12)


def test_compiling_pays_where_what_is_saved_exceeds_the_first_call() -> None:
    steps = steps_until_paid(first=30, eager=0.5, times=1.25)
    assert 30 + (steps - 1) * 0.4 == pytest.approx(steps * 0.5)
    assert steps_until_paid(first=30, eager=0.5, times=1) == float("inf")


# --- time in narrower formats


def test_the_layers_products_are_72_b_s_l_h_squared() -> None:
    """Narayanan et al. 2021, equation 2; biases are counted too, under a thousandth."""
    by_hand = 72 * BIG.global_batch * 1024 * 24 * 1024**2
    assert layer_products(BIG) == pytest.approx(by_hand, rel=1e-3)
    again = replace(BIG, recompute="full")
    assert layer_products(again) == pytest.approx(by_hand * 4 / 3, rel=1e-3)
    for each in (BIG, again):
        assert layer_products(each) < step_flops(each)


@given(st.sampled_from(["h100", "b200", "gb200", "mi300x", "trainium2"]), st.sampled_from(["fp8", "fp4"]))
def test_a_narrow_format_gains_less_than_its_peak_says(name: str, precision: str) -> None:
    """Attention and the vocabulary stay as they are (Amdahl)."""
    card = accelerator(name)
    if precision in card.narrow:
        gain = compute_seconds(BIG, gpu=card) / compute_seconds(BIG, gpu=card, precision=precision)
        assert 1 < gain < card.peak_of(precision) / card.peak
    assert seconds(BIG, gpu=card) == seconds(BIG, gpu=card, precision="bf16")


def test_published_fp8_runs_are_nearer_to_fp8_than_to_bf16() -> None:
    """Three systems, nothing fitted: the share of the peak is that of an A100 in bf16."""
    found = {(row.of, row.name): row.value for row in results()}
    for gpu in ("gb200", "b200", "h100"):
        printed = found[gpu, "narrow-published"]
        assert 0.7 < found[gpu, "narrow-fp8"] / printed < 1.1
        assert found[gpu, "narrow-bf16"] / printed < 0.6


def test_amdahl() -> None:
    assert speedup(share=0.9, times=2) == pytest.approx(1 / 0.55)
    assert speedup(share=1, times=4) == 4


# --- formats of numbers


@pytest.mark.parametrize(
    ("name", "size"),
    [("fp8", 1), ("mxfp8", 1 + 1 / 32), ("mxfp4", 0.5 + 1 / 32), ("nvfp4", 0.5 + 1 / 16), ("bf16", 2), ("fp4", 0.5625)],
)
def test_bytes_of_an_element_with_its_scale(name: str, size: float) -> None:
    assert number_format(name).bytes_per_element == size
    assert weights(405 * 10**9, stored=name) == pytest.approx(size * 405e9)


@given(st.integers(0, 10**6), st.sampled_from(sorted(formats())))
def test_bytes_are_whole_and_at_least_the_elements(elements: int, name: str) -> None:
    each = number_format(name)
    taken = each.bytes_of(elements)
    assert elements * each.bits <= 8 * taken
    assert taken <= elements * each.bytes_per_element + 1 + each.scale / 8
    assert each.bytes_of(elements + 1) >= taken


def test_every_format_is_torchs_own_type() -> None:
    for each in formats().values():
        kind: torch.dtype = getattr(torch, each.torch)
        assert kind.itemsize * 8 // (2 if each.bits == 4 else 1) == each.bits
    assert torch.finfo(torch.float8_e4m3fn).max == 448
    assert torch.finfo(torch.float8_e4m3fnuz).max == 240


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(CourseError, match="mxfp8"):
        number_format("mxfp6")


# --- what changes on AMD's GPUs


def test_every_difference_is_told_in_every_language_with_its_source() -> None:
    rows = differences()
    assert len(rows) == len({each.id for each in rows}) >= 12
    for each in rows:
        assert each.changes in KINDS
        assert each.source
        assert (each.nvidia == each.amd) <= (each.changes == "nothing")
        for language in ("en", "nl", "ar"):
            text = translator(language)
            assert each.what(text)
            assert each.told(text)
            assert text(f"labs.amd-changes-{each.changes}")
    assert {each.changes for each in rows} == set(KINDS)
