"""The labs in which a small BLOOM answers, as people start them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.cases.rows import rows_of
from labs.catalogue import formula, run_lab
from translations import CourseError

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "heads": 4, "taught": 5}


def found(data: dict[str, Any]) -> dict[str, float]:
    return {row.name: row.value for row in rows_of(data)}


def test_ranks_answer_as_one_process_and_read_what_the_formula_says() -> None:
    options = SMALL | {"prompts": 3, "prompt_length": 8, "new_tokens": 4}
    data = run_lab("bloom-inference", ranks=4, **options).data
    told = found(data)
    assert told["tensor-tokens-equal"] == told["layers-tokens-equal"] == 3 * 4
    for report in data["ranks"]:
        assert {name: report["tensor"][name] for name in report["predicted"]} == report["predicted"]
        assert report["loading"]["whole"]["bytes"] == 4 * data["parameters"]
        assert report["loading"]["own"]["bytes"] == report["tensor"]["weights"]
    assert sum(report["layers"]["cache"] for report in data["ranks"]) == 4 * told["cache-a-rank"]
    held = formula("bloom-inference", ranks=4, **options)
    assert (held.parameters, held.activations) == (told["weights-a-rank"], told["cache-a-rank"])


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
