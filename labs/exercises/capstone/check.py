"""Checks `find(mesh)`: what each rank says of training steps into which one fault was planted, and of some without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from labs.exercises.mesh import LAYOUT, PHASES, RULES, Fault, Mesh, planted
from labs.exercises.trial import Case, Failure, Result, Student, Work, kind
from labs.runner import rank as this
from labs.strategies.parallel import mesh_of

CASES = (
    Case(name="a fault on all ranks", ranks=4),
    Case(name="a fault on some ranks", ranks=4),
    Case(name="rounding, and no fault", ranks=4, group="alarm"),
)
KINDS = (
    (("data", "added"), ("tensor", "skipped"), ("start", "swapped")),
    (("step", "skipped"), ("data", "skipped"), ("tensor", "added"), ("start", "swapped")),
)
TRUTHS = {"skipped": "is-skipped", "added": "is-added", "swapped": "is-swapped"}
"""The texts that say what each rule's fault looks like."""


def faults(case: Case, seed: int) -> list[Fault | None]:
    """What is planted into each training step of a case."""
    number = CASES.index(case)
    if number == len(KINDS):
        return [None]
    return [planted(seed, phase, rule, all_ranks=number == 0) for phase, rule in KINDS[number]]


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    find = student["find"]
    answers, devices = [], mesh_of(LAYOUT, device="cpu")
    for step, fault in enumerate(faults(case, seed)):
        this.step(step)
        mesh = Mesh(seed + step, fault, devices=devices, dtype=torch.float64 if fault else torch.float32)
        answers.append(told(find(mesh)))
    return Work(value=answers)


def told(found: object) -> dict[str, Any] | str | None:
    """What a rank says, as JSON; the kind of what is no answer."""
    if found is None:
        return None
    if not isinstance(found, Fault) or not isinstance(found.ranks, list | tuple | set | range):
        return kind(found)
    try:
        ranks = sorted({int(rank) for rank in found.ranks})
    except (TypeError, ValueError):
        return kind(found)
    return {"phase": str(found.phase), "parameter": str(found.parameter), "ranks": ranks, "rule": str(found.rule)}


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for step, fault in enumerate(faults(case, seed)):
        found: list[Failure] = []
        for result in results:
            answer = result.get(step, default="nothing")
            if isinstance(answer, str):
                found.append(Failure(group="answer", id="no-fault", rank=result.rank, values={"got": answer}))
        first = results[0].get(step)
        other = next((result for result in results if result.get(step) != first), None)
        if not found and other is not None:
            values = {"other": other.rank, "mine": words(first), "theirs": words(other.get(step))}
            found.append(Failure(group="answer", id="disagree", values=values))
        if not found:
            found += judged(fault, first)
        yield from found
        if found:
            return


def judged(fault: Fault | None, answer: dict[str, Any] | None) -> list[Failure]:
    """What is wrong with the answer on which all ranks agree."""
    if fault is None:
        return [] if answer is None else [Failure(group="alarm", id="false-alarm", values={"got": words(answer)})]
    truth = {**asdict(fault), "expected": words(asdict(fault))}
    if answer is None:
        return [Failure(group="phase", id="nothing-found", values=truth)]
    told = {**truth, **{f"got_{name}": value for name, value in answer.items()}}
    if answer["phase"] not in PHASES or answer["rule"] not in RULES:
        return [Failure(group="answer", id="unknown-word", values=told)]
    if answer["phase"] != fault.phase:
        later = PHASES.index(answer["phase"]) > PHASES.index(fault.phase)
        return [Failure(group="phase", id="follows" if later else "too-early", values=told)]
    if answer["parameter"] != fault.parameter:
        return [Failure(group="parameter", id="other-parameter", values=told)]
    if answer["ranks"] != fault.ranks:
        id = "all-ranks" if len(answer["ranks"]) > len(fault.ranks) else "some-ranks"
        return [Failure(group="ranks", id=id, values=told)]
    if answer["rule"] != fault.rule:
        return [Failure(group="rule", id=TRUTHS[fault.rule], values=told)]
    return []


def words(answer: dict[str, Any] | None) -> str:
    """An answer on one line, as Python would write it."""
    if not isinstance(answer, dict):
        return "None"
    return f"Fault({answer['phase']!r}, {answer['parameter']!r}, {answer['ranks']}, {answer['rule']!r})"


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    yield from ()
