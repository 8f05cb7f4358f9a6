"""Figures of the stacks: DeepSpeed beside ours, its title compares and its words have the numbers of the run; and those
of the choice of a stack.
"""

from __future__ import annotations

from typing import Any

import pytest

from labs.planner.deepspeed_config import read
from lessons.figures.stacks import (
    decision,
    layers_of_software,
    megatron_beside,
    on_amd,
    remarks,
    rows_by_head,
    stages_beside,
)
from translations import language


def one(parameters: int, gradients: int, optimizer_states: int, traffic: int) -> dict[str, Any]:
    rest = {"parameters": parameters, "gradients": gradients, "optimizer_states": optimizer_states}
    return {"rest": rest, "predicted": {"states": rest}, "traffic": traffic, "peak_total": 9_000_000}


STAGE_2 = {"ours": one(200_000, 100_000, 300_000, 400_000), "deepspeed": one(200_000, 100_000, 600_000, 600_000)}
STAGE_3 = {"ours": one(100_000, 100_000, 300_000, 600_000), "deepspeed": one(100_000, 100_000, 300_000, 400_000)}
DATA = {"stages": [{"stage": 2, **STAGE_2}, {"stage": 3, **STAGE_3}]}


def test_the_title_compares_and_the_numbers_stand_under_the_figure() -> None:
    figure = stages_beside(DATA)(language("en"))
    shown = figure._repr_mimebundle_()["text/html"]
    for each in (
        "holds 1.00 to 1.50 times",
        "moves 0.667 to 1.50 times",
        "Stage 2 · DeepSpeed",
        "900\u202fkB",
        "9.00\u202fMB",
    ):
        assert each in shown.replace("\n", " "), each


def test_every_language_draws_it() -> None:
    for code in ("nl", "ar"):
        assert "DeepSpeed" in stages_beside(DATA)(language(code))._repr_mimebundle_()["text/html"]


def rank(held: int, tensor: int) -> dict[str, Any]:
    rest = {"parameters": held, "gradients": held, "optimizer_states": 2 * held}
    return {"bytes": {"rest": rest}, "axes": {"tensor": {"all_reduce": {"count": 2, "bytes": tensor}}}}


def test_megatrons_bytes_stand_beside_ours_and_the_title_says_whether_they_are_the_same() -> None:
    same = {"ours": [rank(1000, 5000), rank(2000, 5000)], "ranks": [rank(1000, 5000), rank(2500, 5000)]}
    figure = megatron_beside(same)(language("en"))
    assert "moves the same bytes on each axis" in figure.alt
    for each in ("8.00\u202fkB", "10.0\u202fkB", "5.00\u202fkB", "Tensor axis"):
        assert each in figure.table
    apart = {**same, "ranks": [rank(1000, 5000), rank(2500, 6000)]}
    assert "the same bytes" not in megatron_beside(apart)(language("en")).alt
    for code in ("nl", "ar"):
        assert "Megatron Core" in megatron_beside(apart)(language(code)).table


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_the_figures_of_the_choice_say_in_words_what_they_show(code: str) -> None:
    said = language(code)
    for figure, needed in (
        (layers_of_software(), ("DeepSpeed", "FSDP2", "RCCL", "Trainer")),
        (rows_by_head(heads=8, ranks=2), ("8", "2")),
        (decision(), ("ZeRO-1", "DeepSpeed", "Megatron Core")),
    ):
        drawn = figure(said)
        assert all(each in drawn.alt for each in needed)
        assert "{" not in drawn.alt
        assert drawn.markup.startswith("<svg")


def test_what_deepspeed_would_not_see_stands_with_its_line() -> None:
    file = '{\n "train_batch_size": 8,\n "zero_optimisation": {"stage": 3}\n}'
    table = remarks(read(file, ranks=8))(language("en")).html
    assert "zero_optimization" in table
    assert "<bdi>3</bdi>" in table


def test_a_table_of_amds_gpus_has_the_kinds_that_were_asked_for() -> None:
    whole = on_amd()(language("en")).html
    assert "RCCL" in whole
    assert "hipify" in whole
    assert "hipify" not in on_amd(changes=("nothing",))(language("en")).html
