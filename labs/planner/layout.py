"""What a rank holds and sends where data, pipeline, tensor and context parallelism meet: to the byte, by axis.

d data, p pipeline, t tensor and c context ranks; a stage has l of the layers; D hidden, V vocabulary, S positions

parameters     (12 D^2 + 7 D) / t + 6 D          of each of l layers: a t-th of the matrices, all of the norms
states         ZeRO-1 shares them out over d c   ranks that hold the same parameters
tensor         4 B S D a layer, or as much in two halves with sequence parallelism     (Korthikanti et al. 2022)
pipeline       B S D a boundary, each way                                              (Narayanan et al. 2021)
data           2 P_rank                                                                (Rajbhandari et al. 2020)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labs.planner import context, pipeline
from labs.planner.zero import PRECISIONS, Count, ModelStates, Piece, Prediction, predict
from labs.strategies.layout import Layout
from labs.strategies.schedules import layers_of

Traffic = dict[str, dict[str, Count]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained how: the layout, the course's GPT, and the micro-batches of one data rank in one step.

    The small BLOOM has biases of queries, keys and values, and in the place of positions a norm of the embedding.
    """

    layout: Layout
    layers: int
    hidden: int
    sequence: int
    micro_batch: int
    micro_batches: int
    precision: str = "fp32"
    vocabulary: int = 256
    tied: bool = False
    recompute: str = "none"
    query_biases: bool = False
    positions: bool = True
    embedding_norm: bool = False

    @property
    def value(self) -> int:
        """Bytes of a parameter, a gradient and an activation."""
        return PRECISIONS[self.precision].parameter

    def stages(self, rank: int) -> list[int]:
        """Layers of each stage that a rank holds."""
        every = layers_of(layers=self.layers, stages=self.layout.pp * self.layout.chunks)
        return [every[stage] for stage in self.layout.stages(rank)]

    def first(self, rank: int) -> bool:
        """Whether a rank has the embedding."""
        return self.layout.coordinates(rank)["pipeline"] == 0

    def last(self, rank: int) -> bool:
        """Whether a rank has the head."""
        return self.layout.coordinates(rank)["pipeline"] == self.layout.pp - 1

    @property
    def vocabulary_rows(self) -> int:
        """Of the embedding and of the head on a tensor rank, with those that only fill up."""
        return -(-self.vocabulary // self.layout.tp)

    @property
    def beside_tokens(self) -> int:
        """Parameters of the embedding that are not its table of tokens."""
        return (self.sequence * self.hidden if self.positions else 0) + (2 * self.hidden if self.embedding_norm else 0)


# --- what a rank holds


def pieces(training: Training, rank: int) -> list[Piece]:
    """The parameters of each piece of the model on a rank: a t-th of every matrix, and the whole of what is small."""
    d, t = training.hidden, training.layout.tp
    token = training.vocabulary_rows * d
    block = Piece(trained=(12 * d * d + (7 if training.query_biases else 4) * d) // t + 6 * d)
    found = []
    for stage, layers in zip(training.layout.stages(rank), training.stages(rank), strict=True):
        if stage == 0:
            found.append(Piece(trained=token + training.beside_tokens))
        found += [block] * layers
        if stage == training.layout.pp * training.layout.chunks - 1:
            shared = training.tied and training.layout.pp == 1
            found.append(Piece(trained=2 * d if shared else 2 * d + token))
    return found


def whole(training: Training, rank: int) -> int:
    """Parameters of a rank's stages of which every tensor rank has the whole: norms, biases after a sum, positions."""
    d = training.hidden
    first = training.beside_tokens if training.first(rank) else 0
    return 6 * d * sum(training.stages(rank)) + first + (2 * d if training.last(rank) else 0)


def prediction(training: Training, rank: int) -> Prediction:
    """The formula of data parallelism or ZeRO for the parameters of this rank, over all ranks that hold the same."""
    layout = training.layout
    return predict(pieces(training, rank), stage=layout.zero, ranks=layout.dp * layout.cp, precision=training.precision)


def states(training: Training, rank: int) -> ModelStates:
    """Bytes at rest, each unit padded to a multiple of the ranks that share it."""
    return prediction(training, rank).states


# --- what it sends, by axis


def traffic(training: Training, rank: int) -> Traffic:
    """Collectives and bytes of one step on each axis, without the one number of clipping."""
    layout = training.layout
    found: Traffic = {}
    for axis, counts in (
        ("pipeline", pipeline_traffic(training, rank)),
        ("data", prediction(training, rank).collectives if layout.dp * layout.cp > 1 else {}),
        ("context", context_traffic(training, rank)),
        ("tensor", tensor_traffic(training, rank)),
    ):
        if counts:
            found[axis] = counts
    return found


def stream(training: Training) -> int:
    """Bytes of the activations of one micro-batch on a context rank, B L D, whole on the tensor axis."""
    return training.micro_batch * training.layout.positions(training.sequence) * training.hidden * training.value


def pipeline_traffic(training: Training, rank: int) -> dict[str, Count]:
    """A boundary's activations there and their gradients back; with sequence parallelism a t-th of them."""
    layout = training.layout
    return pipeline.collectives(
        rank=layout.coordinates(rank)["pipeline"],
        stages=layout.pp,
        micro_batches=training.micro_batches,
        message=stream(training) // (layout.tp if layout.sequence else 1),
        chunks=layout.chunks,
        tied=training.vocabulary_rows * training.hidden * training.value if training.tied else 0,
    )


def context_traffic(training: Training, rank: int) -> dict[str, Count]:
    """A ring in each layer, of the keys and values of this rank's heads; recomputed, it goes round once more."""
    layout = training.layout
    if layout.cp == 1:
        return {}
    ring = context.collectives(
        layers=sum(training.stages(rank)),
        hidden=training.hidden // layout.tp,
        sequence=training.sequence,
        batch=training.micro_batch,
        ranks=layout.cp,
        order="zigzag",
        precision=training.precision,
        micro_batches=training.micro_batches,
    )
    if training.recompute == "none":
        return ring
    turns = training.micro_batches * sum(training.stages(rank)) * (layout.cp - 1)
    more = Count(count=turns, bytes=turns * 2 * stream(training) // layout.tp)
    return {name: plus(count, more) for name, count in ring.items()}


def tensor_traffic(training: Training, rank: int) -> dict[str, Count]:
    """What every split product needs before it or after it, and three numbers for each prediction of the loss."""
    layout = training.layout
    if layout.tp == 1:
        return {}
    found: dict[str, Count] = {}
    for name, times in per_micro_batch(training, rank):
        found[name] = plus(found.get(name), moved(name, stream(training), times * training.micro_batches))
    if training.last(rank):
        predictions = training.micro_batch * true_positions(training, rank) * max(4, training.value)
        loss = plus(moved("all_reduce", predictions), moved("all_reduce", 2 * predictions))
        for _ in range(training.micro_batches):
            found["all_reduce"] = plus(found.get("all_reduce"), loss)
    if layout.sequence:
        sums = moved("all_reduce", whole(training, rank) * training.value)
        found["all_reduce"] = plus(found.get("all_reduce"), sums)
    return {name: count for name, count in found.items() if count.count}


def per_micro_batch(training: Training, rank: int) -> Iterator[tuple[str, int]]:
    """How often B L D goes through each collective. What runs again in backward ends before the last sum of a block."""
    layers, again = sum(training.stages(rank)), training.recompute == "full"
    first, last = training.first(rank), training.last(rank)
    if training.layout.sequence:
        yield "all_gather", (8 if again else 6) * layers + first + 2 * last
        yield "reduce_scatter", (5 if again else 4) * layers + first + last
    else:
        yield "all_reduce", (5 if again else 4) * layers + first + last


def true_positions(training: Training, rank: int) -> int:
    """Positions of a rank that are no padding."""
    ranks, here = training.layout.cp, training.layout.coordinates(rank)["context"]
    if ranks == 1:
        return training.sequence
    size = context.chunk(sequence=training.sequence, ranks=ranks, order="zigzag")
    return sum(max(0, min(size, training.sequence - size * chunk)) for chunk in (here, 2 * ranks - 1 - here))


def moved(name: str, size: int, times: int = 1) -> Count:
    """A collective on a buffer of so many bytes, counted twice where it is an all-reduce."""
    return Count(count=times, bytes=times * size * (2 if name == "all_reduce" else 1))


def plus(a: Count | None, b: Count) -> Count:
    return b if a is None else Count(count=a.count + b.count, bytes=a.bytes + b.bytes)
