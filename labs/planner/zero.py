"""The bytes of data parallelism and ZeRO: the paper's formula, and the same for the labs' own pieces, to the byte.

Mixed precision with Adam takes 2 + 2 + 12 bytes a parameter: bf16 parameters, bf16 gradients, and fp32 master
weights, momentum and variance. ZeRO divides by N what its stage shards (Rajbhandari et al. 2020, figure 1 and table
1). Activations are no part of it: no stage shards them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

STAGES = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes of one parameter, of one gradient, and of its Adam states (a master copy counts where it is a copy)."""

    parameter: int
    gradient: int
    optimizer_states: int

    @property
    def total(self) -> int:
        return self.parameter + self.gradient + self.optimizer_states


PRECISIONS = {"bf16": Precision(2, 2, 12), "fp32": Precision(4, 4, 8), "fp64": Precision(8, 8, 16)}


@dataclass(frozen=True, slots=True)
class ModelStates:
    """Bytes on one rank."""

    parameters: int
    gradients: int
    optimizer_states: int

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer_states


def model_states(*, parameters: int, stage: int, ranks: int, precision: str = "bf16") -> ModelStates:
    """The paper's formula: bytes of model states on one of `ranks` ranks, shards rounded up to whole parameters.

    Stage 1 shards the optimizer states, 2 the gradients as well, 3 the parameters as well.
    """
    checked(stage=stage, ranks=ranks)
    cost = PRECISIONS[precision]
    shard = -(-parameters // ranks)
    return ModelStates(
        parameters=cost.parameter * (shard if stage >= 3 else parameters),
        gradients=cost.gradient * (shard if stage >= 2 else parameters),
        optimizer_states=cost.optimizer_states * (shard if stage >= 1 else parameters),
    )


def traffic(
    *, parameters: int, stage: int, precision: str = "bf16", micro_batches: int = 1, tied: int = 0, ranks: int = 2
) -> int:
    """Bytes that one rank's collectives move in one optimizer step, counted as bytes of the whole buffer.

    stage 0   all-reduce of gradients               2 P
    stage 1   reduce-scatter, all-gather            P + P
    stage 2   a reduce-scatter each micro-batch     k P + P
    stage 3   and two all-gathers each micro-batch  k (P + P + P)

    `tied` of the parameters are used by a second piece, which stage 3 gathers twice more. One rank alone has nobody
    to talk to but its collectives are counted all the same: the formula is of buffers, not of links.
    """
    checked(stage=stage, ranks=ranks)
    moved = {
        0: 2 * parameters,
        1: 2 * parameters,
        2: (micro_batches + 1) * parameters,
        3: micro_batches * (3 * parameters + 2 * tied),
    }[stage]
    return PRECISIONS[precision].parameter * moved


def checked(*, stage: int, ranks: int) -> None:
    if stage not in STAGES:
        raise ValueError(f"ZeRO has stages 0 to 3, not {stage}")
    if ranks < 1:
        raise ValueError("there is at least one rank")


# --- the labs' own pieces, with padding, buckets and Adam's step counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The parameters that a piece owns, trained and frozen. With tied weights it also uses some that piece number
    `borrows` owns: of its trained ones, or of its frozen ones.
    """

    trained: int
    frozen: int = 0
    borrows: int | None = None
    borrows_frozen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a stage of the labs holds and sends: model states at rest and at peak (the same), the peak of
    communication buffers, and each collective.
    """

    states: ModelStates
    communication: int
    collectives: dict[str, Count]

    @property
    def traffic(self) -> int:
        return sum(count.bytes for count in self.collectives.values())


STEP_COUNTER = 4  # bytes: Adam counts its steps in one fp32 scalar for each tensor it updates


def pieces_of(pieces: Sequence[nn.Module]) -> list[Piece]:
    """The sizes of a model's pieces; a shared parameter belongs to the first piece that has it."""
    owner: dict[int, int] = {}
    sizes = []
    for index, piece in enumerate(pieces):
        shared = next((p for p in piece.parameters() if id(p) in owner), None)
        own = [p for p in piece.parameters() if id(p) not in owner]
        owner.update((id(p), index) for p in own)
        trained = sum(p.numel() for p in own if p.requires_grad)
        frozen = sum(p.numel() for p in own if not p.requires_grad)
        sizes.append(
            Piece(
                trained=trained,
                frozen=frozen,
                borrows=None if shared is None else owner[id(shared)],
                borrows_frozen=shared is not None and not shared.requires_grad,
            )
        )
    return sizes


def predict(
    pieces: Sequence[Piece], *, stage: int, ranks: int, precision: str = "fp32", micro_batches: int = 1
) -> Prediction:
    """Bytes of `labs/strategies` on each rank, to the byte. Every unit is padded to a multiple of `ranks`."""
    checked(stage=stage, ranks=ranks)
    cost = PRECISIONS[precision]

    def padded(size: int) -> int:
        return -(-size // ranks) * ranks

    trained = [padded(piece.trained) for piece in pieces if piece.trained]
    frozen = [padded(piece.frozen) for piece in pieces if piece.frozen]
    parts = [1 if stage < level else ranks for level in (3, 2, 1)]
    states = ModelStates(
        parameters=cost.parameter * (sum(trained) + sum(frozen)) // parts[0],
        gradients=cost.gradient * sum(trained) // parts[1],
        optimizer_states=cost.optimizer_states * sum(trained) // parts[2] + STEP_COUNTER * len(trained),
    )

    gathers = []
    for piece in pieces:
        needed = [piece.trained, piece.frozen]
        if piece.borrows is not None:
            lender = pieces[piece.borrows]
            needed.append(lender.frozen if piece.borrows_frozen else lender.trained)
        gathers.append([padded(size) for size in needed if size])
    buckets = [padded(piece.trained) for piece in pieces]
    communication = {
        0: 0,
        1: 0,
        2: max(buckets),
        3: max(sum(gather) + bucket for gather, bucket in zip(gathers, buckets, strict=True)),
    }[stage]

    def count(times: int, sizes: list[int], *, factor: int = 1) -> Count:
        return Count(count=times * len(sizes), bytes=times * factor * cost.parameter * sum(sizes))

    k = micro_batches
    collectives = {
        0: {"all_reduce": count(1, trained, factor=2)},
        1: {"all_gather": count(1, trained), "reduce_scatter": count(1, trained)},
        2: {"all_gather": count(1, trained), "reduce_scatter": count(k, trained)},
        3: {
            "all_gather": count(2 * k, [size for gather in gathers for size in gather]),
            "reduce_scatter": count(k, trained),
        },
    }[stage]
    return Prediction(states=states, communication=cost.parameter * communication, collectives=collectives)
