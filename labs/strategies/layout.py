"""Which rank does what where data, pipeline, tensor and context parallelism meet (Narayanan et al. 2021, section 3).

Every rank has one place on each axis. Counting goes through the tensor axis first, as in Megatron:

    rank = ((pipeline x dp + data) x cp + context) x tp + tensor

Ranks that stand next to each other are joined by the fastest links, so the axis that talks the most comes first:

    tensor      activations, several times in every layer, and every rank waits    inside a machine
    context     keys and values, in every layer, while attention computes
    data        gradients, once a step
    pipeline    activations of one boundary, once for each micro-batch             between machines
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, product

AXES = ("pipeline", "data", "context", "tensor")
"""From the outermost to the innermost."""


class DoesNotFit(ValueError):
    """A layout that cannot run: `rule` is the short name of what it breaks, `values` the numbers in the sentence."""

    def __init__(self, rule: str, **values: object) -> None:
        super().__init__(RULES[rule].format(**values))
        self.rule, self.values = rule, values


RULES = {
    "degree": "{axis} is {value}: every axis has at least one rank.",
    "stage": "ZeRO has stages 0 to 3; {value} is none of them.",
    "zero": "ZeRO stage {zero} reduces gradients in every backward, and stage 3 gathers parameters there as well. A"
    " pipeline lives on many micro-batches, and a layout reduces once, after the last of them. Take stage 0 or 1.",
    "ranks": "This layout has {needed} ranks ({dp} data x {pp} pipeline x {tp} tensor x {cp} context), and there are"
    " {ranks}.",
    "heads": "Each tensor rank computes whole attention heads: {heads} heads do not divide by {tp}."
    " Take a number of heads that {tp} divides, or fewer tensor ranks.",
    "layers": "Each of the {stages} pipeline stages needs a layer of its own, and there are {layers}. Take"
    " more layers, or fewer stages.",
    "length": "Each context rank holds two chunks of every sequence: {length} positions are too few for {cp} ranks."
    " Take {least} or more.",
    "sequence": "Sequence parallelism cuts the {local} positions of a rank into {tp} equal parts, which do not divide."
    " Nearest that works: {nearest} positions.",
    "micro-batches": "{micro_batches} micro-batches never fill a pipeline of {pp} stages: some would always wait. Take"
    " {pp} or more; the more, the smaller the bubble.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How many ranks each axis has. ZeRO shards over data and context together, in stage 1 the optimizer states.

    `sequence` is Megatron's sequence parallelism on the tensor axis; `chunks` is how many stages each pipeline rank
    holds. Raises DoesNotFit for what could not run on any number of ranks.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    cp: int = 1
    zero: int = 0
    sequence: bool = False
    chunks: int = 1

    def __post_init__(self) -> None:
        for axis in ("dp", "pp", "tp", "cp", "chunks"):
            if getattr(self, axis) < 1:
                raise DoesNotFit("degree", axis=axis, value=getattr(self, axis))
        if self.zero not in range(4):
            raise DoesNotFit("stage", value=self.zero)
        if self.zero > 1:
            raise DoesNotFit("zero", zero=self.zero)

    def fits(self, *, ranks: int, layers: int, heads: int, length: int, micro_batches: int) -> Layout:
        """Itself. Raises DoesNotFit where these ranks, this model or this batch are not what it needs."""
        if ranks != self.ranks():
            raise DoesNotFit("ranks", needed=self.ranks(), dp=self.dp, pp=self.pp, tp=self.tp, cp=self.cp, ranks=ranks)
        if heads % self.tp:
            raise DoesNotFit("heads", heads=heads, tp=self.tp)
        if layers < self.pp * self.chunks:
            raise DoesNotFit("layers", stages=self.pp * self.chunks, layers=layers)
        if length < 2 * self.cp and self.cp > 1:
            raise DoesNotFit("length", length=length, cp=self.cp, least=2 * self.cp)
        if self.sequence and self.positions(length) % self.tp:
            nearest = next(more for more in count(length) if not self.positions(more) % self.tp)
            raise DoesNotFit("sequence", local=self.positions(length), tp=self.tp, nearest=nearest)
        if micro_batches < self.pp:
            raise DoesNotFit("micro-batches", micro_batches=micro_batches, pp=self.pp)
        return self

    def ranks(self) -> int:
        return self.pp * self.dp * self.cp * self.tp

    def degrees(self) -> dict[str, int]:
        """The ranks of each axis, from the outermost to the innermost."""
        return dict(zip(AXES, (self.pp, self.dp, self.cp, self.tp), strict=True))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank stands on each axis: the digits of its number."""
        places = {}
        for axis, degree in reversed(self.degrees().items()):
            rank, places[axis] = divmod(rank, degree)
        return {axis: places[axis] for axis in AXES}

    def rank_at(self, **places: int) -> int:
        """The rank at these coordinates; 0 on an axis that is not named."""
        rank = 0
        for axis, degree in self.degrees().items():
            rank = rank * degree + places.get(axis, 0)
        return rank

    def group(self, rank: int, *axes: str) -> list[int]:
        """The ranks that differ from `rank` on these axes only, itself among them, in order."""
        here = self.coordinates(rank)
        moves = [range(self.degrees()[axis]) if axis in axes else [here[axis]] for axis in AXES]
        return [self.rank_at(**dict(zip(AXES, places, strict=True))) for places in product(*moves)]

    def groups(self, *axes: str) -> list[list[int]]:
        """All groups of these axes: every rank is in exactly one."""
        return [group for rank in range(self.ranks()) if (group := self.group(rank, *axes))[0] == rank]

    def positions(self, length: int) -> int:
        """Positions of a sequence on one context rank: two chunks, padded to equal size (zigzag), or all of them."""
        return length if self.cp == 1 else 2 * -(-length // (2 * self.cp))

    def stages(self, rank: int) -> Sequence[int]:
        """The pipeline stages that a rank holds."""
        return range(self.coordinates(rank)["pipeline"], self.pp * self.chunks, self.pp)
