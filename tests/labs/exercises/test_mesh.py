"""The capstone: faults planted at random are found, and each wrong answer gets its own text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from labs.exercises import check, exercise
from labs.exercises.capstone.check import CASES, compare, faults, told
from labs.exercises.mesh import Fault
from labs.exercises.trial import Result
from labs.runner import run
from translations.wording import fill

COMPARED = "wrong = mesh.gather(not same(mine, right))"
WRONG = [
    ("in mesh.phases", "in mesh.phases[::-1]", "phase/follows", "outer one"),
    ("return Fault(phase, name, ranks,", "return Fault(phase, name, [mesh.rank],", "answer/disagree", "Rank 0 says"),
    ("<= 1e-4", "<= 1e-9", "alarm/false-alarm", "is rounding and no fault"),
    (COMPARED, "wrong = [not same(mine, right)] * 4", "answer/hung", "lets the others wait"),
]


@pytest.mark.parametrize(("old", "new", "failed_at", "says"), WRONG)
def test_a_wrong_function_fails_where_it_should(old: str, new: str, failed_at: str, says: str) -> None:
    code = exercise("capstone").code("solution")
    assert old in code
    verdict = check("capstone", code.replace(old, new), patience=4)
    assert verdict.failed_at == failed_at, verdict.message
    assert says in verdict.message


def found(answers: dict[int, Any], *, case: int = 0) -> tuple[str, str]:
    """What comparing finds, and its text, where the ranks say the truth but for these steps."""
    truth = [fault and asdict(fault) for fault in faults(CASES[case], 0)]
    said = [answers.get(step, answer) for step, answer in enumerate(truth)]
    failures = list(compare(CASES[case], 0, [Result(rank=rank, value=said, tensors={}) for rank in range(4)]))
    if not failures:
        return "", ""
    return f"{failures[0].group}/{failures[0].id}", fill(
        exercise("capstone").failures[failures[0].id], failures[0].values
    )


@pytest.mark.parametrize(
    ("case", "step", "change", "failed_at", "says"),
    [
        (0, 0, {}, "", ""),
        (2, 0, {}, "", ""),
        (0, 0, "int", "answer/no-fault", "returns int"),
        (0, 0, {"rule": "forgotten"}, "answer/unknown-word", "rule `forgotten`"),
        (0, 1, None, "phase/nothing-found", "None, but Fault('tensor'"),
        (0, 0, {"phase": "step"}, "phase/follows", "in phase `data`"),
        (0, 0, {"phase": "start"}, "phase/too-early", "room for the last digits"),
        (0, 0, {"parameter": "head.norm.weight"}, "parameter/other-parameter", "`head.norm.weight` equals the twin"),
        (1, 0, {"ranks": [0, 1, 2, 3]}, "ranks/all-ranks", "and only"),
        (0, 0, {"ranks": [1]}, "ranks/some-ranks", "You say that ranks [1] are wrong"),
        (0, 0, {"rule": "skipped"}, "rule/is-added", "SUM where the mean was due"),
        (0, 1, {"rule": "added"}, "rule/is-skipped", "it did nothing for them"),
        (0, 2, {"rule": "added"}, "rule/is-swapped", "nothing complained"),
    ],
)
def test_each_wrong_answer_has_its_own_text(case: int, step: int, change: Any, failed_at: str, says: str) -> None:
    truth = faults(CASES[case], 0)[step]
    answer = asdict(truth) | change if truth is not None and isinstance(change, dict) else change or None
    at, text = found({step: answer}, case=case)
    assert at == failed_at
    assert says in text
    assert "{" not in text


def test_an_alarm_without_a_fault_is_no_pass() -> None:
    answer = {"phase": "tensor", "parameter": "x", "ranks": [0], "rule": "added"}
    assert found({0: answer}, case=2)[0] == "alarm/false-alarm"


@pytest.mark.parametrize("answer", ["tensor", 3, Fault("data", "x", 3, "added"), Fault("data", "x", ["a"], "added")])  # type: ignore[arg-type, list-item]
def test_what_is_no_answer_is_named_by_its_kind(answer: object) -> None:
    assert told(answer) == type(answer).__name__


def test_any_planted_fault_is_found_by_the_solution() -> None:
    for result in run(Path(__file__).with_name("planted.py"), ranks=4, timeout=120).ranks:
        assert result.value == []
