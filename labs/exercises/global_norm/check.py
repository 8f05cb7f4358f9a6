"""Checks `global_norm(held, place)`: the norm on each rank of three meshes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labs.exercises.places import held, place_of
from labs.exercises.trial import Case, Failure, Result, Student, Work, different, kind, misshapen
from labs.strategies.layout import Layout

CASES = (
    Case(name="2 tensor x 2 pipeline", ranks=4),
    Case(name="2 data x 2 tensor", ranks=4),
    Case(name="2 data x 2 tensor x 2 pipeline", ranks=8, group="three-axes"),
)
LAYOUTS = (Layout(tp=2, pp=2), Layout(dp=2, tp=2), Layout(dp=2, tp=2, pp=2))
GROUPS = {
    "own": "axes",
    "tensor-only": "axes",
    "pipeline-only": "axes",
    "data-too": "axes",
    "whole-often": "once",
    "copy-too": "once",
    "everything": "once",
    "squares": "norm",
    "norms-added": "norm",
}
"""The group of points of each thing that a wrong number can be."""


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    global_norm = student["global_norm"]
    layout = LAYOUTS[CASES.index(case)]
    place = place_of(layout)
    found = global_norm(held(seed, layout, layout.rank_at(**place.number)), place)
    if not isinstance(found, Tensor):
        return Work(value=kind(found))
    return Work(value="tensor", tensors={"norm": found.detach().clone().as_subclass(torch.Tensor)})


def counted(seed: int, layout: Layout, rank: int, *, whole_once: bool = True, copies: bool = False) -> Tensor:
    """The sum of squares that a rank adds."""
    first = layout.coordinates(rank)["tensor"] == 0 or not whole_once
    squares = [
        each.gradient.square().sum()
        for each in held(seed, layout, rank)
        if (each.split or first) and (copies or not each.copy)
    ]
    return torch.stack([*squares, torch.zeros((), dtype=torch.float64)]).sum()


def norm(seed: int, layout: Layout, rank: int, *axes: str, **rules: bool) -> Tensor:
    """The norm that a rank finds if it sums over these axes."""
    return total(seed, layout, rank, *axes, **rules).sqrt()


def total(seed: int, layout: Layout, rank: int, *axes: str, **rules: bool) -> Tensor:
    return torch.stack([counted(seed, layout, each, **rules) for each in layout.group(rank, *axes)]).sum()


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    layout = LAYOUTS[CASES.index(case)]
    for result in results:
        rank, given = result.rank, result.tensors.get("norm")
        model = ("tensor", "pipeline")
        expected = norm(seed, layout, rank, *model)
        if given is None:
            yield Failure(group="shape", id="no-number", rank=rank, values={"got": result.value})
            continue
        if failure := misshapen(given, expected, group="shape", rank=rank):
            yield failure
            continue
        added = torch.stack([norm(seed, layout, each) for each in layout.group(rank, *model)]).sum()
        meanings: dict[str, Tensor | Sequence[Tensor]] = {
            "data-too": norm(seed, layout, rank, *model, "data"),
            "tensor-only": norm(seed, layout, rank, "tensor"),
            "pipeline-only": norm(seed, layout, rank, "pipeline"),
            "whole-often": norm(seed, layout, rank, *model, whole_once=False),
            "copy-too": norm(seed, layout, rank, *model, copies=True),
            "everything": norm(seed, layout, rank, *model, whole_once=False, copies=True),
            "own": [norm(seed, layout, rank), norm(seed, layout, rank, whole_once=False, copies=True)],
            "squares": expected.square(),
            "norms-added": added,
        }
        told = {"dp": layout.dp, "tp": layout.tp, "pp": layout.pp}
        if failure := different(given, expected, meanings, group="norm", rank=rank, **told):
            yield replace(failure, group=GROUPS.get(failure.id, "norm"))


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    yield from ()
