"""Checks `through_experts`: each rank's output and all gradients beside one process that holds every expert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, generator, kind, misshapen
from labs.strategies.expert import Experts
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="few places", ranks=2, group="dropped"),
    Case(name="a rank without tokens", ranks=3, group="empty"),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
TOKENS = {"2 ranks": (5, 5), "few places": (6, 6), "a rank without tokens": (4, 0, 3), "4 ranks": (3, 5, 1, 4)}
HERE, HIDDEN, FEATURES = 2, 3, 4
"""Experts on each rank, and their sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a rank calls with, and the gradient that its output gets."""

    x: Tensor
    expert: Tensor
    gate: Tensor
    dy: Tensor


def places(case: Case) -> int:
    return 2 if case.name == "few places" else max(TOKENS[case.name])


def experts(seed: int, ranks: int) -> Experts:
    """All of them."""
    made = Experts(experts=HERE * ranks, hidden=HIDDEN, features=FEATURES).double()
    chance = generator(seed, 1, ranks)
    for p in made.parameters():
        p.data = torch.randn(p.shape, generator=chance, dtype=torch.float64)
    return made


def inputs(case: Case, seed: int, rank: int) -> Inputs:
    tokens = TOKENS[case.name][rank]
    chance = generator(seed, 2, case.ranks, rank)
    return Inputs(
        x=torch.randn(tokens, HIDDEN, generator=chance, dtype=torch.float64).requires_grad_(),
        # Most tokens want experts of other ranks; where places are few, most want the same.
        expert=torch.randint(0, 2 if case.name == "few places" else HERE * case.ranks, (tokens,), generator=chance),
        gate=torch.rand(tokens, generator=chance, dtype=torch.float64).requires_grad_(),
        dy=torch.randn(tokens, HIDDEN, generator=chance, dtype=torch.float64),
    )


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    through_experts = student["through_experts"]
    rank, ranks = dist.get_rank(group), case.ranks
    own, mine = inputs(case, seed, rank), experts(seed, ranks)
    mine.keep(rank, ranks)

    def run(given: Tensor) -> Tensor:
        wanted = (HERE, ranks * places(case), HIDDEN)
        if not isinstance(given, Tensor) or given.shape != wanted:
            raise Found("shape", "experts-given", got=kind(given), expected=str(wanted))
        made: Tensor = mine(given)
        return made

    with Tracker() as tracker:
        y = through_experts(own.x, own.expert, own.gate, run, count=HERE * ranks, places=places(case), group=group)
        if not isinstance(y, Tensor):
            raise Found("shape", "no-output", got=kind(y))
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    # As in training, where all ranks go on together after a forward, and after a backward.
    dist.all_reduce(y.detach().sum(), group=group)
    tensors = {"y": y.detach().clone()}
    if y.shape == own.dy.shape:
        if not y.requires_grad:
            raise Found("gradients", "cut-off", tokens=len(own.x))
        torch.autograd.backward(y, own.dy)
        dist.all_reduce(y.detach().sum(), group=group)
        found = {"x": own.x.grad, "gate": own.gate.grad, **{name: p.grad for name, p in mine.named_parameters()}}
        tensors |= {f"grad-{name}": each.clone() for name, each in found.items() if each is not None}
    return Work(value=collectives, tensors=tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What one process has for one rank's tokens. `kept` says which found a place; `bare` has no gates yet; `mistakes`
    is what comes out if a step on the way is left out.
    """

    y: Tensor
    bare: Tensor
    kept: Tensor
    mistakes: dict[str, Tensor]
    gradients: dict[str, Tensor]


