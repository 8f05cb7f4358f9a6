"""The bytes of tensor and sequence parallelism: the papers' formulas, and the same for the labs' own GPT, to the byte.

Tensor parallelism all-reduces (B, S, D) four times in each layer, twice in forward and twice in backward (Shoeybi et
al. 2019, section 3; Narayanan et al. 2021, section 3.2). Sequence parallelism does each as a reduce-scatter and an
all-gather, and gathers twice more in backward what it did not keep (Korthikanti et al. 2022, section 4.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner.zero import PRECISIONS, STEP_COUNTER, Count, ModelStates, Prediction


def layer_traffic(*, batch: int, sequence: int, hidden: int, ranks: int) -> float:
    """Elements that a device sends in a layer for one micro-batch, forward and backward: 8 b s h (t - 1) / t (Narayanan
    et al. 2021, section 3.2). Counted by the buffer, as our labs count, it is 8 b s h: links carry (t - 1) / t of it.
    """
    return 8 * batch * sequence * hidden * (ranks - 1) / ranks


def padded_vocabulary(*, vocabulary: int, ranks: int, multiple: int = 1) -> int:
    """Rows of embedding and head, filled up so that each rank has equally many. Megatron makes each rank's part a
    multiple of 128, a size that suits its kernels (Shoeybi et al. 2019, section 5.1); our labs of 1.
    """
    step = ranks * multiple
    return -(-vocabulary // step) * step


def whole_parameters(*, layers: int, hidden: int, sequence: int) -> int:
    """Parameters of the labs' GPT that every rank has whole: in each layer two norms and two biases that are added
    after a sum, the last norm, and the positions' embedding.
    """
    return layers * 6 * hidden + 2 * hidden + sequence * hidden


def lab_traffic(*, layers: int, hidden: int, sequence: int, batch: int, ranks: int, precision: str = "fp32") -> int:
    """Bytes that the labs' GPT moves in a step of one micro-batch, counted by the buffer."""
    split = Split(
        layers=layers, hidden=hidden, heads=ranks, sequence=sequence, batch=batch, vocabulary=256, ranks=ranks
    )
    return sum(count.bytes for count in predict(split, precision=precision).collectives.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The labs' GPT on `ranks` ranks of a tensor axis; each works on the whole micro-batch of `batch` sequences."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    ranks: int
    tied: bool = False
    sequence_parallel: bool = False

    @property
    def tokens(self) -> int:
        """The rows of the vocabulary that a rank has, zeros that fill it up included."""
        return padded_vocabulary(vocabulary=self.vocabulary, ranks=self.ranks) // self.ranks

    @property
    def replicated(self) -> int:
        """Parameters that every rank has whole: norms, the biases of row-parallel layers, positions."""
        return whole_parameters(layers=self.layers, hidden=self.hidden, sequence=self.sequence)

    @property
    def sharded(self) -> int:
        """Parameters of which a rank has its own part: in each layer 12 D^2 and a bias of 4 D; embedding and head."""
        matrices = self.layers * (12 * self.hidden**2 + 4 * self.hidden) // self.ranks
        return matrices + (1 if self.tied else 2) * self.tokens * self.hidden

    @property
    def tensors(self) -> int:
        return 4 + 11 * self.layers + (0 if self.tied else 1)

    def stream(self, value: int) -> int:
        """Bytes of one (B, S, D) tensor of values of so many bytes."""
        return self.batch * self.sequence * self.hidden * value

    # --- activations

    def block(self, value: int) -> int:
        """Bytes that one block keeps for backward. Whole on every rank, or a t-th with sequence parallelism: what goes
        into each norm and what comes out (4 streams), each norm's means and deviations. A t-th: queries, keys, values,
        what attention gives (4 streams) and a number a row of it, and the two wide tensors of the network (8 streams).
        """
        examples = self.batch * self.sequence
        between = 4 * self.stream(value) + 4 * examples * value
        inside = 12 * self.stream(value) + examples * self.heads * max(value, 4)
        return (between // self.ranks if self.sequence_parallel else between) + inside // self.ranks

    def around(self, value: int) -> int:
        """Bytes kept outside of the blocks. Integers: the rank's own rows of tokens and targets, which of them are its
        own, positions. The last norm's input and output, mean and deviation; the probabilities, the loss and its mean,
        in at least 4 bytes.
        """
        examples, wide = self.batch * self.sequence, max(value, 4)
        indices = 2 * (8 + 1) * examples + 8 * self.sequence
        norm = 2 * self.stream(value) + 2 * examples * value
        return indices + (norm // self.ranks if self.sequence_parallel else norm) + wide * (examples * self.tokens + 1)

    def kept(self, precision: str) -> int:
        """Bytes between forward and backward."""
        value = PRECISIONS[precision].parameter
        return self.around(value) + self.layers * self.block(value)


def predict(split: Split, *, precision: str = "fp32", micro_batches: int = 1) -> Prediction:
    """What each rank holds at rest and moves in one step. `communication` is the largest buffer of a collective."""
    cost = PRECISIONS[precision]
    held = split.sharded + split.replicated
    states = ModelStates(
        parameters=cost.parameter * held,
        gradients=cost.gradient * held,
        optimizer_states=cost.optimizer_states * held + STEP_COUNTER * split.tensors,
    )
    stream = split.stream(cost.parameter)
    # The loss: a maximum of each token's logits, then two sums, in at least 4 bytes; an all-reduce counts twice.
    numbers = max(cost.parameter, 4) * split.batch * split.sequence
    if split.sequence_parallel:
        gathers, scatters = 6 * split.layers + 3, 4 * split.layers + 2
        collectives = {
            "all_gather": Count(count=micro_batches * gathers, bytes=micro_batches * gathers * stream),
            "reduce_scatter": Count(count=micro_batches * scatters, bytes=micro_batches * scatters * stream),
            "all_reduce": Count(
                count=micro_batches * 2 + 1,
                bytes=micro_batches * 2 * 3 * numbers + 2 * cost.gradient * split.replicated,
            ),
        }
    else:
        sums = 4 * split.layers + 2
        collectives = {
            "all_reduce": Count(
                count=micro_batches * (sums + 2), bytes=micro_batches * 2 * (sums * stream + 3 * numbers)
            )
        }
    return Prediction(states=states, communication=stream, collectives=collectives)
