"""What is taught, asked and practised, put together in one file: every objective and misconception with its unit, its
items and its exercises.

`curriculum.yaml` is written by `python -m quiz curriculum` from the lists, the banks and the exercises, and never by
hand; `python -m quiz check` says when it is out of step, and names every orphan: an objective that nothing asks for, a
misconception that no answer stands for, an exercise that serves no objective.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from labs.exercises import content
from quiz.items import FOLDER, Inversion, Item, Option, Pair, Slip, items, misconceptions, objectives, units, validated
from quiz.policy import policy

FILE = FOLDER / "curriculum.yaml"
SCHEMA = "curriculum.schema.json"
HEAD = "# Written by `python -m quiz curriculum` from the lists, the banks and the exercises; not by hand.\n"


def misconceptions_of(item: Item) -> Iterator[str]:
    """The misconceptions that the wrong answers of an item stand for."""
    parts: tuple[Option | Slip | Inversion | Pair, ...] = (*item.options, *item.slips, *item.inversions, *item.pairs)
    for part in parts:
        if part.misconception:
            yield part.misconception


def curriculum() -> Mapping[str, Any]:
    """The content of `curriculum.yaml`, as the lists, banks and exercises have it now."""
    asked, mistaken = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for item in (each for unit in units() for each in items(unit)):
        asked[item.objective].append(item.id)
        for id in dict.fromkeys(misconceptions_of(item)):
            mistaken[id].append(item.id)
    practised, broken = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for id in content.ids():
        for objective in content.written(id)["objectives"]:
            practised[objective].append(id)
        for misconception in content.written(id).get("misconceptions", ()):
            broken[misconception].append(id)
    return {
        "version": 1,
        "objectives": [
            {"id": each.id, "unit": each.unit, "items": asked[each.id], "exercises": practised[each.id]}
            for each in objectives()
        ],
        "misconceptions": [
            {"id": each.id, "unit": each.unit, "items": mistaken[each.id], "exercises": broken[each.id]}
            for each in misconceptions().values()
        ],
    }


def exercises_of(misconception: str) -> tuple[str, ...]:
    """The exercises in which a misconception shows, as `curriculum.yaml` has them; else those of its unit."""
    own = _exercises_by_misconception().get(misconception, ())
    return own or tuple(
        id for id in content.ids() if content.written(id)["unit"] == misconceptions()[misconception].unit
    )


@functools.cache
def _exercises_by_misconception() -> Mapping[str, tuple[str, ...]]:
    return {each["id"]: tuple(each["exercises"]) for each in validated(FILE, SCHEMA)["misconceptions"]}


def text(content: Mapping[str, Any]) -> str:
    """The file as it is written: one line for each field."""
    return HEAD + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=10_000)


def write(path: Path = FILE) -> None:
    path.write_text(text(curriculum()), encoding="utf-8")


def units_of(ids: Iterable[str]) -> set[str]:
    """The units whose banks hold these items."""
    wanted = set(ids)
    return {unit for unit in units() for item in items(unit) if item.id in wanted}


def faults(path: Path = FILE) -> Iterator[str]:
    """Orphans, names that no list has, and a file out of step; one sentence each."""
    known = {each.id: each.unit for each in objectives()}
    for id in content.ids():
        own = content.written(id)
        unit, served = own["unit"], own["objectives"]
        yield from (
            f"exercise '{id}' names objective '{each}', which there is not" for each in served if each not in known
        )
        yield from (
            f"exercise '{id}' of {unit} names objective '{each}', which belongs to {known[each]}"
            for each in served
            if known.get(each, unit) != unit
        )
        if not served and unit in known.values():
            yield f"exercise '{id}' serves no objective of {unit}"
        yield from (
            f"exercise '{id}' names misconception '{each}', which there is not"
            for each in own.get("misconceptions", ())
            if each not in misconceptions()
        )
    made = curriculum()
    for each in made["misconceptions"]:
        if not each["items"]:
            yield f"no wrong answer stands for misconception '{each['id']}'"
        elif each["unit"] not in units():
            yield f"misconception '{each['id']}' leads to {each['unit']}, which there is not"
        elif each["unit"] in policy().begun and not units_of(each["items"]) <= set(policy().begun):
            yield f"misconception '{each['id']}' leads to {each['unit']}, whose lesson is not there yet"
    if not path.is_file() or validated(path, SCHEMA) != made:
        yield f"{path.name} is out of step; write it with: python -m quiz curriculum"
