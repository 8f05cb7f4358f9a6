"""The layouts that the papers' own runs had, from the tables of `labs/planner/published/`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from labs import planner
from labs.planner.models import Model, models

FOLDER = Path(planner.__file__).parent / "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A layout of a paper: dp x tp x pp on `gpus` accelerators; `source` is the paper, as its authors and year."""

    dp: int
    tp: int
    pp: int
    source: str

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp


def chosen(shape: Model, *, gpus: int) -> tuple[Chosen, ...]:
    """The layouts that papers had for this model on so many accelerators; none where no paper is known."""
    return tuple(each for name, each in _known() if each.gpus == gpus and name == shape.name)


@functools.cache
def _known() -> tuple[tuple[str, Chosen], ...]:
    """Models and layouts. A table of Narayanan et al. (2021) tells models by their shape."""
    megatron, bloom, mtnlg = (_read(name) for name in ("megatron_sc21", "bloom_176b", "mtnlg_530b"))
    found = []
    table = next(each for each in megatron["tables"] if each["id"] == "t1")
    columns = [*table["config_cols"], *table["value_cols"]]
    shapes = {_shape(each): each.name for each in models().values() if each.name.startswith("gpt-")}
    for cells in table["rows"]:
        row = dict(zip(columns, cells, strict=True))
        name = shapes.get((row["layers"], row["hidden"], row["heads"]))
        if name is not None:
            found.append((name, _of(tp=row["tp"], pp=row["pp"], gpus=row["gpus"], source="Narayanan et al. 2021")))
    own = _fact(bloom, "layout")
    found.append(("bloom-176b", _of(tp=own["tp"], pp=own["pp"], gpus=own["gpus"], source="BLOOM 2022")))
    own = _fact(mtnlg, "layout")
    for dp in own["dp"]:
        gpus = dp * own["gpus_per_replica"]
        found.append(("mt-nlg-530b", _of(tp=own["tp"], pp=own["pp"], gpus=gpus, source="Smith et al. 2022")))
    return tuple(found)


def _shape(shape: Model) -> tuple[int, int, int]:
    return shape.layers, shape.hidden, shape.heads


def _of(*, tp: int, pp: int, gpus: int, source: str) -> Chosen:
    return Chosen(dp=gpus // (tp * pp), tp=tp, pp=pp, source=source)


def _fact(file: dict[str, Any], id: str) -> Any:
    return next(each["value"] for each in file["facts"] if each["id"] == id)


def _read(name: str) -> dict[str, Any]:
    found = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found
