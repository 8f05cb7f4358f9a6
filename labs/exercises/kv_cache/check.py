"""Checks `CachedAttention`: what each rank keeps of keys and values, and every token's output beside one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from labs.exercises.trial import Case, Failure, Found, Result, Student, Work, different, generator, kind, misshapen
from labs.telemetry import Tracker

CASES = (
    Case(name="2 ranks", ranks=2),
    Case(name="4 ranks", ranks=4, group="more-ranks"),
)
B, D, HEADS, TOKENS, ROOM = 3, 8, 4, 5, 7


class Given:
    """Weights and tokens, in float64."""

    def __init__(self, seed: int) -> None:
        chance = generator(seed, 17)
        self.qkv = nn.Linear(D, 3 * D, bias=False, dtype=torch.float64)
        self.out = nn.Linear(D, D, dtype=torch.float64)
        for parameter in (*self.qkv.parameters(), *self.out.parameters()):
            parameter.data = torch.randn(parameter.shape, generator=chance, dtype=torch.float64)
        self.x_TBD = torch.randn(TOKENS, B, D, generator=chance, dtype=torch.float64)


class Twin(Given):
    """The whole attention on one process, over all tokens at once."""

    @torch.no_grad()
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, T, K)."""
        q, k, v = (
            torch.unflatten(each, -1, (HEADS, -1)).permute(1, 2, 0, 3) for each in self.qkv(self.x_TBD).chunk(3, -1)
        )
        return q, k, v

    @torch.no_grad()
    def output(self, token: int, seen: slice, *, room: bool = False, heads: slice | None = None) -> Tensor:
        """y (B, D) of a token without the bias, from the keys and values of `seen` tokens and those of some heads; with
        `room`, places in which nothing is written count as well.
        """
        q_BHTK, k_BHTK, v_BHTK = self.parts()
        q, k, v = q_BHTK[:, :, token : token + 1], k_BHTK[:, :, seen], v_BHTK[:, :, seen]
        if room:
            k, v = (torch.nn.functional.pad(each, (0, 0, 0, ROOM - each.size(2))) for each in (k, v))
        y_BHK = nn.functional.scaled_dot_product_attention(q, k, v).squeeze(2)
        if heads is not None:
            alone = torch.zeros_like(y_BHK)
            alone[:, heads] = y_BHK[:, heads]
            y_BHK = alone
        y_BD: Tensor = y_BHK.flatten(1) @ self.out.weight.T
        return y_BD


def own(rank: int, ranks: int) -> slice:
    """The heads of a rank."""
    return slice(rank * (HEADS // ranks), (rank + 1) * (HEADS // ranks))


def work(student: Student, case: Case, seed: int, group: dist.ProcessGroup) -> Work:
    asked = Given(seed)
    attention: Any = student["CachedAttention"](asked.qkv, asked.out, heads=HEADS, sequences=B, room=ROOM, group=group)
    outputs, moved = [], 0
    for x_BD in asked.x_TBD:
        with torch.no_grad(), Tracker() as tracker:
            y = attention.step(x_BD.clone())
        moved = sum(count.bytes for count in tracker.collectives.values())
        if not isinstance(y, Tensor):
            raise Found("shape", "no-output", got=kind(y))
        outputs.append(y.detach().clone())
    tensors = {f"y-{token}": y for token, y in enumerate(outputs)}
    for name in ("keys", "values"):
        given = getattr(attention, name, None)
        if not isinstance(given, Tensor):
            raise Found("shape", "no-cache", name=name, got=kind(given))
        tensors[name] = given.detach().clone()
    return Work(value={"moved": moved}, tensors=tensors)


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    twin = Twin(seed)
    for result in results:
        yield from kept(twin, case, result)
        yield from outputs(twin, case, result)


def kept(twin: Twin, case: Case, result: Result) -> Iterator[Failure]:
    """Keys and values of this rank's heads, in the order in which the tokens came."""
    _, *both = twin.parts()
    for name, whole_BHTK in zip(("keys", "values"), both, strict=True):
        filled = nn.functional.pad(whole_BHTK, (0, 0, 0, ROOM - TOKENS))
        expected, got = filled[:, own(result.rank, case.ranks)], result.tensors.get(name)
        told: dict[str, Any] = {"name": name, "ranks": case.ranks}
        if got is not None and got.shape == filled.shape != expected.shape:
            yield Failure(group="ownership", id="all-heads", rank=result.rank, values={**told, "got": kind(got)})
        elif failure := misshapen(got, expected, group="ownership", rank=result.rank, **told):
            yield failure
        elif got is not None:
            last = torch.zeros_like(expected)
            last[:, :, 0] = expected[:, :, TOKENS - 1]
            meanings: dict[str, Tensor | Sequence[Tensor]] = {
                "nothing-kept": torch.zeros_like(expected),
                "one-place": last,
                "other-heads": [filled[:, own(rank, case.ranks)] for rank in range(case.ranks) if rank != result.rank],
            }
            if failure := different(got, expected, meanings, group="ownership", rank=result.rank, **told):
                yield failure


def outputs(twin: Twin, case: Case, result: Result) -> Iterator[Failure]:
    """The output for every token, the same on all ranks; the first that is wrong is told."""
    bias = twin.out.bias.detach()
    for token in range(TOKENS):
        seen, ranks = slice(0, token + 1), case.ranks
        right, mine = twin.output(token, seen), twin.output(token, seen, heads=own(result.rank, ranks))
        told: dict[str, Any] = {"token": token + 1, "ranks": ranks}
        got = result.tensors.get(f"y-{token}")
        if failure := misshapen(got, right, group="forward", rank=result.rank, **told):
            yield failure
            return
        assert got is not None
        meanings: dict[str, Tensor | Sequence[Tensor]] = {
            "unfilled": twin.output(token, seen, room=True) + bias,
            "partial": [mine + bias, mine],
            "bias-times": right + ranks * bias,
            "bias-missing": right,
        }
        if token:
            meanings["alone"] = twin.output(token, slice(token, token + 1)) + bias
            meanings["without-itself"] = twin.output(token, slice(0, token)) + bias
        if failure := different(got, right + bias, meanings, group="forward", rank=result.rank, **told):
            yield failure
            return


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    """One all-reduce of (B, D) a token is enough."""
    enough, moved = 2 * B * D * 8, results[0].get("moved", default=0)
    if case.ranks > 1 and moved > enough:
        yield Failure(group="traffic", id="traffic", values={"got": moved, "expected": enough})
