"""The figure of FSDP2 beside our ZeRO: its numbers are the lab's, in every language, and a formula met is on the bar's
end.
"""

from __future__ import annotations

from typing import Any

import pytest

from labs.planner import fsdp_units
from lessons.figures.sharded import bars, shardings
from translations import language

UNITS = [fsdp_units.Unit(shapes=[(256, 64)]), *[fsdp_units.Unit(shapes=[(64, 64), (64,)])] * 2]


def lab(*names: str) -> dict[str, Any]:
    """As the lab's JSON would be, had every formula been met."""
    found = []
    for name in names:
        told = fsdp_units.predict(UNITS, sharding=name, ranks=4)
        states = {
            "parameters": told.states.parameters,
            "gradients": told.states.gradients,
            "optimizer_states": told.states.optimizer_states,
        }
        theirs = {
            "rest": states,
            "gathered": told.gathered,
            "traffic": sum(told.traffic.values()),
            "predicted": {"states": states, "gathered": told.gathered},
        }
        ours = {**theirs, "predicted": {"states": states, "communication": told.gathered}}
        found.append({"sharding": name, "fsdp": theirs, "ours": ours if name in ("keep", "free") else None})
    return {"shardings": found, "layout": {"dp": 4, "shards": 2, "wrap": "block"}}


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_every_bar_is_in_the_picture_and_in_the_table(code: str) -> None:
    data = lab("none", "keep", "free", "part", "hybrid")
    drawn = shardings(data)(language(code))
    assert drawn.table.count("<tr") == len(bars(data)) + 1 == 8
    for name in ("DDP", "reshard=False", "reshard=True", "reshard=2", "HSDP"):
        assert name in drawn.markup
        assert name in drawn.alt


def test_a_formula_that_was_met_is_the_end_of_its_bar() -> None:
    for each in bars(lab("keep", "free")):
        assert each.formula == each.total


def test_one_sharding_alone_has_a_title_too() -> None:
    assert "at rest" in shardings(lab("free"))(language("en")).alt
