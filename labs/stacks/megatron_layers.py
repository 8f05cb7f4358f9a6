"""Megatron Core's three tensor-parallel layers beside ours and beside torch's unsplit ones, with the same weights, in
fp64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from labs.model import VOCABULARY
from labs.strategies import tensor as ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An unsplit layer with its input, the two that split it, and the dimensions along which a rank has a part of the
    input, the output and the weights; None where it has the whole.
    """

    whole: nn.Module
    given: Tensor
    megatron: nn.Module
    ours: nn.Module
    of_input: int | None
    of_output: int | None
    of_weights: int


def layers_beside(config: Any, *, hidden: int, group: dist.ProcessGroup) -> dict[str, dict[str, float]]:
    """By how much output, gradient of the input and gradient of the weights differ at most from the unsplit layer's."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)

    def part(value: Tensor, dim: int | None) -> Tensor:
        return value if dim is None else value.chunk(ranks, dim=dim)[rank]

    found: dict[str, dict[str, float]] = {}
    for case in cases(config, hidden=hidden, group=group, part=part):
        # A loss that weighs each feature of the output differently, so that a mixed-up order would show.
        weights = torch.linspace(-1, 1, case.whole(case.given).size(-1), dtype=torch.float64)
        output, into, gradient = through(case.whole, case.given, weights)
        wanted = [part(output, case.of_output), part(gradient, case.of_weights)]
        wanted += [] if into is None else [part(into, case.of_input)]
        name = type(case.megatron).__name__
        found[name] = {}
        for who, layer in (("megatron", case.megatron), ("ours", case.ours)):
            own = through(layer, part(case.given, case.of_input), part(weights, case.of_output))
            got = [own[0], own[2]] + ([] if own[1] is None else [own[1]])
            found[name][who] = max(float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True))
    return found


def cases(
    config: Any, *, hidden: int, group: dist.ProcessGroup, part: Callable[[Tensor, int | None], Tensor]
) -> list[Case]:
    """The three layers, with weights and inputs that every rank draws alike."""
    from megatron.core import tensor_parallel as theirs

    generator = torch.Generator().manual_seed(0)
    wide = 4 * hidden

    def pair(make: Callable[[], Any]) -> tuple[Any, Any]:
        """An unsplit layer, and a second one with the same weights for ours, which cuts the parameters it is given."""
        whole, copy = make().double(), make().double()
        for parameter in whole.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data.copy_(drawn)
        copy.load_state_dict(whole.state_dict())
        return whole, copy

    shared = {"config": config, "init_method": lambda weight: weight, "tp_group": group}
    up, own_up = pair(lambda: nn.Linear(hidden, wide))
    down, own_down = pair(lambda: nn.Linear(wide, hidden))
    table, own_table = pair(lambda: nn.Embedding(VOCABULARY, hidden))
    column = theirs.ColumnParallelLinear(hidden, wide, bias=True, gather_output=False, **shared)
    row = theirs.RowParallelLinear(wide, hidden, bias=True, input_is_parallel=True, skip_bias_add=False, **shared)
    embedding = theirs.VocabParallelEmbedding(VOCABULARY, hidden, **shared)
    with torch.no_grad():
        column.weight.copy_(part(up.weight, 0))
        column.bias.copy_(part(up.bias, 0))
        row.weight.copy_(part(down.weight, 1))
        row.bias.copy_(down.bias)
        embedding.weight.copy_(part(table.weight, 0))
    narrow_BSD = torch.randn(3, 5, hidden, generator=generator, dtype=torch.float64)
    wide_BSF = torch.randn(3, 5, wide, generator=generator, dtype=torch.float64)
    tokens_BS = torch.randint(VOCABULARY, (3, 5), generator=generator)
    return [
        Case(
            whole=up,
            given=narrow_BSD,
            megatron=column,
            ours=ours.ColumnParallelLinear(own_up, group=group),
            of_input=None,
            of_output=-1,
            of_weights=0,
        ),
        Case(
            whole=down,
            given=wide_BSF,
            megatron=row,
            ours=ours.RowParallelLinear(own_down, group=group),
            of_input=-1,
            of_output=None,
            of_weights=1,
        ),
        Case(
            whole=table,
            given=tokens_BS,
            megatron=embedding,
            ours=ours.VocabularyParallelEmbedding(own_table, group=group),
            of_input=None,
            of_output=None,
            of_weights=0,
        ),
    ]


def through(layer: nn.Module, given: Tensor, weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Output, and gradients of the input, where it has one, and of the weights. Megatron's give output and bias."""
    layer.zero_grad()
    into = given.clone().requires_grad_() if given.is_floating_point() else given
    output = layer(into)
    output = output[0] if isinstance(output, tuple) else output
    (output * weights).sum().backward()
    parameter: Any = layer.weight
    return output.detach(), into.grad, parameter.grad
