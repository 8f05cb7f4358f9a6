"""Layouts that papers ran: among the best here, or with a reason that is said."""

from __future__ import annotations

import pytest

from labs.planner.layouts import NEAR, Published, layouts, placed, published_for, trained
from labs.planner.recomputed import published
from translations import CourseError


@pytest.mark.parametrize("run", layouts(), ids=lambda run: run.model)
def test_a_published_layout_is_among_the_best_or_explained(run: Published) -> None:
    assert run.plan.checked().gpus == run.gpus
    assert run.plan.global_batch == run.batch
    found = placed(run)
    assert found.tflops == pytest.approx(run.tflops, rel=0.25)
    assert found.explained in ("first", "near") or run.knew == found.explained
    if found.explained != run.knew:
        assert found.then.number <= 5
        assert found.then.slower < NEAR


def test_they_are_those_of_the_papers_tables() -> None:
    table = published("megatron_sc21")["t1"]
    names = [*table["config_cols"], *table["value_cols"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    printed = {(row["tp"], row["pp"], row["gpus"], row["batch"], row["mbs"], row["tflops"]) for row in rows}
    ours = [each for each in layouts() if "Narayanan" in each.source]
    assert {(each.tp, each.pp, each.gpus, each.batch, each.micro_batch, each.tflops) for each in ours} == printed
    for row, each in zip(rows, ours, strict=True):
        chunks = row["layers"] // row["pp"] // row["layers_per_vstage"] if row["layers_per_vstage"] else 1
        assert each.interleave == chunks


def test_only_what_was_run_has_a_published_layout() -> None:
    assert published_for("bloom-176b", gpu="a100-80", gpus=384, batch=2048) is not None
    assert published_for("bloom-176b", gpu="a100-80", gpus=384, batch=1024) is None
    assert published_for("bloom-176b", gpu="h100-80", gpus=384, batch=2048) is None


def test_a_layout_by_its_model_or_the_names_of_those_that_are_known() -> None:
    assert trained("bloom-176b").degrees == (8, 4, 12)
    with pytest.raises(CourseError) as failed:
        trained("bloom-177b")
    assert "bloom-176b" in str(failed.value.values["known"])
