"""Checks `ring_attention`: each rank's output beside attention over the whole sequence in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, generator, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="3 ranks", ranks=3),
    Case(name="4 ranks", ranks=4),
)
GROUPS: dict[int, tuple[str, ...]] = {2: ("two-ranks",), 3: ("more-ranks",), 4: ("order", "large")}
"""By number of ranks, the groups of points; each has a sequence of its own."""
HEADS, SIZE = 2, 3
LARGE = 40.0
"""Queries and keys so much larger: exp of their scores is more than a float64 can hold."""


def positions(group: str, ranks: int) -> list[Tensor]:
    """Where each rank's positions stand: one stretch after the other, in zigzag order for `order`."""
    if group == "order":
        chunks = torch.arange(4 * ranks).chunk(2 * ranks)
        return [torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]]) for rank in range(ranks)]
    return list(torch.arange(4 * ranks).chunk(ranks))


def sequence(seed: int, group: str, ranks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the whole sequence."""
    chance = generator(seed, ranks, len(group))
    q, k, v = (torch.randn(HEADS, 4 * ranks, SIZE, generator=chance, dtype=torch.float64) for _ in range(3))
    return (q * LARGE, k * LARGE, v) if group == "large" else (q, k, v)


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    ring_attention = student["ring_attention"]
    rank, ranks = dist.get_rank(group), case.ranks
    tensors: dict[str, Tensor] = {}
    with Tracker() as tracker:
        for name in GROUPS[ranks]:
            where = positions(name, ranks)
            own = [x[:, where[rank]].clone() for x in sequence(seed, name, ranks)]
            out = ring_attention(*own, [each.clone() for each in where], group=group)
            if not isinstance(out, Tensor):
                raise Found(name, "no-output", got=kind(out))
            tensors[name] = out.detach().clone()
    return Work(value={name: count.as_dict() for name, count in tracker.collectives.items()}, tensors=tensors)


def attention(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    """Softmax over the keys that are not hidden, all at once; zero where all are."""
    scores = (q @ k.mT / SIZE**0.5).masked_fill(hidden, -torch.inf)
    out: Tensor = scores.softmax(-1).nan_to_num() @ v
    return out


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    for name in GROUPS[case.ranks]:
        where = positions(name, case.ranks)
        q, k, v = sequence(seed, name, case.ranks)
        for result in results:
            rank = result.rank
            told: dict[str, Any] = {"ranks": case.ranks}
            expected = truth(q, k, v, where, rank)
            got = result.tensors.get(name)
            if failure := misshapen(got, expected, group=name, rank=rank, **told):
                nan = "overflow" if name == "large" else "all-hidden"
                yield Failure(group=name, id=nan, rank=rank) if failure.id == "not-finite" else failure
            elif got is not None and (
                failure := different(got, expected, meanings(q, k, v, where, rank), group=name, rank=rank, **told)
            ):
                yield failure


def truth(q: Tensor, k: Tensor, v: Tensor, where: Sequence[Tensor], rank: int) -> Tensor:
    """What one process gives for the positions of this rank."""
    here = where[rank]
    return attention(q[:, here], k, v, torch.arange(k.size(1)) > here.unsqueeze(-1))


def meanings(
    q: Tensor, k: Tensor, v: Tensor, where: Sequence[Tensor], rank: int
) -> dict[str, Tensor | Sequence[Tensor]]:
    """What a rank has if one thing is missing."""
    ranks, here = len(where), where[rank]
    order = [where[(rank - turn) % ranks] for turn in range(ranks)]
    blocks = [attention(q[:, here], k[:, at], v[:, at], at > here.unsqueeze(-1)) for at in order]
    nothing = torch.zeros(len(here), k.size(1), dtype=torch.bool)
    local, turned, by_rank = (nothing.clone() for _ in range(3))
    for turn, at in enumerate(order):
        by_rank[:, at] = (rank - turn) % ranks > rank
        local[:, at] = torch.ones(len(here), len(at), dtype=torch.bool).triu(1)
        turned[:, at] = where[(rank + turn) % ranks] > here.unsqueeze(-1)
    by_rank[:, here] = here > here.unsqueeze(-1)
    stayed = torch.cat([at > here.unsqueeze(-1) for at in order], dim=-1)
    return {
        "by-rank": attention(q[:, here], k, v, by_rank),
        "not-passed": attention(q[:, here], k[:, here].repeat(1, ranks, 1), v[:, here].repeat(1, ranks, 1), stayed),
        "own-only": blocks[0],
        "last-only": [*blocks[1:], attention(q[:, here], k[:, order[-1]], v[:, order[-1]], nothing[:, order[-1]])],
        "added": torch.stack(blocks).sum(0),
        "averaged": torch.stack(blocks).mean(0),
        "local-mask": attention(q[:, here], k, v, local),
        "no-mask": attention(q[:, here], k, v, nothing),
        "other-way": attention(q[:, here], k, v, turned),
        "unscaled": truth(q * SIZE**0.5, k, v, where, rank),
    }


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    if len(GROUPS[case.ranks]) > 1:
        return
    sent = results[0].get("send", default={"count": 0, "bytes": 0})
    others = sorted(set(results[0].value) - {"send", "receive"})
    enough = (case.ranks - 1) * 2 * HEADS * 4 * SIZE * 8
    if others:
        yield Failure(group="two-ranks", id="collective", values={"names": ", ".join(others)})
    elif sent["bytes"] > enough:
        yield Failure(group="two-ranks", id="traffic", values={"got": sent["bytes"], "expected": enough})
