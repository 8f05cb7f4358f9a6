"""The exercise on what a launch did: every wrong answer is told apart, and the lab judges as the solution does."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from labs.exercises.what_ran.check import LAUNCHES, RIGHT, P
from labs.stacks.what_ran import what_ran

ALONE = 'if not any(report["sent"].values()):'
LAST = 'return "replicated" if max(report["adam"]) >= each * parameters else "sharded"'


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        (LAST, 'return "zero-2"', "shape/no-such-word"),
        (LAST, "return None", "shape/no-such-word"),
        (ALONE, "if False:", "alone/nothing-sent"),
        (ALONE, 'if not report["sent"]:', "alone/nothing-sent"),
        (ALONE, 'if report["wrapped"] == "GPT":', "alone/messages-were-sent"),
        (LAST, 'return "sharded" if report["wrapped"] != "DistributedDataParallel" else "replicated"',
         "states/believed-the-name"),
        (LAST, 'return "replicated" if max(report["adam"]) >= 8 * parameters else "sharded"', "states/fixed-bytes"),
        (LAST, 'return "replicated" if report["adam"][0] >= each * parameters else "sharded"', "states/one-rank"),
        (LAST, 'return "sharded"', "states/bytes"),
    ],
)  # fmt: skip
def test_wrong_answers(old: str, new: str, at: str) -> None:
    code = exercise("what-ran").code("solution")
    assert old in code
    verdict = check("what-ran", code.replace(old, new), "en")
    assert (verdict.failed_at, verdict.passed) == (at, False), verdict.message


@pytest.mark.parametrize("name", [name for name, each in LAUNCHES.items() if each.each == 8 and name != "uneven"])
def test_the_lab_judges_as_the_solution_does(name: str) -> None:
    launch = LAUNCHES[name]
    found = {
        "kept": {"optimizer_states": launch.adam[0]},
        "collectives": {key: {"bytes": size} for key, size in launch.sent.items()},
    }
    judged = what_ran("zero-2", found, parameters=P, ranks=len(launch.adam))
    assert judged == {"sharded": "as-asked", "replicated": "replicated", "alone": "alone"}[RIGHT[name]]
