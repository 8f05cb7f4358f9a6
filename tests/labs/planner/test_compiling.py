"""When compiling pays, and how often torch compiles."""

from typing import Any

import pytest
import torch
from torch import nn

from labs.planner.compiling import compilations, steps_until_paid


def test_compiling_pays_where_both_have_taken_as_long() -> None:
    first, eager, times = 60.0, 0.6, 1.25
    paid = steps_until_paid(first=first, eager=eager, times=times)
    assert paid * eager == pytest.approx(first + (paid - 1) * eager / times)
    assert steps_until_paid(first=1, eager=1, times=1) == float("inf")


def test_torch_compiles_as_often_as_is_said() -> None:
    made: list[Any] = []

    def counting(graph: Any, inputs: Any) -> Any:  # noqa: ARG001
        made.append(graph)
        return graph.forward

    torch.compiler.reset()
    layer = torch.compile(nn.Linear(4, 4), backend=counting)
    for size in (8, 8, 5, 9, 5, 1):
        layer(torch.randn(size, 4))
    torch.compiler.reset()
    assert len(made) == compilations(first=8, second=5, third=9) == 3
