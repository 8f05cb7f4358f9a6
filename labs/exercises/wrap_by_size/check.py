"""Checks `units(model, least)`: FSDP's units by size, from the leaves up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

CASES = (Case(name="arithmetic", ranks=1, communicates=False),)


def block(width: int) -> dict[str, Any]:
    """One transformer layer's elements by module."""
    return {
        "norm": {"weight": width},
        "attention": {"qkv": {"weight": 3 * width**2}, "out": {"weight": width**2}},
        "network": {"up": {"weight": 4 * width**2}, "down": {"weight": 4 * width**2}},
    }


SMALL = {"embedding": {"weight": 80}, "blocks": {"0": block(4), "1": block(4)}, "head": {"weight": 80}}
QUESTIONS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"a": {"weight": 6}, "b": {"weight": 2}}, 5),
    ({"outer": {"first": {"weight": 3}, "second": {"weight": 9}, "bias": 4}}, 5),
    ({"outer": {"inner": {"weight": 8}, "bias": 1}, "scale": 7}, 8),
    (SMALL, 64),
    (SMALL, 180),
    (SMALL, 10_000),
    ({"only": {"weight": 5}}, 5),
)
"""Trees and thresholds."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    units = student["units"]
    return Work(value={"answers": [plain(units(model, least)) for model, least in QUESTIONS]})


def plain(given: Any) -> Any:
    """A list of units as pairs of names and numbers, anything else as a word."""
    if not isinstance(given, list) or not all(isinstance(unit, dict) for unit in given):
        return kind(given)
    return [[[str(name), part if type(part) is int else kind(part)] for name, part in unit.items()] for unit in given]


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    answers: Any = result.get("answers")
    for (model, least), got in zip(QUESTIONS, answers, strict=True):
        yield from compare_units(got, model, least)


def compare_units(got: Any, model: Mapping[str, Any], least: int) -> Iterator[Failure]:
    whole = elements(model, "")
    told: dict[str, object] = {"elements": sum(whole.values()), "least": least}
    if not isinstance(got, list):
        yield Failure(group="shape", id="not-a-list", values={**told, "got": str(got)})
        return
    found = [dict(unit) for unit in got]
    told["got"] = shown(found)
    names = [name for unit in found for name in unit]
    missing, twice = sorted(set(whole) - set(names)), sorted({name for name in names if names.count(name) > 1})
    strange = sorted(name for name in names if name not in whole)
    expected = expected_units(model, least)
    if strange:
        yield Failure(group="shape", id="other-name", values={**told, "name": strange[0], "known": min(whole)})
    elif twice:
        yield Failure(group="once", id="twice", values={**told, "name": twice[0]})
    elif missing and found == expected[:-1]:
        yield Failure(group="once", id="no-root", values={**told, "name": missing[0]})
    elif missing:
        yield Failure(group="once", id="missing", values={**told, "name": missing[0]})
    elif found != expected:
        told["expected"] = shown(expected)
        small = next((unit for unit in found[:-1] if sum(unit.values()) < least), None)
        if small is not None:
            yield Failure(
                group="size", id="too-small", values={**told, "name": min(small), "size": sum(small.values())}
            )
        elif [*map(sorted, found)] == [*map(sorted, expected[:-1])]:
            yield Failure(group="size", id="no-last", values=told)
        elif sorted(map(sorted, found)) == sorted(map(sorted, expected)):
            yield Failure(group="size", id="order", values=told)
        else:
            yield Failure(group="size", id="other", values=told)


def elements(module: Mapping[str, Any], path: str) -> dict[str, int]:
    """All parameters under a module, by full name."""
    found: dict[str, int] = {}
    for name, part in module.items():
        found |= elements(part, f"{path}{name}.") if isinstance(part, dict) else {f"{path}{name}": part}
    return found


def expected_units(model: Mapping[str, Any], least: int) -> list[dict[str, int]]:
    """The same without recursion into what is taken: paths of modules, the deepest first, take what is loose."""
    loose, made = elements(model, ""), []
    for path in modules(model, ""):
        inside = {name: size for name, size in loose.items() if name.startswith(path)}
        if sum(inside.values()) >= least:
            made.append(inside)
            loose = {name: size for name, size in loose.items() if name not in inside}
    return [*made, loose]


def modules(module: Mapping[str, Any], path: str) -> Iterator[str]:
    """The paths of all modules inside, each after its own."""
    for name, part in module.items():
        if isinstance(part, dict):
            yield from modules(part, f"{path}{name}.")
            yield f"{path}{name}."


def shown(units: Sequence[Mapping[str, int]]) -> str:
    """Units as lists of names, shortened."""
    text = " | ".join(", ".join(unit) or "-" for unit in units)
    return text if len(text) <= 160 else f"{text[:150]} ..."


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
