"""What bf16 loses without fp32 masters, in DeepSpeed and in FSDP2 alike."""

from __future__ import annotations

from typing import Any

import pytest

from labs.catalogue import checked, run_lab
from labs.stacks.precision_gap import WAYS, at_end
from shardwise import stacks_shown
from translations import CourseError, translator

SMALL: dict[str, Any] = {"hidden": 32, "heads": 2, "sequence": 16, "warm_up": 60, "steps": 60, "lr": 5e-5}


@pytest.mark.stacks
def test_masters_keep_what_bf16_rounds_away() -> None:
    data = run_lab("precision-gap", ranks=2, **SMALL).data
    ways = data["ways"]
    assert set(ways) == set(WAYS)
    alone = data["reference_losses"]
    for stack, masters, without in (
        ("deepspeed", "deepspeed-masters", "deepspeed-bf16"),
        ("fsdp2", "fsdp2-upcast", "fsdp2-bf16"),
    ):
        near, far = ways[masters], ways[without]
        assert max(abs(a - b) for a, b in zip(near["losses"], alone, strict=True)) < 0.02, stack
        assert at_end(far["losses"]) - at_end(near["losses"]) > 3 * abs(at_end(near["losses"]) - at_end(alone)), stack
        assert at_end(far["losses"]) > at_end(alone) + 0.02, stack
        assert far["lost"] > 0.7 < near["lost"], "as many are too small for one step with masters"
        assert far["still"] > 2 * near["still"], stack
        assert 1.9 < near["adam"] / far["adam"] < 2.1, "4 + 8 bytes against 2 + 4"
    assert len(list(stacks_shown.gap(data, translator("en")))) == 2


@pytest.mark.parametrize(
    ("options", "said"), [({"lr": 0.0}, "learning rate"), ({"warm_up": -1}, "warm-up"), ({"precision": "fp32"}, "fp32")]
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        checked("precision-gap", options, ranks=2)