def twin(case: Case, seed: int) -> list[Truth]:
    """One process with all experts; each rank's tokens have places of their own. An expert's gradient is that of all
    ranks' tokens.
    """
    whole = experts(seed, case.ranks)
    everyone = [inputs(case, seed, rank) for rank in range(case.ranks)]
    bares, keeps, ys = [], [], []
    for own in everyone:
        tokens = torch.arange(len(own.x))
        bare = whole(own.x.expand(len(whole.up), -1, -1))[own.expert, tokens]
        before = (own.expert == own.expert[:, None]) & (tokens < tokens[:, None])
        keeps.append(before.sum(-1) < places(case))
        bares.append(bare.detach())
        ys.append(bare * (own.gate * keeps[-1])[:, None])
    torch.autograd.backward(ys, [own.dy for own in everyone])
    mistakes = {name: astray(case, whole, everyone, name) for name in ("not-sent", "not-returned", "viewed")}
    truths = []
    for rank, own in enumerate(everyone):
        gradients = {"x": whole_gradient(own.x), "gate": whole_gradient(own.gate)}
        gradients |= {name: whole_gradient(p).chunk(case.ranks)[rank] for name, p in whole.named_parameters()}
        truths.append(
            Truth(
                y=ys[rank].detach(),
                bare=bares[rank],
                kept=keeps[rank][:, None],
                mistakes={name: ys[rank] for name, ys in mistakes.items()},
                gradients=gradients,
            )
        )
    return truths


def whole_gradient(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


@torch.no_grad()
def astray(case: Case, whole: Experts, everyone: Sequence[Inputs], mistake: str) -> list[Tensor]:
    """Every rank's output where the tokens are not sent, or the results not sent back, or what arrived is taken for
    ordered by expert.
    """
    ranks, room = case.ranks, places(case)
    seats, given = [], []
    for own in everyone:
        place = torch.tensor([int((own.expert[:t] == own.expert[t]).sum()) for t in range(len(own.x))]).long()
        kept = (place < room).nonzero().squeeze(-1)
        seats.append((kept, own.expert[kept], place[kept]))
        given.append(own.x.new_zeros(HERE * ranks, room, HIDDEN).index_put(seats[-1][1:], own.x[kept]))
    made = []
    for rank in range(ranks):
        parts = given[rank].chunk(ranks) if mistake == "not-sent" else [each.chunk(ranks)[rank] for each in given]
        side_by_side = torch.cat(parts).view(HERE, -1, HIDDEN) if mistake == "viewed" else torch.cat(parts, dim=1)
        here = torch.zeros(HERE * ranks, ranks * room, HIDDEN, dtype=torch.float64)
        here[rank * HERE : (rank + 1) * HERE] = side_by_side
        out = whole(here)[rank * HERE : (rank + 1) * HERE]
        made.append(out.reshape(HERE * ranks, room, HIDDEN) if mistake == "viewed" else torch.cat(out.chunk(ranks, 1)))
    outputs = []
    for rank, (own, (kept, expert, place)) in enumerate(zip(everyone, seats, strict=True)):
        back = made[rank] if mistake != "viewed" else torch.cat([each.chunk(ranks)[rank] for each in made])
        y = torch.zeros_like(own.x)
        outputs.append(y.index_put((kept,), back[expert, place] * own.gate[kept, None]))
    return outputs


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for result, truth in zip(results, twin(case, seed), strict=True):
        own = inputs(case, seed, result.rank)
        told: dict[str, Any] = {"ranks": case.ranks}
        y = result.tensors.get("y")
        if failure := misshapen(y, truth.y, group="shape", rank=result.rank, **told):
            yield failure
            continue
        assert y is not None
        x = own.x.detach()
        meanings: dict[str, Tensor | Sequence[Tensor]] = {
            **truth.mistakes,
            "no-gate": truth.bare * truth.kept,
            "dropped-passed": torch.where(truth.kept, truth.y, x),
            "stream-added": truth.y + x,
            "nothing": torch.zeros_like(x),
        }
        if failure := different(y, truth.y, meanings, group="forward", rank=result.rank, **told):
            yield failure
        for name, expected in truth.gradients.items():
            got = result.tensors.get(f"grad-{name}")
            if got is None:
                yield Failure(group="gradients", id="no-gradient", rank=result.rank, values={"name": name})
                continue
            failure = misshapen(got, expected, group="gradients", rank=result.rank, **told)
            failure = failure or different(got, expected, {}, group="gradients", rank=result.rank, **told)
            if failure:
                yield failure


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    counted = results[0].get(default={})
    moved = sum(each["bytes"] for each in counted.values())
    enough = 2 * HERE * case.ranks * places(case) * HIDDEN * 8
    if moved > enough:
        yield Failure(group="forward", id="traffic", values={"got": moved, "expected": enough})
