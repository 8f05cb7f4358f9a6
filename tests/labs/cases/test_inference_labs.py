"""The labs in which a small BLOOM answers, as people start them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.cases.rows import Row, rows_of
from labs.catalogue import formula, run_lab
from shardwise.lab_terminal import amount
from translations import CourseError, translator

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "heads": 4, "taught": 5}


def found(data: dict[str, Any]) -> dict[str, float]:
    return {row.name: row.value for row in told(data)}


def told(data: dict[str, Any]) -> list[Row]:
    """The rows, each of which has words."""
    text, rows = translator("en"), rows_of(data)
    for row in rows:
        assert text(f"labs.result-{row.name}", of=row.of)
        assert amount(row.value, row.unit, text)
    return rows


def test_ranks_answer_as_one_process_and_read_what_the_formula_says() -> None:
    options = SMALL | {"prompts": 3, "prompt_length": 8, "new_tokens": 4}
    data = run_lab("bloom-inference", ranks=4, **options).data
    came = found(data)
    assert came["tensor-tokens-equal"] == came["layers-tokens-equal"] == 3 * 4
    for report in data["ranks"]:
        assert {name: report["tensor"][name] for name in report["predicted"]} == report["predicted"]
        assert report["loading"]["whole"]["bytes"] == 4 * data["parameters"]
        assert report["loading"]["own"]["bytes"] == report["tensor"]["weights"]
    assert sum(report["layers"]["cache"] for report in data["ranks"]) == 4 * came["cache-a-rank"]
    held = formula("bloom-inference", ranks=4, **options)
    assert (held.parameters, held.activations) == (came["weights-a-rank"], came["cache-a-rank"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 3, "hidden": 33}, "3 attention heads do not divide by 2 ranks"),
        ({"new_tokens": 1}, "new-tokens must be at least 2"),
        ({"taught": -1}, "taught must be at least 0"),
        ({"heads": 5}, "32 does not divide by 5"),
        ({"precision": "int3"}, "--precision must be one of these"),
    ],
)
def test_what_cannot_run_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        run_lab("bloom-inference", ranks=2, **(SMALL | options))


def test_weights_in_fewer_bits() -> None:
    data = run_lab("weight-only", **SMALL, group=16, new_tokens=6).data
    came = found(data)
    assert came["outlier-features"] >= 2
    assert came["outliers-apart"] < came["outliers-both-int8"] / 3
    assert came["int4-gptq"] < came["int4-nearest"]
    assert came["int4-awq"] <= 1.1 * came["int4-nearest"]
    assert came["int4-bytes"] == 32 * 128 / 2 + 4 * 32 * 128 / 16
    assert came["model-int8"] < 0.7 * came["model-16-bits"]
    assert 0 < came["int8-logits-error"] < 0.02


def test_both_ways_of_batching_answer_as_one_process() -> None:
    data = run_lab("batching", **SMALL, requests=10, slots=3, new_tokens=12).data
    came = found(data)
    assert came["static-equal"] == came["continuous-equal"] == 10
    assert came["continuous-held"] == 0 < came["static-held"]
    assert came["static-to-continuous-iterations"] > 1


@pytest.mark.parametrize(
    ("lab", "options", "said"),
    [
        ("weight-only", {"factor": 0.5}, "1 to 10,000 times as large; --factor is 0.5"),
        ("weight-only", {"outliers": 33}, "33 outliers are more than the 32 input features"),
        ("weight-only", {"group": 5}, "32 weights do not divide into groups of 5"),
        ("batching", {"rate": 0.0}, "--rate is how many requests come"),
        ("batching", {"slots": 0}, "slots must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused(lab: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        run_lab(lab, **(SMALL | options))


def test_the_accuracy_test_catches_fp16_and_lets_bf16_pass() -> None:
    data = run_lab("bloom-accuracy", **SMALL, prompts=4, new_tokens=4, scale=24).data
    came = {(row.name, row.of): row.value for row in told(data)}
    assert came["accuracy-large-overflow", "fp16"] == 4
    assert came["accuracy-large-gap", "bf16"] == came["accuracy-plain-gap", "bf16"]
    assert came["accuracy-plain-gap", "fp16"] < came["accuracy-plain-gap", "bf16"] / 2
    assert came["accuracy-plain-equal", "fp32"] == came["accuracy-large-equal", "fp32"] == 4
