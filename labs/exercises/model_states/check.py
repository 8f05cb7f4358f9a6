"""Checks `model_states(parameters, precision=...)`: three numbers of bytes for several models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

CASES = (Case(name="arithmetic", ranks=1, communicates=False),)
PARAMETERS = (1, 124_439_808, 7_000_000_000)
PRECISIONS = ("fp32", "bf16")
STATES = ("parameters", "gradients", "optimizer_states")
PER_PARAMETER = {
    "fp32": {"parameters": 4, "gradients": 4, "optimizer_states": 8},
    "bf16": {"parameters": 2, "gradients": 2, "optimizer_states": 12},
}
MEANINGS = {
    ("bf16", "parameters", 4): "bf16-as-fp32",
    ("bf16", "gradients", 4): "bf16-as-fp32",
    ("bf16", "optimizer_states", 4): "low-states",
    ("bf16", "optimizer_states", 8): "no-master",
    ("bf16", "optimizer_states", 6): "low-master",
    ("fp32", "optimizer_states", 12): "master-in-fp32",
    ("fp32", "optimizer_states", 4): "one-state",
}
"""What a wrong number of bytes a parameter means."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    model_states = student["model_states"]
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        for parameters in PARAMETERS:
            given = model_states(parameters, precision=precision)
            key = f"{precision}-{parameters}"
            if not isinstance(given, dict):
                found[key] = kind(given)
                continue
            found[key] = {name: plain(given.get(name)) for name in STATES}
    return Work(value=found)


def plain(value: object) -> int | str:
    """A whole number as it is, anything else as a word."""
    return value if type(value) is int else kind(value)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    for precision, expected in PER_PARAMETER.items():
        for parameters in PARAMETERS:
            key = f"{precision}-{parameters}"
            given = result.get(key)
            if not isinstance(given, dict):
                yield Failure(group="shape", id="not-a-dict", values={"got": str(given)})
                continue
            for name, count in expected.items():
                yield from compare_number(precision, name, given.get(name), parameters, count)


def compare_number(precision: str, name: str, got: object, parameters: int, count: int) -> Iterator[Failure]:
    told: dict[str, object] = {"precision": precision, "name": name, "parameters": parameters}
    if type(got) is not int:
        id = "no-key" if got == "None" else "not-whole"
        yield Failure(group="shape", id=id, values={**told, "got": str(got)})
        return
    if got == count * parameters:
        return
    each = got / parameters
    id = MEANINGS.get((precision, name, round(each)) if each == round(each) else ("", "", 0), "bytes")
    if got == 8 * count * parameters:
        id = "bits"
    group = name.replace("_", "-")
    yield Failure(group=group, id=id, values={**told, "got": f"{each:.4g}", "expected": count})


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
