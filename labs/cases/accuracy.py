"""A test of a ported model: fixed prompts, the exact tokens that should follow, and where two models part.

Scores are never equal to the last bit: other kernels, other hardware, another order of sums. Tokens of a greedy
generation are, as long as nothing is wrong. Where they part, the scores of both at that token say what it was:

    a tie       the two tokens had nearly equal scores, and rounding decided
    a fault     the right token was clearly ahead, and lost
    overflow    scores that are no numbers

    Shapes:  B prompts, V scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from labs.cases.bloom import Bloom

Kind = Literal["equal", "tie", "fault", "overflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A prompt, the tokens that the right model writes after it, and its scores (T, V) before each of them."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    scores_TV: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How another model does on one prompt. `at` is the first token that differs; `margin` by how much the right model
    prefers its own token there, `gap` the largest difference between the two models' scores up to there. Where scores
    overflow there is neither.
    """

    kind: Kind
    at: int | None
    right: int | None
    got: int | None
    margin: float | None
    gap: float | None


@torch.no_grad()
def expected(model: Bloom, prompts: Sequence[Sequence[int]], *, new: int) -> list[Expected]:
    """What the right model writes."""
    found = []
    for prompt in prompts:
        tokens, scores = list(prompt), []
        for _ in range(new):
            scores.append(scores_of(model, tokens)[-1])
            tokens.append(int(scores[-1].argmax()))
        told = tuple(tokens[len(prompt) :])
        found.append(Expected(prompt=tuple(prompt), tokens=told, scores_TV=torch.stack(scores)))
    return found


@torch.no_grad()
def compare(model: Bloom, right: Expected) -> Difference:
    """One forward over prompt and right answer gives the scores of all its tokens: what a model would write up to the
    first that differs, it is asked for after the same tokens.
    """
    scores_TV = scores_of(model, [*right.prompt, *right.tokens[:-1]])[len(right.prompt) - 1 :]
    if not scores_TV.isfinite().all():
        at = int((~scores_TV.isfinite()).any(-1).nonzero()[0])
        return Difference(kind="overflow", at=at, right=right.tokens[at], got=None, margin=None, gap=None)
    chosen = scores_TV.argmax(-1).tolist()
    parted = [at for at, (a, b) in enumerate(zip(chosen, right.tokens, strict=True)) if a != b]
    upto = parted[0] + 1 if parted else len(chosen)
    gap = float((scores_TV[:upto] - right.scores_TV[:upto]).abs().max())
    if not parted:
        return Difference(kind="equal", at=None, right=None, got=None, margin=0.0, gap=gap)
    at = parted[0]
    margin = float(right.scores_TV[at, right.tokens[at]] - right.scores_TV[at, chosen[at]])
    kind: Kind = "tie" if margin <= 2 * usual(right, scores_TV, at) else "fault"
    return Difference(kind=kind, at=at, right=right.tokens[at], got=chosen[at], margin=margin, gap=gap)


def scores_of(model: Bloom, tokens: Sequence[int]) -> Tensor:
    """The scores (S, V) after each of the tokens, in single precision on the CPU."""
    found = model.scores(torch.tensor([list(tokens)], device=model.embedding.token.weight.device))
    return found[0].float().cpu()


def usual(right: Expected, scores_TV: Tensor, at: int) -> float:
    """How far apart the two models' scores are as a rule: the median over all scores before the token at which they
    part, or at that token where it is the first.
    """
    before = slice(0, max(1, at))
    apart = (scores_TV[before] - right.scores_TV[before]).abs()
    return float(apart.amax(-1).median())
