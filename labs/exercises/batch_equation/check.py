"""Checks `batch_sizes(config, ranks)`: DeepSpeed's batch equation, solved or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind
from labs.planner.deepspeed_config import BATCH, read

CASES = (Case(name="arithmetic", ranks=1, communicates=False),)
TRAIN, MICRO, STEPS = BATCH
QUESTIONS: tuple[tuple[dict[str, int], int], ...] = (
    ({TRAIN: 12, MICRO: 3, STEPS: 4}, 1),
    ({MICRO: 4, STEPS: 2}, 8),
    ({TRAIN: 64, STEPS: 2}, 8),
    ({TRAIN: 64, MICRO: 4}, 8),
    ({TRAIN: 96}, 4),
    ({MICRO: 5}, 6),
    ({TRAIN: 1920, MICRO: 1}, 8),
    ({TRAIN: 64, MICRO: 4, STEPS: 2}, 8),
    ({}, 4),
    ({STEPS: 8}, 4),
    ({TRAIN: 64, MICRO: 4, STEPS: 16}, 8),
    ({TRAIN: 30, MICRO: 4}, 2),
    ({TRAIN: 10}, 4),
    ({TRAIN: 8, STEPS: 4}, 4),
)
"""Settings and ranks: some that have one solution, and some that have none."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    batch_sizes = student["batch_sizes"]
    found: list[Any] = []
    for config, ranks in QUESTIONS:
        try:
            given = batch_sizes(dict(config), ranks)
        except ValueError:
            found.append("refused")
            continue
        found.append({name: plain(given.get(name)) for name in BATCH} if isinstance(given, dict) else kind(given))
    return Work(value={"answers": found})


def plain(value: object) -> int | str:
    """A whole number as it is, anything else as a word."""
    return value if type(value) is int else kind(value)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    answers: Any = result.get("answers")
    for (config, ranks), got in zip(QUESTIONS, answers, strict=True):
        batch = read(json.dumps(config), ranks=ranks).batch
        expected = None if batch is None else {TRAIN: batch.train, MICRO: batch.micro, STEPS: batch.accumulation}
        yield from compare_answer(got, config, ranks, expected)


def compare_answer(
    got: Any, config: Mapping[str, int], ranks: int, expected: Mapping[str, int] | None
) -> Iterator[Failure]:
    told: dict[str, object] = {"config": shown(config), "ranks": ranks}
    if got == "refused":
        if expected is not None:
            yield Failure(group="solved", id="refused", values={**told, "expected": shown(expected)})
        return
    if not isinstance(got, dict):
        yield Failure(group="shape", id="not-a-dict", values={**told, "got": str(got)})
        return
    for name in BATCH:
        if type(got[name]) is not int:
            id = "no-key" if got[name] == "None" else "not-whole"
            yield Failure(group="shape", id=id, values={**told, "name": name, "got": str(got[name])})
            return
    told["got"] = shown(got)
    if expected is None:
        yield Failure(group="refused", id="not-refused", values=told)
    elif got != expected:
        without = ranks > 1 and got[TRAIN] == got[MICRO] * got[STEPS]
        changed = [name for name in config if got[name] != config[name]]
        id = "changed" if changed else "without-ranks" if without else "other"
        yield Failure(group="solved", id=id, values={**told, "expected": shown(expected), "name": (changed or [""])[0]})


def shown(config: Mapping[str, Any]) -> str:
    """The settings as JSON has them."""
    return json.dumps(dict(config))


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
